"""gateway.apis.asynchronous.invoke_async: InvokeEndpointAsync by boto3, from 202 to the answer."""

from __future__ import annotations

import asyncio
import json

import pytest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from partway.gateway.access import principals as principals_module
from partway.gateway.apis.asynchronous import executor, worker
from partway.gateway.apis.asynchronous.inference_config import AsyncConfig
from partway.gateway.apis.asynchronous.journal import NOTICE
from partway.gateway.apis.asynchronous.limits import INLINE_BYTES, PIECE_BYTES, TRIES
from partway.gateway.apis.asynchronous.notices import Notice
from partway.gateway.apis.control.endpoint_reconciler import EndpointKeeper
from partway.gateway.containers.invocation import Invocations
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.storage.store.sqlite import SqliteStore
from partway.gateway.storage.store.store import Record, StoreError
from partway.gateway.timing.clock import LoopClock
from partway.protocol.errors import InputValidationError
from tests.gateway.apis.asynchronous.test_notices import TOPIC, hooked
from tests.gateway.apis.aws_client import aws
from tests.gateway.conftest import container, gateway_for
from tests.gateway.containers.containers import HOST, ScriptedContainer
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.object_server import serving_objects
from tests.wire.event_signing import KEY_ID, SECRET
from tests.wire.peers import ENDPOINT

__all__ = ["container", "gateway_for"]

# What reads and puts at s3:// keeps a socket of its own, for the process.
pytestmark = pytest.mark.usefixtures("anyio_backend")

OK, BAD = "s3://bucket/ok", "s3://bucket/bad"


def answering(*answers):
    """A container that says each of these once, and the last one from then on."""
    left = list(answers)

    async def script(call):
        while True:
            call.sent = await call.request()
            head, body = left.pop(0) if len(left) > 1 else left[0]
            call.say(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n" % (head, len(body)), body)

    return script


class Asked:
    """boto3's client, a gateway and its container, and S3."""

    def __init__(self, gateway, scripted, s3, data, store):
        self.gateway, self.scripted, self.s3 = gateway, scripted, s3
        self.data, self.store = data, store
        self.client = aws(
            "sagemaker-runtime",
            gateway.port,
            Credentials(KEY_ID, SECRET),
            parameter_validation=False,
        )

    async def invoke(self, **members):
        members.setdefault("EndpointName", ENDPOINT)
        return await soon(asyncio.to_thread(self.client.invoke_endpoint_async, **members))

    async def refused(self, **members):
        with pytest.raises(ClientError) as caught:
            await self.invoke(**members)
        return caught.value.response["Error"]["Code"], caught.value.response["Error"]["Message"]

    async def object_at(self, location):
        key = location.removeprefix("s3://bucket/")
        await eventually(lambda: key in self.s3.buckets["bucket"])
        return self.s3.buckets["bucket"][key]

    async def failure(self, **members):
        answer = await self.invoke(**members)
        return json.loads(await self.object_at(answer["FailureLocation"]))


@pytest.fixture
async def asking(gateway_for, tmp_path, monkeypatch):
    """Starts all of it: a container with a script, and whatever settings."""
    monkeypatch.setattr(worker, "TRY_PAUSES", [0.0] * TRIES)
    monkeypatch.setattr(worker, "LOOK_INTERVAL", 0.01)
    monkeypatch.setattr(
        EndpointKeeper,
        "async_config_of",
        lambda _, name: AsyncConfig(OK, BAD, "", "", 4, "owner") if name == ENDPOINT else None,
    )
    running = []
    async with serving_objects(monkeypatch) as s3:
        s3.buckets["bucket"] = {"in": b"from s3"}

        async def start(script, **settings):
            scripted = await ScriptedContainer(script).__aenter__()
            data = DataDirectory.opened(tmp_path / "data")
            store = await SqliteStore.opened(data.store, LoopClock())
            gateway = await gateway_for(
                container_port=scripted.port, data=data, store=store, **settings
            )
            running.append(Asked(gateway, scripted, s3, data, store))
            return running[-1]

        yield start
        for each in running:
            each.client.close()
            await each.gateway.stop()
            await each.store.aclose()
            each.data.close()
            await each.scripted.__aexit__()


YES = (b"200 OK\r\nContent-Type: text/yes", b"yes")


async def test_a_body_of_its_own(asking):
    asked = await asking(answering(YES))
    answer = await asked.invoke(
        Body=b"hello",
        ContentType="text/x",
        Accept="text/y",
        CustomAttributes="mine",
        InferenceId="id/1",
        RequestTTLSeconds=60,
        InvocationTimeoutSeconds=1,
    )
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 202
    assert answer["InferenceId"] == "id/1"
    assert answer["OutputLocation"].startswith(f"{OK}/")
    assert answer["FailureLocation"] == (
        answer["OutputLocation"].replace("/ok/", "/bad/").replace(".out", "-error.out")
    )
    assert await asked.object_at(answer["OutputLocation"]) == b"yes"
    assert asked.s3.types[answer["OutputLocation"].removeprefix("s3://bucket/")] == "text/yes"
    (call,) = asked.scripted.calls
    assert call.sent == b"hello"
    head = call.heads[0].decode().lower()
    for line in (
        "content-type: text/x", "accept: text/y", "x-amzn-sagemaker-custom-attributes: mine",
        "x-amzn-sagemaker-inference-id: id/1",
    ):  # fmt: skip
        assert f"\r\n{line}\r\n" in head
    assert f"{ENDPOINT}".encode() not in call.heads[0]


async def test_a_body_of_as_many_bytes_as_there_may_be(asking):
    body = bytes(range(256)) * (INLINE_BYTES // 256)
    asked = await asking(answering(YES))
    answer = await asked.invoke(Body=body)
    assert await asked.object_at(answer["OutputLocation"]) == b"yes"
    assert asked.scripted.calls[0].sent == body
    assert not list(asked.data.requests.iterdir())


async def test_bodies_have_no_more_room_than_their_quota(asking):
    may_answer = asyncio.Event()

    async def script(call):
        await call.request()
        await may_answer.wait()
        call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", b"yes")

    asked = await asking(script, async_quota=2 * INLINE_BYTES)
    answer = await asked.invoke(Body=bytes(INLINE_BYTES - 1))
    code, message = await asked.refused(Body=b"xx")
    assert code == "ServiceUnavailable"
    assert f"have {INLINE_BYTES - 1} bytes on disk" in message
    may_answer.set()
    await asked.object_at(answer["OutputLocation"])
    while await asked.store.records("async-request"):  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(0.01)
    await asked.invoke(Body=b"xx")


@pytest.mark.parametrize("how", ["gone", "damaged"])
async def test_a_body_that_the_store_does_not_have(asking, monkeypatch, how):
    """A damaged one is tried again: another read may give it."""
    read = []

    async def attachment(*_):
        read.append(how)
        if how == "damaged":
            raise StoreError("/secret/place: the file is damaged")
        return b""

    monkeypatch.setattr(SqliteStore, "attachment", attachment)
    asked = await asking(answering(YES))
    said = await asked.failure(Body=b"hello")
    code, times = {"gone": ("InputUnavailable", 1), "damaged": ("InternalFailure", TRIES)}[how]
    assert (said["ErrorCode"], len(read)) == (code, times)
    assert "/secret/place" not in said["Message"]
    assert ("an earlier version accepted the request. Send it again." in said["Message"]) == (
        how == "gone"
    )


async def test_a_coding_goes_along_with_a_body_and_with_an_answer(asking):
    asked = await asking(answering((b"200 OK\r\nContent-Encoding: its-own", b"packed")))

    def code(params, **_):
        params["headers"]["Content-Encoding"] = "gzip"

    asked.client.meta.events.register("before-call.sagemaker-runtime.*", code)
    answer = await asked.invoke(Body=b"\x1f\x8bany", Filename="a")
    assert await asked.object_at(answer["OutputLocation"]) == b"packed"
    assert asked.s3.codings == {"ok/a": "its-own"}
    await asked.invoke(InputLocation="s3://bucket/in", Filename="b")
    await asked.object_at(f"{OK}/b")
    (call,) = asked.scripted.calls
    assert [b"\r\nContent-Encoding: gzip\r\n" in head for head in call.heads] == [True, False]


async def test_a_body_at_a_location_and_a_name_for_the_answer(asking):
    asked = await asking(answering(YES))
    answer = await asked.invoke(
        InputLocation="s3://bucket/in", Filename="a.txt", S3OutputPathExtension="deep/er"
    )
    assert answer["OutputLocation"] == f"{OK}/deep/er/a.txt"
    assert answer["FailureLocation"] == f"{BAD}/a-error.txt"
    assert await asked.object_at(answer["OutputLocation"]) == b"yes"
    assert asked.scripted.calls[0].sent == b"from s3"
    assert b"Content-Length: 7\r\n" in asked.scripted.calls[0].heads[0]


async def test_a_large_input_and_a_large_answer(asking, tmp_path):
    large = bytes(range(256)) * (PIECE_BYTES // 100)
    asked = await asking(answering((b"200 OK", large)), local_roots=(tmp_path / "in",))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(large)
    answer = await asked.invoke(InputLocation=f"{tmp_path}/in/a")
    assert await asked.object_at(answer["OutputLocation"]) == large
    assert asked.scripted.calls[0].sent == large
    await eventually(lambda: not list(asked.data.requests.iterdir()))
    assert await asked.store.records("async-request") == ()


async def test_a_webhook_hears_of_it_and_of_what_was_left_by_another_gateway(
    asking, monkeypatch, tmp_path
):
    config = AsyncConfig(OK, BAD, TOPIC, TOPIC, 4)
    monkeypatch.setattr(EndpointKeeper, "async_config_of", lambda *_: config)
    left = Notice("0" * 32, TOPIC, '{"left": 1}', 0.0)
    data = DataDirectory.opened(tmp_path / "data")
    store = await SqliteStore.opened(data.store, LoopClock())
    await store.write(Record(NOTICE, left.id, left.body()))
    await store.aclose()
    data.close()
    async with hooked() as (hook, _):
        asked = await asking(answering(YES, (b"400 No", b"")), topics={TOPIC: hook.url})
        answer = await asked.invoke(Body=b"hello")
        await asked.object_at(answer["OutputLocation"])
        await asked.failure(Body=b"hello")
        await eventually(lambda: len(hook.heard) == 3)
        said = [json.loads(body["Message"]) for _, _, body in hook.heard]
        assert {"left": 1} in said
        by_status = {each.get("invocationStatus"): each for each in said}
        place = by_status["Completed"]["responseParameters"]["outputLocation"]
        assert place == answer["OutputLocation"]
        words = "ModelError: the container answered with status 400"
        assert by_status["Failed"]["failureReason"] == words
        while await asked.store.records(NOTICE):  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.01)


# --- No answer -----------------------------------------------------------------------------------


async def test_what_a_container_refuses_is_asked_once(asking):
    asked = await asking(answering((b"415 No", b"not this")))
    said = await asked.failure(Body=b"hello", InferenceId="mine")
    words = 'Received client error (415) from primary with message "not this"'
    assert said == {
        "ErrorCode": "ModelError",
        "Message": words,
        "OriginalStatusCode": 415,
        "OriginalMessage": "not this",
        "LogStreamArn": "",
        "InferenceId": "mine",
        "EndpointName": ENDPOINT,
    }
    assert sum(len(call.heads) for call in asked.scripted.calls) == 1


async def test_what_fails_in_a_container_is_tried_again(asking):
    asked = await asking(answering((b"500 Broken", b""), YES))
    answer = await asked.invoke(Body=b"hello")
    assert await asked.object_at(answer["OutputLocation"]) == b"yes"


async def test_what_fails_each_time(asking):
    asked = await asking(answering((b"503 Busy", b"busy")))
    assert (await asked.failure(Body=b"hello"))["OriginalStatusCode"] == 503
    assert sum(len(call.heads) for call in asked.scripted.calls) == TRIES


async def test_a_try_that_takes_too_long(asking):
    async def never(call):
        await call.request()
        await call.end()

    asked = await asking(never)
    said = await asked.failure(Body=b"hello", InvocationTimeoutSeconds=1)
    assert said["ErrorCode"] == "InvocationTimedOut"
    assert "within 1 s" in said["Message"]
    await soon(asked.scripted.calls[0].ended.wait())  # its request is cancelled
    assert len(asked.scripted.calls) == 1


async def test_an_input_that_is_not_there(asking):
    asked = await asking(answering(YES))
    said = await asked.failure(InputLocation="s3://bucket/none")
    assert (said["ErrorCode"], "no such key" in said["Message"]) == ("InputUnavailable", True)


async def test_an_answer_that_is_too_large(asking, monkeypatch):
    monkeypatch.setattr(executor, "ANSWER_BYTES", 2)
    asked = await asking(answering(YES))
    assert (await asked.failure(Body=b"hello"))["ErrorCode"] == "AnswerTooLarge"


async def test_an_answer_that_finds_no_room(asking):
    asked = await asking(answering((b"200 OK", bytes(3 * PIECE_BYTES))), async_quota=PIECE_BYTES)
    assert (await asked.failure(Body=b"hello"))["ErrorCode"] == "NoSpace"
    await eventually(lambda: not list(asked.data.requests.iterdir()))


# --- Refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({}, "must be given, and not both"),
        ({"Body": b"a", "InputLocation": "s3://bucket/in"}, "must be given, and not both"),
        ({"Body": bytes(INLINE_BYTES + 1)}, "over 128000 bytes"),
        ({"InputLocation": "https://bucket/in"}, "must be s3://BUCKET/KEY"),
        ({"InputLocation": "s3://bucket/../in"}, "must be s3://BUCKET/KEY"),
        ({"InputLocation": "/etc/passwd"}, "below one of the local_roots"),
        ({"Body": b"a", "S3OutputPathExtension": "a/../../b"}, "no part may be empty, . or .."),
        ({"Body": b"a", "Filename": "a.b.c"}, "Filename (header "),
        ({"Body": b"a", "RequestTTLSeconds": 59}, "a whole number from 60 to 21600"),
        ({"Body": b"a", "InvocationTimeoutSeconds": 3601}, "a whole number from 1 to 3600"),
        ({"Body": b"a", "EndpointName": "none"}, "Endpoint none of account 000000000000 not found"),
    ],
)
async def test_what_is_not_taken(asking, members, words):
    asked = await asking(answering(YES))
    code, message = await asked.refused(**members)
    assert code == "ValidationError"
    assert words in message
    assert await asked.store.records("async-request") == ()


@pytest.mark.parametrize("way", ["{}/mine/../of-another", "file://{}/mine/%2e%2e/of-another"])
async def test_an_input_that_leave_would_be_asked_for_by_another_name(asking, tmp_path, way):
    asked = await asking(answering(YES), local_roots=(tmp_path,))
    code, message = await asked.refused(InputLocation=way.format(tmp_path))
    assert (code, "no part of it empty, . or .." in message) == ("ValidationError", True)


async def test_an_endpoint_that_takes_none(asking):
    there = Endpoint.attached("plain", Address(HOST, 1), StreamPolicy())
    asked = await asking(answering(YES), endpoints=(there,))
    code, message = await asked.refused(EndpointName="plain", Body=b"hello")
    assert (code, "must have an AsyncInferenceConfig" in message) == ("ValidationError", True)


async def test_an_endpoint_whose_requests_must_name_a_container(asking, monkeypatch):
    config = AsyncConfig(OK, BAD, "", "", 4, names_containers=True)
    monkeypatch.setattr(EndpointKeeper, "async_config_of", lambda *_: config)
    asked = await asking(answering(YES))
    code, message = await asked.refused(Body=b"hello")
    assert (code, "the Mode of its model" in message) == ("ValidationError", True)
    assert await asked.store.records("async-request") == ()


async def test_what_an_endpoint_refuses_behind_the_202_is_the_requests_own_fault(
    asking, monkeypatch
):
    def refuse(*_, **__):
        raise InputValidationError("it must name a container", "ContainerNotFound")

    asked = await asking(answering(YES))
    monkeypatch.setattr(Invocations, "answered", refuse)
    failure = await asked.failure(Body=b"hello")
    assert (failure["ErrorCode"], failure["Message"]) == (
        "InputUnavailable",
        "it must name a container",
    )


async def test_without_a_place_on_disk_none_is_taken(gateway_for, monkeypatch):
    monkeypatch.setattr(
        EndpointKeeper, "async_config_of", lambda *_: AsyncConfig(OK, BAD, "", "", 4, "owner")
    )
    gateway = await gateway_for()
    asked = Asked(gateway, None, None, None, None)
    code, message = await asked.refused(Body=b"hello")
    assert (code, "no data directory" in message) == ("ServiceUnavailable", True)
    asked.client.close()


#: The sender of requests, and the maker of the endpoint configuration.
CALLER = f"""
[[principals]]
name = "caller"
{{leave}}
[[principals.keys]]
access_key_id = "{KEY_ID}"
secret_access_key = "{SECRET}"
"""
OWNER = """
[[principals]]
name = "owner"
actions = ["s3:PutObject"]
resources = ["arn:aws:s3:::bucket/{place}/*"]
[[principals.keys]]
access_key_id = "AKIDOWNER"
secret_access_key = "another secret"
"""
PRINCIPALS = CALLER + OWNER.format(place="*")


async def test_a_location_takes_leave_in_s3s_words(asking, tmp_path):
    principals = tmp_path / "principals.toml"
    principals.write_text(PRINCIPALS.format(leave=""))
    principals.chmod(0o600)
    asked = await asking(answering(YES), auth="sigv4", principals=principals)
    code, message = await asked.refused(InputLocation="s3://bucket/in")
    assert code == "AccessDeniedException"
    assert "s3:GetObject on resource: arn:aws:s3:::bucket/in" in message
    answer = await asked.invoke(Body=b"hello")
    assert await asked.object_at(answer["OutputLocation"]) == b"yes"


async def test_who_has_leave_for_it(asking, tmp_path):
    principals = tmp_path / "principals.toml"
    leave = (
        'actions = ["sagemaker:InvokeEndpoint*", "s3:GetObject"]\n'
        'resources = ["arn:aws:sagemaker:*:*:endpoint/*", "arn:aws:s3:::bucket/in"]'
    )
    principals.write_text(PRINCIPALS.format(leave=leave))
    principals.chmod(0o600)
    asked = await asking(answering(YES), auth="sigv4", principals=principals)
    answer = await asked.invoke(InputLocation="s3://bucket/in")
    assert await asked.object_at(answer["OutputLocation"]) == b"yes"
    code, _ = await asked.refused(InputLocation="s3://bucket/other")
    assert code == "AccessDeniedException"


@pytest.mark.parametrize(
    ("left", "action"),
    [
        (PRINCIPALS.replace("caller", "other"), "sagemaker:InvokeEndpointAsync"),
        (PRINCIPALS, "s3:GetObject"),
    ],
)
async def test_leave_that_is_taken_away_ends_what_waits(
    asking, tmp_path, monkeypatch, left, action
):
    monkeypatch.setattr(principals_module, "PRINCIPALS_CHECK_INTERVAL", 0)
    tried, said = asyncio.Event(), asyncio.Event()

    async def script(call):
        call.sent = await call.request()
        tried.set()
        await said.wait()
        call.say(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")

    principals = tmp_path / "principals.toml"
    principals.write_text(PRINCIPALS.format(leave='actions = ["*"]'))
    principals.chmod(0o600)
    asked = await asking(script, auth="sigv4", principals=principals)
    answer = await asked.invoke(InputLocation="s3://bucket/in")
    await soon(tried.wait())
    principals.write_text(left.format(leave=""))
    said.set()
    failure = json.loads(await asked.object_at(answer["FailureLocation"]))
    assert failure["ErrorCode"] == "AccessDenied"
    assert f"lost the permission for {action} while" in failure["Message"]


async def test_an_answer_takes_the_leave_of_who_made_the_configuration(
    asking, tmp_path, monkeypatch
):
    """The maker lost s3:PutObject for answers, and kept it for failures; the sender has it."""
    monkeypatch.setattr(principals_module, "PRINCIPALS_CHECK_INTERVAL", 0)
    config = AsyncConfig(OK, BAD, "", "", 4, "owner")
    monkeypatch.setattr(EndpointKeeper, "async_config_of", lambda *_: config)
    reached, may_answer = asyncio.Event(), asyncio.Event()

    async def script(call):
        while True:
            await call.request()
            reached.set()
            await may_answer.wait()
            call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", b"yes")

    principals = tmp_path / "principals.toml"

    def lets(place):
        sender = CALLER.format(leave='actions = ["*"]')
        principals.write_text(sender + OWNER.format(place=place))

    lets("*")
    principals.chmod(0o600)
    asked = await asking(script, auth="sigv4", principals=principals)
    answer = await asked.invoke(Body=b"first")
    await soon(reached.wait())
    lets("bad")
    may_answer.set()
    after_the_try = json.loads(await asked.object_at(answer["FailureLocation"]))
    before_the_try = await asked.failure(Body=b"second")
    for failure in (after_the_try, before_the_try):
        assert failure["ErrorCode"] == "AccessDenied"
        assert (
            "federated-user/owner is not authorized to perform: s3:PutObject"
            in (failure["Message"])
        )
    assert len(asked.scripted.calls) == 1  # the second one was never asked
    lets("ok")
    answer = await asked.invoke(Body=b"third")
    assert await asked.object_at(answer["OutputLocation"]) == b"yes"
