"""The instruments: what the container writes down, and what it does when left alone."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from partway.gateway.workbench.conformance.platform.container import (
    InstrumentedContainer,
    read_head,
    refusing,
)
from partway.gateway.workbench.conformance.platform.frames import MAX_FRAME, FrameReader
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode
from tests.frame_factory import BINARY, CLOSE, KEY, PING, PONG, TEXT, close, frame
from tests.wire.peers import RawClient, upgrade_request

pytestmark = pytest.mark.usefixtures("no_leaks")

PATIENCE = 20.0


@asynccontextmanager
async def streaming():
    """A raw platform, and its stream at the container."""
    async with InstrumentedContainer() as container:
        platform = await RawClient.connect(container.address.port)
        await platform.upgrade(upgrade_request("/somewhere?a=1"))
        try:
            yield platform, await container.stream(PATIENCE)
        finally:
            platform.abort()


# --- Frames --------------------------------------------------------------------------------------

WRONG = frame(TEXT, b"hi", mask=KEY, rsv=5) + frame(0xB, b"", fin=False, length_form=64)


@pytest.mark.parametrize("size", [1, 2, 7, len(WRONG)])
def test_frames_are_read_as_they_are_whatever_comes_at_once(size):
    reader = FrameReader()
    seen = []
    for at in range(0, len(WRONG), size):
        seen += reader.feed(WRONG[at : at + size], float(at))
    first, second = seen
    assert (first.opcode, first.payload, first.fin, first.rsv) == (TEXT, b"hi", True, 5)
    assert (first.key, first.shortest, first.is_data) == (KEY, True, True)
    assert (second.opcode, second.payload, second.fin, second.key) == (0xB, b"", False, b"")
    assert (second.shortest, second.is_data) == (False, False)
    assert reader.unfinished == 0


@pytest.mark.parametrize(
    ("size", "form", "shortest"),
    [(125, 7, True), (125, 16, False), (126, 16, True), (65_535, 64, False), (65_536, 64, True)],
)
def test_a_length_is_in_its_shortest_form_or_not(size, form, shortest):
    (seen,) = FrameReader().feed(frame(BINARY, bytes(size), length_form=form), 0.0)
    assert (len(seen.payload), seen.shortest) == (size, shortest)


def test_a_frame_that_cannot_be_held_is_refused_from_its_head():
    with pytest.raises(Broken, match="announces a frame of"):
        FrameReader().feed(frame(BINARY, length_form=64, announced=MAX_FRAME + 1), 0.0)


# --- The head ------------------------------------------------------------------------------------


def test_a_head_keeps_repeated_headers_and_their_order():
    head = read_head(b"GET /a?b HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nx-a:2\r\nbare\r\n\r\n")
    assert head.target == "/a?b"
    assert head.all("x-a") == ["1", "2"]
    assert (head.one("host"), head.one("bare"), head.one("none")) == ("x", "", "")
    assert [name for name, _ in head.fields] == ["host", "x-a", "x-a", "bare"]


def test_a_line_that_is_no_request_has_no_target():
    assert read_head(b"nonsense\r\n\r\n").target == ""


# --- The container -------------------------------------------------------------------------------


async def test_all_that_comes_is_written_down_with_its_time():
    async with streaming() as (platform, seen):
        assert seen.head.target == "/somewhere?a=1"
        platform.send(frame(TEXT, b"a", mask=KEY), frame(PONG, b"?", mask=KEY))
        first = await seen.data(PATIENCE)
        platform.send(frame(TEXT, b"b", mask=KEY))
        second = await seen.data(PATIENCE)
    assert (first.payload, second.payload) == (b"a", b"b")
    assert first.at <= second.at
    assert [each.opcode for each in seen.frames] == [TEXT, PONG, TEXT]
    steps = [step for step in seen.exchange.steps if step.side == "received"]
    assert steps[0].what == "GET /somewhere?a=1 HTTP/1.1"
    assert [step.data for step in steps[1:4]] == [b"a", b"?", b"b"]


async def test_left_alone_it_answers_pings_and_close_and_ends_tcp():
    async with streaming() as (platform, seen):
        platform.send(frame(PING, b"there?", mask=KEY), close(4000, b"bye", mask=KEY))
        pong, goodbye = await platform.frames(2)
        assert (pong.opcode, pong.payload, pong.masked) == (PONG, b"there?", False)
        assert (goodbye.opcode, goodbye.payload) == (CLOSE, (4000).to_bytes(2, "big"))
        assert await platform.eof() == b""
        platform.end()
        assert await seen.end(PATIENCE) == "FIN"
        assert seen.behind_close == []


async def test_what_comes_behind_a_close_is_told_apart():
    async with streaming() as (platform, seen):
        platform.send(close(1000, mask=KEY), frame(TEXT, b"late", mask=KEY), b"\x81")
        platform.end()
        assert await seen.end(PATIENCE) == "FIN"
        assert seen.behind_close == ["text FIN, 4 bytes", "1 bytes of a frame"]
        assert not any(each.is_data for each in seen.frames)


async def test_it_can_be_told_to_answer_nothing():
    async with streaming() as (platform, seen):
        seen.pongs = seen.closes = False
        platform.send(frame(PING, b"there?", mask=KEY), close(1000, mask=KEY))
        assert (await seen.control(Opcode.CLOSE, PATIENCE)).close_code == 1000
        seen.send(TEXT, b"only this")
        seen.finish()
        seen.send(TEXT, b"nothing goes behind the end")
        assert (await platform.frame()).payload == b"only this"
        assert await platform.eof() == b""


async def test_a_reset_is_no_orderly_end():
    async with streaming() as (platform, seen):
        platform.reset()
        assert (await seen.end(PATIENCE)).startswith("reset")


async def test_waits_in_vain_say_what_was_due():
    async with streaming() as (platform, seen):
        with pytest.raises(Broken, match="a Pong did not come within"):
            await seen.control(Opcode.PONG, 0.01)
        platform.end()
        with pytest.raises(Broken, match=r"ended the connection \(FIN\) before a part came"):
            await seen.data(PATIENCE)


async def test_a_frame_too_long_to_be_held_is_said_by_the_next_wait():
    async with streaming() as (platform, seen):
        platform.send(frame(BINARY, length_form=64, announced=1 << 40))
        with pytest.raises(Broken, match="announces a frame"):
            await seen.data(PATIENCE)


async def test_an_upgrade_may_be_refused_and_is_granted_again_after():
    async with InstrumentedContainer() as container:
        container.answer = refusing("403 Forbidden", b"no")
        platform = await RawClient.connect(container.address.port)
        platform.send(upgrade_request("/"))
        refusal = await platform.response()
        assert (refusal.status, refusal.body) == (403, b"no")
        container.forget()
        platform.abort()
        platform = await RawClient.connect(container.address.port)
        await platform.upgrade(upgrade_request("/again"))
        assert (await container.stream(PATIENCE)).head.target == "/again"
        platform.abort()


async def test_who_sends_no_request_is_no_stream():
    async with InstrumentedContainer() as container:
        platform = await RawClient.connect(container.address.port)
        platform.end()
        assert await platform.eof() == b""
        with pytest.raises(Broken, match="the platform asked for no stream"):
            await container.stream(0.01)
        platform.abort()


async def test_it_stops_accepting_and_goes_on():
    async with InstrumentedContainer() as container:
        where = container.address.host, container.address.port
        await container.accept_no_more()
        _, first = await asyncio.open_connection(*where)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.open_connection(*where), 0.1)
        container.accept_again()
        first.close()
        platform = await RawClient.connect(container.address.port)
        await platform.upgrade(upgrade_request("/"))
        assert (await container.stream(PATIENCE)).head.target == "/"
        platform.abort()
