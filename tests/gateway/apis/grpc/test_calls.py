"""Calls as they come, good and bad, byte by byte: framing, deadlines, statuses, other requests."""

from __future__ import annotations

import gzip

import pytest

from tests.gateway.apis.grpc.calling import (
    NAME,
    PREDICTIONS,
    calling,
    ended,
    field,
    fields,
    prefixed,
)
from tests.gateway.apis.prediction.predicting import answer, asking
from tests.gateway.conftest import container, gateway_for
from tests.wire.http2_streams import Code
from tests.wire.peers import eventually

__all__ = ["asking", "calling", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

RAW = f"{PREDICTIONS}/RawPredict"
STREAM = f"{PREDICTIONS}/StreamRawPredict"
MESSAGE = field(1, NAME) + field(2, field(2, b"any"))


async def test_a_call_is_a_head_a_message_and_trailers(calling):
    caller = await calling()
    caller.told.says = answer(b"said")
    stream = caller.begin(RAW, prefixed(MESSAGE))
    found = await ended(stream)
    assert found.head == {
        ":status": "200",
        "date": found.head["date"],
        "server": "partway",
        "x-amzn-requestid": found.head["x-amzn-requestid"],
        "content-type": "application/grpc",
        "grpc-accept-encoding": "identity,gzip,deflate",
        "x-vertex-ai-endpoint-id": "model",
        "x-vertex-ai-deployed-model-id": "AllTraffic",
        "x-vertex-ai-model": found.head["x-vertex-ai-model"],
    }
    assert found.messages == [field(2, b"said")]
    assert found.trailers == {"grpc-status": "0"}


async def test_an_error_is_a_head_alone(calling):
    caller = await calling()
    found = await caller.call(RAW, field(1, "é"))
    assert found.head is found.trailers
    assert found.head[":status"] == "200"
    assert found.head["content-type"] == "application/grpc"
    assert found.head["grpc-message"].startswith("endpoint: '%C3%A9' was given; it must be")


async def test_a_body_may_be_cut_anywhere(calling):
    caller = await calling()
    caller.told.says = answer(b"said")
    stream = caller.begin(RAW)
    for byte in prefixed(MESSAGE):
        stream.overrun(bytes([byte]))
    stream.end()
    assert (await ended(stream)).messages == [field(2, b"said")]
    assert caller.told.bodies == [b"any"]


async def test_a_message_may_be_compressed(calling):
    caller = await calling()
    stream = caller.begin(RAW, prefixed(gzip.compress(MESSAGE), 1), grpc_encoding="gzip")
    assert (await ended(stream)).status == ("0", "")
    assert caller.told.bodies == [b"any"]


@pytest.mark.parametrize(
    ("body", "headers", "code", "said"),
    [
        (b"", {}, "12", "the call has no message"),
        (prefixed(MESSAGE) * 2, {}, "12", "more than one message"),
        (prefixed(MESSAGE)[:-1], {}, "13", "in the middle of its message"),
        (b"\0\0", {}, "13", "in the middle of its message"),
        (prefixed(MESSAGE, 2), {}, "13", "first byte is 2"),
        (prefixed(MESSAGE, 1), {}, "13", "grpc-encoding must name"),
        (prefixed(MESSAGE), {"grpc-encoding": "snappy"}, "12", "'snappy' was given"),
        (
            prefixed(gzip.compress(bytes(2001), mtime=0), 1),
            {"grpc-encoding": "gzip"},
            "8",
            "over 2000",
        ),
        (b"\0\xff\xff\xff\xff", {}, "8", "over 2000 bytes"),
        (prefixed(bytes(2001)), {}, "8", "over 2005 bytes"),
        (prefixed(MESSAGE), {"grpc-timeout": "5"}, "13", "at most eight digits"),
        (prefixed(MESSAGE), {"grpc-timeout": "0n"}, "4", "grpc-timeout: 0n"),
    ],
)
@pytest.mark.parametrize("path", [RAW, STREAM])
async def test_a_call_that_is_not_as_it_must_be(calling, path, body, headers, code, said):
    caller = await calling(max_prediction_body=2000)
    found = await ended(caller.begin(path, body, **headers))
    assert found.status[0] == code
    assert said in found.status[1]
    assert caller.told.bodies == []
    caller.told.says = answer(b"on")
    assert (await caller.call(path, MESSAGE)).status[0] == "0", "the connection goes on"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (f"{PREDICTIONS}/DirectPredict", f"no operation answers {PREDICTIONS[1:]}/DirectPredict"),
        ("/some.Service/Call", "no operation answers some.Service/Call"),
    ],
)
async def test_what_is_not_here_is_said_by_name(calling, path, said):
    caller = await calling()
    assert (await caller.call(path, MESSAGE)).status == ("12", said)


@pytest.mark.parametrize("media", [None, "application/json", "application/grpc+json"])
@pytest.mark.parametrize("path", [RAW, "/some.Service/Call"])
async def test_what_is_no_grpc_is_told_so_by_http(calling, path, media):
    caller = await calling()
    stream = caller.begin(path, b"{}", content_type=media)
    status, headers = await stream.head()
    assert (status, headers["x-amzn-errortype"]) == (415, "UnsupportedMediaTypeException")
    assert b"must have application/grpc" in await stream.body()


async def test_http_1_1_is_told_that_it_must_be_http_2(calling):
    caller = await calling()
    headers = {"content_type": "application/grpc"}
    status, _, said = await caller.client.ask(RAW, prefixed(MESSAGE), **headers)
    assert (status, b"gRPC must come over HTTP/2" in said) == (505, True)


async def test_a_call_ends_at_its_deadline_and_its_container_is_let_go(calling):
    calls = []

    async def silent(call):
        calls.append(call)
        await call.request()
        await call.end()

    caller = await calling(script=silent)
    found = await caller.call(RAW, MESSAGE, grpc_timeout="500m")
    assert found.status == ("4", "the call was not over by its deadline (grpc-timeout: 500m)")
    for call in calls:  # none, where the machine was too busy to ask it in time
        await eventually(call.ended.is_set)


async def test_a_stream_that_has_begun_ends_at_its_deadline_too(calling):
    async def slow(call):
        await call.request()
        call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await call.end()

    caller = await calling(script=slow)
    timeout = 1
    while True:  # once more with more time, where the machine was too busy for it to begin
        found = await caller.call(STREAM, MESSAGE, grpc_timeout=f"{timeout}S")
        assert found.status[0] == "4"
        if found.messages:
            break
        timeout *= 3
    assert [dict(fields(each))[2] for each in found.messages] == [b"one"]
    assert found.head is not found.trailers


@pytest.mark.parametrize("path", [RAW, STREAM])
async def test_a_client_that_cancels_has_its_container_let_go(calling, path):
    calls = []

    async def silent(call):
        calls.append(call)
        await call.request()
        await call.end()

    caller = await calling(script=silent)
    stream = caller.begin(path, prefixed(MESSAGE))
    await eventually(lambda: bool(calls))
    stream.reset(Code.CANCEL)
    await eventually(calls[0].ended.is_set)


async def test_a_call_that_is_reset_in_the_middle_of_its_message_stops_nobody(calling):
    caller = await calling()
    caller.told.says = answer(b"on")
    stream = caller.begin(RAW)
    stream.send(prefixed(MESSAGE)[:7])
    await caller.http2.ping()
    stream.reset(Code.CANCEL)
    assert (await caller.call(RAW, MESSAGE)).status[0] == "0"
    assert caller.told.bodies == [b"any"]


async def test_a_container_is_held_back_while_the_client_takes_nothing(calling):
    written = [0]

    async def endless(call):
        await call.request()
        call.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not call.writer.is_closing():
            call.say(b"10000\r\n%b\r\n" % bytes(65_536))
            await call.writer.drain()
            written[0] += 65_536

    caller = await calling(script=endless)
    caller.http2.auto_window = False
    stream = caller.begin(STREAM, prefixed(MESSAGE))
    await stream.head()
    before = -1
    while before != written[0]:  # what sockets hold is filled
        before = written[0]
        for _ in range(20):
            await caller.http2.ping()
    assert written[0] < 32 << 20
    stream.reset(Code.CANCEL)
