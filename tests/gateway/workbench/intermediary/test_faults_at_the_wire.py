"""Each fault as a client of the gateway sees it, and as an observer does; others are let be."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.workbench.intermediary.faults import (
    CloseEarly,
    Cut,
    Delay,
    DropPongs,
    Empty,
    Refuse,
    Rule,
    Split,
    Stall,
    Throttle,
)
from partway.protocol.limits import WRITE_HIGH_WATER
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, close, frame
from tests.wire.dialects import EnvelopeDialect, JsonDialect, Part
from tests.wire.peers import JSON, eventually, upgrade_request

pytestmark = pytest.mark.usefixtures("no_leaks")

HI, HO = frame(TEXT, b"hi"), frame(BINARY, b"ho")
UTF8_HI = Part(b"hi", "UTF8")
QUICK = StreamPolicy(connect_timeout=5, input_end="close", close_timeout=0.3)


@pytest.fixture
def json() -> EnvelopeDialect:
    """The client's subprotocol here: it says everything in events."""
    return JsonDialect()


def frames_seen(between, which: int = 0) -> list[tuple]:
    """What the observer was told of the container's frames."""
    return [told[1:] for told in between.seen[which].told if told[0] == "container"]


# --- Ends ----------------------------------------------------------------------------------------


async def test_a_refused_upgrade(between, container, caplog):
    between.break_with(Refuse(429, "slow down"))
    with caplog.at_level(logging.INFO, "partway.intermediary"):
        response = await between.gateway.request(upgrade_request())
    assert response.status == 424
    assert response.json["OriginalStatusCode"] == 429
    assert response.json["OriginalMessage"] == "slow down"
    assert container.connections == []
    answer = between.seen[0].told[0][1]
    assert (answer.status, answer.reason, answer.body) == (429, "Too Many Requests", b"slow down")
    stream = dict(between.seen[0].request.headers)["X-Amzn-SageMaker-Request-Id"]
    what = "refuse status=429 body='slow down'"
    line = f'fault what="{what}" endpoint=model request_id={stream}'
    assert caplog.messages[0] == line


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        (CloseEarly(1011, "no memory", 2), "1011", "no memory"),
        (CloseEarly(1012, after=2), "1012", "Service Restart"),
        (CloseEarly(4321, "mine", 2), "4321", "mine"),
        (CloseEarly(1000, after=2), "1000", "Normal Closure"),
        (CloseEarly(1005, after=2), "1005", "No Status Rcvd"),
        (Cut(2), "1006", "Abnormal Closure: the container's connection ended without a Close"),
        (
            Cut(2, at=0),
            "1006",
            "Abnormal Closure: the container's connection ended without a Close",
        ),
    ],
)
async def test_an_end_behind_two_parts(between, json, fault, code, message):
    between.break_with(fault)
    client, model = await between.open(JSON)
    model.send(HI, HI, HI)
    assert [await json.read(client) for _ in range(2)] == [UTF8_HI, UTF8_HI]
    error = await json.read_error(client)
    assert (error.name, error.code, error.message) == ("ModelStreamError", code, message)
    if isinstance(fault, CloseEarly):  # the gateway's answer, like any client's
        assert (await model.frame()).close_code == (None if fault.code == 1005 else fault.code)
        model.end()
    else:
        assert await model.eof() == b""
        model.abort()
    await eventually(lambda: between.seen[0].told[-1:] == [("closed",)])
    said = frames_seen(between)
    assert said[:2] == [(TEXT, b"hi", True)] * 2
    assert [opcode for opcode, *_ in said[2:]] == [CLOSE] * isinstance(fault, CloseEarly)


async def test_a_close_in_the_middle_of_a_message(between, json):
    between.break_with(CloseEarly(after=1))
    client, model = await between.open(JSON)
    model.send(frame(TEXT, b"h", fin=False), frame(CONTINUATION, b"i"))
    assert await json.read(client) == Part(b"h", "UTF8", "PARTIAL")
    assert (await json.read_error(client)).code == "1011"


async def test_a_close_before_any_part(between, json):
    between.break_with(CloseEarly())
    client, _ = await between.open(JSON)
    assert (await json.read_error(client)).code == "1011"


async def test_a_stall(between_for, json, short_linger, monkeypatch):
    """No part, no end, whatever the container does; only once the gateway gives up, it is over."""
    monkeypatch.setattr("partway.gateway.workbench.intermediary.streams.HALF_OPEN_TIMEOUT", 0.05)
    between = await between_for([Rule((Stall(1),))], QUICK)
    client, model = await between.open(JSON)
    model.send(HI, HO, frame(PING, b"p"), close(1000))
    assert await json.read(client) == UTF8_HI
    assert (await model.frame()).payload == b"p"  # answered: the connection lives
    model.end()
    model.abort()
    client.send(json.end())
    error = await json.read_error(client)
    assert error.name == "InternalStreamFailure"
    assert "silent for 0.3 s after Close(1000)" in error.message
    await eventually(lambda: between.seen[0].told[-1:] == [("closed",)])


async def test_dropped_pongs(between_for, json):
    patience = StreamPolicy(connect_timeout=5, ping_interval=0.05, pings_unanswered=2)
    between = await between_for([Rule((DropPongs(),))], patience)
    client, model = await between.open(JSON)
    for _ in range(2):
        ping = await model.frame()
        assert ping.opcode == PING
        model.send(frame(PONG, ping.payload), HI)
    assert await json.read(client) == UTF8_HI
    assert await json.read(client) == UTF8_HI
    error = await json.read_error(client)
    assert error.name == "InternalStreamFailure"
    assert "2 pings" in error.message


# --- Time ----------------------------------------------------------------------------------------


async def test_a_delay_keeps_the_order_and_does_not_add_up(between, json):
    between.break_with(Delay(0.2))
    client, model = await between.open(JSON)
    began = time.monotonic()
    model.send(*[frame(BINARY, bytes([number])) for number in range(20)], close(1000, b"done"))
    parts = [await json.read(client) for _ in range(20)]
    assert [part.payload for part in parts] == [bytes([number]) for number in range(20)]
    assert (await json.read_error(client)).message == "done"
    assert 0.19 < time.monotonic() - began < 3.9, "a delay for each of 21 would be more"


async def test_what_a_delay_holds_is_bounded(between):
    between.break_with(Delay(60.0))
    _, model = await between.open()
    sent = 0

    async def offer() -> None:
        nonlocal sent
        while True:
            model.send(frame(BINARY, bytes(WRITE_HIGH_WATER)))
            await model.flush()
            sent += WRITE_HIGH_WATER
            await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(offer(), 0.3)
    # What the kernel takes; without a bound it is all that can be written in that time.
    assert sent < 16 << 20


async def test_a_throttle(between, json):
    between.break_with(Throttle(1000))
    client, model = await between.open(JSON)
    began = time.monotonic()
    model.send(frame(BINARY, bytes(298)), close(1000))
    assert (await json.read(client)).payload == bytes(298)
    assert time.monotonic() - began > 0.25


async def test_the_end_is_delayed_behind_the_frames(between, json):
    """A container that is gone has said what is still on its way."""
    between.break_with(Delay(0.2))
    client, model = await between.open(JSON)
    model.send(HI, close(1011, b"no memory"))
    await model.flush()
    model.reset()
    assert await json.read(client) == UTF8_HI
    assert (await json.read_error(client)).message == "no memory"


async def test_a_client_that_goes_on_to_a_container_that_is_gone(between, json):
    between.break_with(Delay(0.3))
    client, model = await between.open(JSON)
    model.send(HI, close(1011, b"no memory"))
    model.abort()
    reading = asyncio.create_task(json.read(client))
    while not reading.done():
        client.send(json.part(Part(b"are you there?")))
        await asyncio.wait([reading], timeout=0.02)
    assert reading.result() == UTF8_HI
    assert (await json.read_error(client)).message == "no memory"


async def test_what_is_before_a_stall_comes_though_it_is_late(between, json):
    between.break_with(Delay(0.2), Stall(1))
    client, model = await between.open(JSON)
    model.send(HI, HO)
    model.end()
    assert await json.read(client) == UTF8_HI


async def test_a_client_that_leaves_a_delayed_stream(between):
    """What it says passes at once: only the container is late."""
    between.break_with(Delay(60.0))
    client, model = await between.open()
    model.send(HI)
    client.reset()
    assert (await model.frame()).close_code == 1001


# --- Fragments -----------------------------------------------------------------------------------


async def test_parts_that_are_split(between, json):
    between.break_with(Split(2))
    client, model = await between.open(JSON)
    model.send(frame(TEXT, "é".encode()))
    assert await json.read(client) == Part(b"\xc3", "UTF8", "PARTIAL")
    assert await json.read(client) == Part(b"\xa9", "UTF8", "COMPLETE")
    assert frames_seen(between) == [(TEXT, b"\xc3", False), (CONTINUATION, b"\xa9", True)]


async def test_empty_parts_between(between, json):
    between.break_with(Empty())
    client, model = await between.open(JSON)
    model.send(HI)
    got = [await json.read(client) for _ in range(3)]
    assert got == [
        Part(b"", "UTF8", "PARTIAL"),
        Part(b"hi", "UTF8", "PARTIAL"),
        Part(b"", "UTF8", "COMPLETE"),
    ]


async def test_faults_together(between, json):
    between.break_with(
        Split(2), Delay(0.05), Throttle(10_000), DropPongs(), CloseEarly(1013, after=2)
    )
    client, model = await between.open(JSON)
    model.send(HI, HI)
    got = [(await json.read(client)).payload for _ in range(4)]
    assert got == [b"h", b"i", b"h", b"i"]
    assert (await json.read_error(client)).code == "1013"


# --- Which streams -------------------------------------------------------------------------------


async def test_a_client_that_comes_again_finds_a_good_stream(between, json):
    """And what happens to the first one does not touch a third that is open beside it."""
    other_client, other_model = await between.open(JSON)
    between.break_with(Cut(1), first=1)
    client, model = await between.open(JSON)
    model.send(HI, HI)
    assert await json.read(client) == UTF8_HI
    assert (await json.read_error(client)).code == "1006"
    again, model = await between.open(JSON)
    for sound_client, sound_model in ((again, model), (other_client, other_model)):
        sound_model.send(HI, HO)
        assert await json.read(sound_client) == UTF8_HI
        assert await json.read(sound_client) == Part(b"ho")
    (met,) = between.rules.met
    assert (met.counted, met.applied) == (2, 1)


async def test_a_client_asks_for_a_fault_in_its_query(between, json):
    between.break_with(CloseEarly(4000), query="fault=close")
    client, _ = await between.open(JSON, f"{TARGET}?query=fault%3Dclose")
    assert (await json.read_error(client)).code == "4000"
    client, model = await between.open(JSON)
    model.send(HI)
    assert await json.read(client) == UTF8_HI


TARGET = "/endpoints/model/invocations-bidirectional-stream"


async def test_a_fault_is_logged_once_for_each_stream(between, json, caplog):
    between.break_with(Split(2), path="invocations-bidirectional-stream")
    with caplog.at_level(logging.INFO, "partway.intermediary"):
        client, model = await between.open(JSON)
        model.send(HI, HI)
        for _ in range(4):
            await json.read(client)
    (line,) = caplog.messages
    assert line.startswith('fault what="split into=2" endpoint=model request_id=')
