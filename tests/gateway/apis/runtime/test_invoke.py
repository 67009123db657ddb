"""gateway.apis.runtime.invoke: InvokeEndpoint by boto3, and by peers that send every byte."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest
from botocore.credentials import Credentials
from botocore.exceptions import (
    ConnectionClosedError,
    IncompleteReadError,
    ResponseStreamingError,
)

from partway.gateway.apis.requests_service import RequestsService
from partway.gateway.containers.answers import AnswerHead
from partway.gateway.fleet.endpoint import Attached, Endpoint, Variant
from partway.gateway.fleet.launchers.process import free_port
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.limits import MAX_INVOCATION_BODY
from partway.gateway.network.dialling import Address
from partway.protocol.limits import MIB, REFUSAL_BODY_BYTES
from tests.gateway.apis.aws_client import aws
from tests.gateway.conftest import container, gateway_for
from tests.gateway.containers.containers import HOST, OK, PATIENCE, ScriptedContainer
from tests.gateway.fleet.waiting import eventually, soon
from tests.wire.event_signing import KEY_ID, SECRET
from tests.wire.peers import ENDPOINT
from tests.wire.plain_requests import VERSIONS

__all__ = ["container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

PRINCIPALS = f"""
[[principals]]
name = "caller"
resources = ["arn:aws:sagemaker:us-east-1:000000000000:endpoint/{ENDPOINT}"]
[[principals.keys]]
access_key_id = "{KEY_ID}"
secret_access_key = "{SECRET}"
"""

PATH = f"/endpoints/{ENDPOINT}/invocations"
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"


def answer(status=b"200 OK", body=b"ok", *headers):
    lines = [b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % len(body), b"", body]
    return b"\r\n".join(lines)


def saying(*said):
    """A container that says this to every request."""

    async def script(call):
        while True:
            await call.request()
            call.say(*said)

    return script


class Boto3:
    """boto3's client, on threads of its own."""

    def __init__(self, gateway):
        self._client = aws("sagemaker-runtime", gateway.port, Credentials(KEY_ID, SECRET))
        self.exceptions = self._client.exceptions

    def _invoke(self, body=b"hello", **members):
        members.setdefault("EndpointName", ENDPOINT)
        found = self._client.invoke_endpoint(Body=body, **members)
        return found | {"Body": found["Body"].read()}

    async def invoke(self, body=b"hello", **members):
        return await soon(asyncio.to_thread(self._invoke, body, **members))

    async def fails(self, kind, **members):
        """The response of one of boto3's exceptions, which is let go: it has a connection."""

        def ask():
            try:
                self._invoke(**members)
            except getattr(self.exceptions, kind) as error:
                return error.response
            return None

        response = await soon(asyncio.to_thread(ask))
        assert response is not None, "it succeeded"
        return response

    def close(self):
        self._client.close()


@pytest.fixture
async def asking(gateway_for):
    """Starts a container with a script and a gateway before it; yields boto3 and the container."""
    running, clients = [], []

    async def start(script, policy=None, **settings):
        scripted = await ScriptedContainer(script).__aenter__()
        running.append(scripted)
        gateway = await gateway_for(policy, container_port=scripted.port, **settings)
        clients.append(Boto3(gateway))
        scripted.gateway = gateway
        return clients[-1], scripted

    yield start
    for client in clients:
        client.close()
    for scripted in running:
        await scripted.__aexit__()


# --- There and back ------------------------------------------------------------------------------


async def test_every_member_goes_along_and_comes_back(asking):
    boto, container = await asking(
        saying(
            answer(
                b"201 Created",
                b"answer",
                b"Content-Type: text/x",
                ATTRIBUTES.encode() + b": mine",
                b"X-Amzn-SageMaker-New-Session-Id: abc; Expires=2099-01-01T00:00:00Z",
                b"X-Amzn-SageMaker-Closed-Session-Id: old",
                b"Set-Cookie: not=this",
            )
        )
    )
    found = await boto.invoke(
        ContentType="a/b",
        Accept="c/d",
        CustomAttributes="e=f",
        TargetModel="g.tar.gz",
        TargetVariant="AllTraffic",
        InferenceId="i",
        EnableExplanations="`[1]`",
        InferenceComponentName="j",
        SessionId="NEW_SESSION",
    )
    metadata = found.pop("ResponseMetadata")
    begun_id, expires = found.pop("NewSessionId").split("; ")
    begun_session, mark = begun_id.rsplit("-i", 1)
    assert (begun_session, expires) == ("abc", "Expires=2099-01-01T00:00:00Z")
    assert found == {
        "Body": b"answer",
        "ContentType": "text/x",
        "InvokedProductionVariant": "AllTraffic",
        "CustomAttributes": "mine",
        "ClosedSessionId": f"old-i{mark}",
    }
    assert metadata["HTTPStatusCode"] == 200
    assert "set-cookie" not in metadata["HTTPHeaders"]
    assert_no_page(metadata["HTTPHeaders"])
    prefix = "X-Amzn-SageMaker-"
    assert container.calls[0].heads[0].decode().split("\r\n") == [
        "POST /invocations HTTP/1.1",
        f"Host: {HOST}:{container.port}",
        "Content-Type: a/b",
        "Accept: c/d",
        f"{prefix}Custom-Attributes: e=f",
        f"{prefix}Target-Model: g.tar.gz",
        f"{prefix}Target-Variant: AllTraffic",
        f"{prefix}Inference-Id: i",
        f"{prefix}Enable-Explanations: `[1]`",
        f"{prefix}Inference-Component: j",
        f"{prefix}Session-Id: NEW_SESSION",
        f"{prefix}Request-Id: {metadata['RequestId']}",
        "Content-Length: 5",
        "",
        "",
    ]


def assert_no_page(headers):
    """A browser is to make no page of what a container answers: it would be of our origin."""
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "sandbox"


async def test_an_answer_in_pieces_is_no_page_either(asking):
    pieces = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    boto, _ = await asking(saying(pieces, b"3\r\n<p>\r\n", b"0\r\n\r\n"))
    assert_no_page((await boto.invoke())["ResponseMetadata"]["HTTPHeaders"])


async def test_no_header_is_made_up(asking):
    boto, container = await asking(saying(OK))
    await boto.invoke()
    names = [line.partition(b":")[0] for line in container.calls[0].heads[0].split(b"\r\n")[1:-2]]
    assert names == [b"Host", b"X-Amzn-SageMaker-Request-Id", b"Content-Length"]


@pytest.mark.parametrize("size", [0, 1, 100_000, MAX_INVOCATION_BODY])
async def test_a_body_of_any_size(asking, size):
    async def echo(call):
        while True:
            body = await call.request()
            call.say(answer(body=body))

    boto, _ = await asking(echo)
    assert (await boto.invoke(bytes(size)))["Body"] == bytes(size)


@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
@pytest.mark.parametrize("size", [10, 3 * MIB])
async def test_over_both_versions_of_http(asking, version, size):
    async def echo(call):
        while True:
            body = await call.request()
            call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            call.say(b"%x\r\n" % len(body), body, b"\r\n0\r\n\r\n")

    _, container = await asking(echo)
    client = await version.connect(container.gateway)
    client.ask(f"/base/endpoints/{ENDPOINT}/invocations", bytes(size))
    assert await client.answer() == (200, bytes(size))


async def test_a_connection_is_used_for_many(asking):
    boto, container = await asking(saying(OK))
    for _ in range(3):
        await boto.invoke()
    assert len(container.calls) == 1


def request(attributes, body):
    lines = (f"POST {PATH} HTTP/1.1", "Host: a", f"{ATTRIBUTES}: {attributes}")
    head = "\r\n".join((*lines, f"Content-Length: {len(body)}", "", ""))
    return head.encode() + body


async def answered(reader):
    """A response: its headers by name, and its body."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
    headers = dict(line.split(": ") for line in lines)
    return headers, await reader.readexactly(int(headers["Content-Length"]))


async def test_what_is_remembered_of_one_request_is_in_no_other(asking):
    """Clients in turn, each with the same head each time, by the one connection of a container."""

    async def script(call):
        while True:
            head = await call.head()
            said = head.partition(f"{ATTRIBUTES}: ".encode())[2].partition(b"\r\n")[0]
            body = await call.body(head)
            call.say(answer(b"200 OK", body, ATTRIBUTES.encode() + b": from " + said))

    _, container = await asking(script)
    port = container.gateway.port
    clients = {name: await asyncio.open_connection(HOST, port) for name in ("a", "b")}
    ids = []
    for number, name in enumerate("aabbabab"):
        reader, writer = clients[name]
        writer.write(request(name, body := b"x" * number))
        headers, said = await soon(answered(reader))
        ids.append(headers.pop("x-amzn-requestid"))
        headers.pop("Date")
        assert (headers, said) == (
            {
                ATTRIBUTES: f"from {name}",
                "x-Amzn-Invoked-Production-Variant": "AllTraffic",
                "X-Content-Type-Options": "nosniff",
                "Content-Security-Policy": "sandbox",
                "Server": "partway",
                **({"Content-Type": "application/octet-stream"} if body else {}),
                "Content-Length": f"{number}",
            },
            body,
        )
    (call,) = container.calls
    authority = f"{HOST}:{container.port}"
    assert [each.decode() for each in call.heads] == [
        f"POST /invocations HTTP/1.1\r\nHost: {authority}\r\n{ATTRIBUTES}: {name}\r\n"
        f"X-Amzn-SageMaker-Request-Id: {id_}\r\nContent-Length: {number}\r\n\r\n"
        for number, (name, id_) in enumerate(zip("aabbabab", ids, strict=True))
    ]
    for _, writer in clients.values():
        writer.close()


async def test_what_a_container_says_of_sessions_is_no_other_requests(asking):
    """Its head is the same each time: a session that it closes is closed each time."""
    closed = answer(b"200 OK", b"ok", b"X-Amzn-SageMaker-Closed-Session-Id: abc")
    odd = answer(b"200 OK", b"ok", b"X-Amzn-SageMaker-Closed-Session-Id: no id")
    said = [closed, closed, odd, odd, OK, closed]

    async def script(call):
        for each in said:
            await call.request()
            call.say(each)

    boto, _ = await asking(script)
    found = [(await boto.invoke(SessionId="abc")).get("ClosedSessionId") for _ in said]
    assert found == ["abc", "abc", None, None, None, "abc"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
async def test_another_method_is_no_operation(asking, method):
    _, container = await asking(saying(OK))
    reader, writer = await asyncio.open_connection(HOST, container.gateway.port)
    writer.write(f"{method} /endpoints/{ENDPOINT}/invocations HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert b" 404 " in await soon(reader.readline())
    writer.close()
    assert container.calls == []


# --- Errors, as boto3 has them -------------------------------------------------------------------


@pytest.mark.clause("4-5", "4-6")
@pytest.mark.parametrize(
    ("status", "whose"), [(b"415 No", "client"), (b"500 No", "server"), (b"302 Found", "server")]
)
async def test_a_container_that_refuses(asking, status, whose):
    boto, _ = await asking(saying(answer(status, b"not this", b"Location: /elsewhere")))
    error = await boto.fails("ModelError")
    code = int(status[:3])
    message = f'Received {whose} error ({code}) from primary with message "not this"'
    assert error["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert error["Error"] == {"Code": "ModelError", "Message": message}
    assert error["OriginalStatusCode"] == code
    assert error["OriginalMessage"] == "not this"
    assert error["LogStreamArn"] == ""
    assert "ErrorCode" not in error


async def test_of_a_refusal_so_much_is_told(asking):
    boto, _ = await asking(saying(answer(b"500 No", b"x" * 10_000)))
    error = await boto.fails("ModelError")
    assert error["OriginalMessage"] == "x" * REFUSAL_BODY_BYTES


@pytest.mark.clause("4-6")
async def test_the_last_words_of_a_container_that_dies_of_what_it_reports(asking):
    async def script(call):
        await call.request()
        call.say(b"HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\nCUDA out of memory")

    boto, _ = await asking(script)
    error = await boto.fails("ModelError")
    assert (error["OriginalStatusCode"], error["OriginalMessage"]) == (500, "CUDA out of memory")


@pytest.mark.clause("4-6")
@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"nonsense\r\n\r\n", "not valid HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "Length"),
        (b"", "the connection ended before the head of an answer"),
    ],
)
async def test_a_broken_answer(asking, said, why):
    async def script(call):
        await call.request()
        call.say(said)

    boto, container = await asking(script)
    error = await boto.fails("ModelError")
    assert why in error["OriginalMessage"]
    assert error["OriginalStatusCode"] == 0
    assert error["Error"]["Message"].startswith("Received server error (0) from primary")
    assert len(container.calls) == 1


async def test_an_answer_that_breaks_off_is_seen_to_be_not_whole(asking):
    async def script(call):
        await call.request()
        call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab")

    boto, container = await asking(script)
    with pytest.raises((ResponseStreamingError, IncompleteReadError, ConnectionClosedError)):
        await boto.invoke()
    assert len(container.calls) == 1


async def test_a_container_that_does_not_answer(asking):
    async def script(call):
        await call.request()
        await call.end()

    boto, container = await asking(script, StreamPolicy(invocation_timeout=0.2))
    error = await boto.fails("ModelError")
    assert "Your invocation timed out while waiting" in error["Error"]["Message"]
    assert error["OriginalStatusCode"] == 0
    await soon(container.calls[0].ended.wait())


async def test_a_container_that_is_not_there(gateway_for, caplog):
    caplog.set_level(logging.INFO)
    port = free_port()
    gateway = await gateway_for(address=Address(HOST, port), policy=StreamPolicy())
    boto = Boto3(gateway)
    try:
        error = await boto.fails("ModelError")
    finally:
        boto.close()
    assert error["OriginalMessage"] == "no connection with the container: Connection refused"
    (line,) = [each.getMessage() for each in caplog.records if "refused" in each.getMessage()]
    assert f"endpoint={ENDPOINT} container=http://{HOST}:{port}" in line


@pytest.mark.clause("4-5", "4-7")
@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"EndpointName": "nobody"}, "Endpoint nobody of account 000000000000 not found."),
        ({"TargetVariant": "nobody"}, "the endpoint has no variant 'nobody'; it has 'AllTraffic'"),
        ({"body": bytes(MAX_INVOCATION_BODY + 1)}, f"over {MAX_INVOCATION_BODY} bytes"),
        ({"SessionId": "not an id"}, "SessionId (header X-Amzn-SageMaker-Session-Id) must be up"),
    ],
)
async def test_what_the_client_has_to_change(asking, members, message):
    boto, container = await asking(saying(OK))
    error = await boto.fails("ValidationError", **members)
    assert message in error["Error"]["Message"]
    assert error["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert container.calls == []


async def test_no_instance_in_service(gateway_for):
    gateway = await gateway_for(
        endpoints=(Endpoint(ENDPOINT, StreamPolicy(), (Variant(source=Attached(())),)),)
    )
    boto = Boto3(gateway)
    try:
        error = await boto.fails("ServiceUnavailable")
    finally:
        boto.close()
    assert error["ResponseMetadata"]["HTTPStatusCode"] == 503
    assert "no instance of endpoint" in error["Error"]["Message"]


async def test_a_fault_of_ours(asking, monkeypatch):
    boto, _ = await asking(saying(OK))
    monkeypatch.setattr(AnswerHead, "handed_back", None)
    error = await boto.fails("InternalFailure")
    assert error["ResponseMetadata"]["HTTPStatusCode"] == 500


# --- Who asks ------------------------------------------------------------------------------------


async def test_a_signed_body_is_verified_before_the_container_hears_of_it(asking, tmp_path):
    principals = tmp_path / "principals.toml"
    principals.write_text(PRINCIPALS)
    principals.chmod(0o600)
    boto, container = await asking(saying(OK), auth="sigv4", principals=principals)
    assert (await boto.invoke())["Body"] == b"ok"

    def change(request, **_):
        request.body = b"HELLO"

    boto._client.meta.events.register("before-send.sagemaker-runtime.*", change)
    error = await boto.fails("ClientError")
    assert error["Error"]["Code"] == "InvalidSignatureException"
    assert len(container.calls[0].heads) == 1


# --- Sessions ------------------------------------------------------------------------------------


async def test_a_session_stays_with_its_instance(gateway_for):
    """Each container begins the session "s"; the client's ids tell them apart."""
    heard = []

    def naming(name):
        async def script(call):
            while True:
                head = await call.head()
                await call.reader.readexactly(5)
                (session,) = re.findall(rb"Session-Id: (.*)\r\n", head)
                heard.append(session)
                said = b"X-Amzn-SageMaker-Closed-Session-Id: s"
                if session == b"NEW_SESSION":
                    said = b"X-Amzn-SageMaker-New-Session-Id: s; Expires=2099-01-01T00:00:00Z"
                call.say(answer(b"200 OK", name, said))

        return script

    async with ScriptedContainer(naming(b"a")) as a, ScriptedContainer(naming(b"b")) as b:
        source = Attached((Address(HOST, a.port), Address(HOST, b.port)))
        policy = StreamPolicy(connect_timeout=PATIENCE)
        gateway = await gateway_for(
            endpoints=(Endpoint(ENDPOINT, policy, (Variant(source=source, instances=2),)),)
        )
        boto = Boto3(gateway)
        try:
            ids = {}
            while len(ids) < 2:
                begun = await boto.invoke(SessionId="NEW_SESSION")
                ids[begun["Body"]] = begun["NewSessionId"].partition(";")[0]
            for name, session in [*ids.items()] * 6:
                found = await boto.invoke(SessionId=session)
                assert (found["Body"], found["ClosedSessionId"]) == (name, session)
        finally:
            boto.close()
    assert set(heard) == {b"NEW_SESSION", b"s"}


# --- Who leaves, and who waits -------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
async def test_a_client_that_leaves_cancels_the_containers_request(asking, version):
    async def script(call):
        await call.request()
        await call.end()

    _, container = await asking(script)
    client = await version.connect(container.gateway)
    client.ask(f"/endpoints/{ENDPOINT}/invocations", b"hello")
    await eventually(lambda: container.calls and container.calls[0].heads)
    client.leave()
    await soon(container.calls[0].ended.wait())
    await eventually(lambda: not len(container.gateway.gateway.service(RequestsService).under_way))


async def test_requests_finish_when_the_gateway_stops(asking):
    may = asyncio.Event()

    async def script(call):
        await call.request()
        await may.wait()
        call.say(OK)

    boto, container = await asking(script, shutdown_grace=PATIENCE)
    asked = asyncio.create_task(boto.invoke())
    await eventually(lambda: container.calls and container.calls[0].heads)
    stopping = asyncio.create_task(container.gateway.gateway.drain())
    await eventually(lambda: container.gateway.gateway.service(RequestsService).under_way.draining)
    may.set()
    assert (await asked)["Body"] == b"ok"
    await soon(stopping)


async def test_a_full_gateway(asking):
    may = asyncio.Event()

    async def script(call):
        await call.request()
        await may.wait()
        call.say(OK)

    boto, container = await asking(script, max_requests=1)
    asked = asyncio.create_task(boto.invoke())
    await eventually(lambda: container.calls and container.calls[0].heads)
    error = await boto.fails("ServiceUnavailable")
    assert "as many as this gateway takes" in error["Error"]["Message"]
    may.set()
    assert (await asked)["Body"] == b"ok"


async def test_requests_are_counted(asking):
    boto, container = await asking(saying(OK))
    await boto.invoke()
    page = (await container.gateway.request(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")).body
    of = f'endpoint="{ENDPOINT}"'.encode()
    assert b'partway_invocations_total{%b,status="200",variant="AllTraffic"} 1.0' % of in page
    assert b'partway_invocation_model_seconds_count{%b,variant="AllTraffic"} 1.0' % of in page
