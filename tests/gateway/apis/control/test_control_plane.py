"""The control plane as boto3 and other clients have it, through a gateway that runs."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError

from partway.gateway.gateway import Gateway
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.store.memory import MemoryStore
from partway.gateway.storage.store.store import StoreError
from tests.gateway.apis.aws_client import ARN, PRINCIPALS, READING, sagemaker, send, signed
from tests.wire.conftest import container, gateway_for
from tests.wire.peers import RunningGateway, eventually, soon
from tests.wire.plain_requests import FORMS

__all__ = ["container", "gateway_for"]

NOW = 1_700_000_000.25


@pytest.fixture
async def principals(tmp_path):
    path = tmp_path / "principals.toml"
    path.write_text(PRINCIPALS)
    path.chmod(0o600)
    return path


def error_of(call, **members):
    """Code, message and status of what a call of boto3's fails with."""
    with pytest.raises(ClientError) as caught:
        call(**members)
    answer = caught.value.response
    status = answer["ResponseMetadata"]["HTTPStatusCode"]
    return answer["Error"]["Code"], answer["Error"]["Message"], status


def deploy(port):
    """What a script does before it makes an endpoint, and takes back after it."""
    client = sagemaker(port)
    container = {"Image": "echo", "Environment": {"LEVEL": "debug"}}
    tags = [{"Key": "team", "Value": "überall"}]
    model = client.create_model(ModelName="Echo", PrimaryContainer=container, Tags=tags)
    assert model["ModelArn"] == f"{ARN}model/echo"
    variant = {"VariantName": "AllTraffic", "ModelName": "Echo", "InitialInstanceCount": 1,
               "InstanceType": "ml.m5.large"}  # fmt: skip
    config = client.create_endpoint_config(EndpointConfigName="One", ProductionVariants=[variant])
    assert config["EndpointConfigArn"] == f"{ARN}endpoint-config/one"

    described = client.describe_model(ModelName="echo")
    assert described["PrimaryContainer"] == {"Mode": "SingleModel", **container}
    assert abs(described["CreationTime"] - datetime.now(UTC)).total_seconds() < 600
    described = client.describe_endpoint_config(EndpointConfigName="one")
    assert described["ProductionVariants"] == [{**variant, "InitialVariantWeight": 1.0}]
    assert client.list_tags(ResourceArn=model["ModelArn"])["Tags"] == tags
    client.add_tags(ResourceArn=model["ModelArn"], Tags=[{"Key": "a", "Value": ""}])
    client.delete_tags(ResourceArn=model["ModelArn"], TagKeys=["team"])
    (page,) = client.get_paginator("list_tags").paginate(ResourceArn=model["ModelArn"])
    assert page["Tags"] == [{"Key": "a", "Value": ""}]

    client.delete_model(ModelName="Echo")
    assert error_of(client.describe_model, ModelName="Echo") == (
        "ValidationException", f'Could not find model "{ARN}model/echo".', 400,
    )  # fmt: skip
    client.delete_endpoint_config(EndpointConfigName="One")
    assert client.list_endpoint_configs()["EndpointConfigs"] == []


@pytest.mark.parametrize("auth", ["none", "sigv4"])
async def test_a_script_of_boto3s(gateway_for, principals, auth):
    who = {"auth": auth, "principals": principals} if auth == "sigv4" else {}
    gateway = await gateway_for(**who)
    await asyncio.to_thread(deploy, gateway.port)


async def test_paginators_bring_everything_once(gateway_for):
    gateway = await gateway_for()

    def pages():
        client = sagemaker(gateway.port)
        names = [f"m{number:02}" for number in range(23)]
        for name in names:
            client.create_model(ModelName=name, PrimaryContainer={"Image": "echo"})
            client.create_endpoint_config(
                EndpointConfigName=name,
                ProductionVariants=[
                    {"VariantName": "a", "ModelName": name, "InitialInstanceCount": 1}
                ],
            )
        for operation, output, key in (
            ("list_models", "Models", "ModelName"),
            ("list_endpoint_configs", "EndpointConfigs", "EndpointConfigName"),
        ):
            paginator = client.get_paginator(operation)
            found = list(paginator.paginate(SortBy="Name", SortOrder="Ascending"))
            assert [len(page[output]) for page in found] == [10, 10, 3]
            assert [each[key] for page in found for each in page[output]] == names
            some = paginator.paginate(NameContains="1", PaginationConfig={"PageSize": 4})
            assert len(list(some.search(f"{output}[].{key}"))) == 12
        late = client.list_models(CreationTimeAfter=datetime(2100, 1, 1, tzinfo=UTC))
        assert late["Models"] == []
        return error_of(client.list_models, NextToken="x")

    code, message, _ = await asyncio.to_thread(pages)
    assert (code, message[:26]) == ("ValidationException", "The NextToken is not valid")


async def test_errors_are_told_by_their_names(gateway_for):
    gateway = await gateway_for()

    def errors():
        client = sagemaker(gateway.port)
        client.create_model(ModelName="Echo", PrimaryContainer={"Image": "echo"})
        return [
            error_of(client.create_model, ModelName="echo", PrimaryContainer={"Image": "echo"}),
            error_of(client.describe_model, ModelName="a_b"),
            error_of(client.create_model, ModelName="b", EnableNetworkIsolation=True),
            error_of(client.list_domains),
        ]

    conflict, invalid, refused, unknown = await asyncio.to_thread(errors)
    assert conflict == (
        "ValidationException", f'Cannot create already existing model "{ARN}model/echo".', 400,
    )  # fmt: skip
    assert invalid[1].startswith(
        "1 validation error detected: Value 'a_b' at 'modelName' failed to satisfy constraint: "
    )
    assert "EnableNetworkIsolation (containers are not cut off" in refused[1]
    assert unknown[0] == "UnknownOperationException"
    assert "'SageMaker.ListDomains' is not an operation of this gateway" in unknown[1]
    assert "SageMaker.CreateModel, " in unknown[1]


async def test_who_may_not_is_told_so(gateway_for, principals):
    gateway = await gateway_for(auth="sigv4", principals=principals)

    def errors():
        sagemaker(gateway.port).create_model(ModelName="Echo", PrimaryContainer={"Image": "echo"})
        reading = sagemaker(gateway.port, READING)
        assert reading.describe_model(ModelName="ECHO")["ModelName"] == "Echo"
        return [
            error_of(reading.describe_model, ModelName="other"),
            error_of(reading.delete_model, ModelName="echo"),
            error_of(reading.list_models),
        ]

    for code, message, status in await asyncio.to_thread(errors):
        assert (code, status) == ("AccessDeniedException", 400)
        assert "is not authorized to perform: sagemaker:" in message


@pytest.mark.clause("2.4-1", "2.4-3")
async def test_signatures_by_header_and_by_query_and_what_they_cover(gateway_for, principals):
    gateway = await gateway_for(auth="sigv4", principals=principals)
    port = gateway.port

    def ask():
        answers = [send(port, signed(port, "ListModels", b"{}"))]
        answers.append(send(port, signed(port, "ListModels", b"", "presigned")))
        for how, body in (("header", b"{}"), ("presigned", b"")):
            changed = signed(port, "ListModels", body, how)
            changed.headers.replace_header("X-Amz-Target", "SageMaker.ListEndpointConfigs")
            answers.append(send(port, changed))
            changed = signed(port, "ListModels", body, how)
            changed.data = b'{"MaxResults": 1}'
            answers.append(send(port, changed))
        return answers

    good, presigned, *bad = await asyncio.to_thread(ask)
    assert good == presigned == (200, {"Models": []})
    assert [(status, answer["__type"]) for status, answer in bad] == [
        (400, "InvalidSignatureException")
    ] * 4


@pytest.mark.parametrize("form", FORMS)
async def test_it_answers_over_each_http(gateway_for, form):
    gateway = await gateway_for()
    body = json.dumps({"ModelName": "Echo", "PrimaryContainer": {"Image": "echo"}}).encode()
    head = [("x-amz-target", "SageMaker.CreateModel")]
    client = await FORMS[form].connect(gateway)
    json_type = {"content-type": "application/x-amz-json-1.1", "authority": "localhost"}
    client.ask("/", body, head, **json_type)
    assert await client.answer() == (200, b'{"ModelArn":"%smodel/echo"}' % ARN.encode())
    client = await FORMS[form].connect(gateway)
    client.ask("/", body, head, **json_type)
    status, answer = await client.answer()
    assert (status, json.loads(answer)["__type"]) == (400, "ValidationException")


async def test_a_proxy_that_is_told_nothing_else_is_known_by_its_http(gateway_for):
    gateway = await gateway_for()
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(
        b"POST / HTTP/1.0\r\nHost: localhost\r\nX-Amz-Target: SageMaker.ListModels\r\n"
        b"Content-Type: application/x-amz-json-1.1\r\nContent-Length: 2\r\n\r\n{}"
    )
    head, _, body = (await soon(reader.read(), "the answer")).partition(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.0 400 ")
    assert json.loads(body)["__type"] == "AccessDeniedException"


async def test_what_was_made_is_there_for_the_next_gateway(gateway_for):
    store = MemoryStore()

    def create(port):
        sagemaker(port).create_model(ModelName="Echo", PrimaryContainer={"Image": "echo"})

    first = await gateway_for(store=store)
    await asyncio.to_thread(create, first.port)
    await first.stop()
    second = await gateway_for(store=store)
    found = await asyncio.to_thread(sagemaker(second.port).list_models)
    assert [each["ModelName"] for each in found["Models"]] == ["Echo"]


async def test_a_full_disk_is_an_internal_failure_and_nothing_is_there(gateway_for, monkeypatch):
    store = MemoryStore()
    gateway = await gateway_for(store=store)

    async def full(*_):
        raise StoreError("No space left on device")

    def create():
        client = sagemaker(gateway.port)
        error = error_of(client.create_model, ModelName="a", PrimaryContainer={"Image": "echo"})
        return error, client.list_models()["Models"]

    monkeypatch.setattr(store, "write", full)
    (code, message, status), there = await asyncio.to_thread(create)
    assert (code, status, there) == ("InternalFailure", 500, [])
    assert message.startswith("the gateway cannot store the change")


async def test_a_gateway_whose_store_cannot_be_read_does_not_start(monkeypatch):
    store = MemoryStore()

    async def broken(_):
        raise StoreError("the database is malformed")

    monkeypatch.setattr(store, "records", broken)
    with pytest.raises(StoreError, match="malformed"):
        await Gateway(Settings(port=0), store=store).start()


@pytest.mark.parametrize("full", [False, True])
async def test_a_change_whose_client_leaves_is_made_and_known(
    gateway_for, monkeypatch, caplog, full
):
    """What is written down and what is said would differ, if the change were broken off between."""
    caplog.set_level("INFO", "partway")
    store = MemoryStore()
    gateway: RunningGateway = await gateway_for(store=store)
    began, go_on, written = asyncio.Event(), asyncio.Event(), asyncio.Event()
    write = store.write

    async def slow(*changes):
        began.set()
        await go_on.wait()
        written.set()
        if full:
            raise StoreError("No space left on device")
        await write(*changes)

    monkeypatch.setattr(store, "write", slow)
    client = await FORMS["length"].connect(gateway)
    body = json.dumps({"ModelName": "Echo", "PrimaryContainer": {"Image": "echo"}}).encode()
    head = [("x-amz-target", "SageMaker.CreateModel")]
    client.ask("/", body, head, **{"content-type": "application/json", "authority": "localhost"})
    await began.wait()
    client.leave()
    await eventually(lambda: "client left" in caplog.text)
    assert audit_of(caplog) == []
    go_on.set()
    await written.wait()
    found = await asyncio.to_thread(sagemaker(gateway.port).list_models)
    assert [each["ModelName"] for each in found["Models"]] == ([] if full else ["Echo"])
    outcome = "InternalServerError" if full else "done"
    await eventually(lambda: bool(audit_of(caplog)))
    assert audit_of(caplog) == [("sagemaker:CreateModel", f"{ARN}model/echo", outcome)]


def audit_of(caplog):
    """Action, resource and outcome of each change in the log."""
    lines = [record.msg.fields for record in caplog.records if record.name == "partway.audit"]
    return [(line["action"], line["resource"], line["outcome"]) for line in lines]
