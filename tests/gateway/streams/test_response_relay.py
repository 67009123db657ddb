"""Each way in which a relayed answer can end, by a clock that the test turns."""

from __future__ import annotations

import asyncio
import json

import pytest

from partway.gateway.containers.answers import AnswerPiece
from partway.gateway.streams.ends import Cause, ClientFault
from partway.gateway.streams.response_relay import ResponseRelay
from partway.gateway.timing.many_timers import ManyTimers
from partway.protocol.errors import ClientLeft, ContainerBroke, ContainerLate, RequestTimeout
from tests import event_factory as raw
from tests.gateway.http.test_exchange import Recorded
from tests.gateway.streams.fakes import FakeClock

LONGEST = 480.0
LATE = "ModelInvocationTimeExceeded"
FAULT = "the gateway failed; its log has the reason under this request id"


class Scripted:
    """An answer that gives what a test puts in; empty, it is waited for."""

    def __init__(self, *script):
        self.script = asyncio.Queue()
        self.waited_for = False
        for each in script:
            self.script.put_nowait(each)

    @property
    def buffered_bytes(self):
        return 100

    async def piece(self):
        self.waited_for = self.script.empty()
        said = await self.script.get()
        self.waited_for = False
        if isinstance(said, Exception):
            raise said
        return None if said is None else AnswerPiece(said, ends_chunk=True)


class Reader(Recorded):
    """A client that takes so many pieces, and then waits for the test."""

    def __init__(self, takes=1000):
        super().__init__(method="POST")
        self.takes = takes
        self.room = asyncio.Event()
        self.full = asyncio.Event()
        self.left_at_end = False

    @property
    def unsent_bytes(self):
        return 7

    async def _write(self, piece):
        await super()._write(piece)
        self.takes -= 1
        if self.takes <= 0:
            self.full.set()
            await self.room.wait()

    async def _end(self, last, otherwise):
        if self.left_at_end:
            raise ClientLeft
        await super()._end(last, otherwise)


def raw_part(payload):
    """A part's event, by a hand that is not the gateway's."""
    headers = {
        ":message-type": "event",
        ":event-type": "PayloadPart",
        ":content-type": "application/octet-stream",
    }
    return raw.message(b"".join(raw.string(*pair) for pair in headers.items()), payload)


class Run:
    def __init__(self, *script, takes=1000):
        self.answer = Scripted(*script)
        self.clock = FakeClock()
        self.client = Reader(takes)
        self.timers = ManyTimers(self.clock)
        self.relay = ResponseRelay("model", self.answer, self.client, self.timers, LONGEST)
        self.ended = asyncio.create_task(self._run())

    async def _run(self):
        await self.client.begin(200)
        await self.relay.run()
        assert not any(self.timers._lines.values())
        return self.relay.ending.cause

    @property
    def events(self):
        """The client's, without the head before them and the end behind them."""
        return self.client.said[1:-1] if "end" in self.client.said else self.client.said[1:]

    @property
    def chunks(self):
        return [message.payload for message in raw.read(b"".join(self.events))]

    @property
    def exception(self):
        """The last event, as a value, and what stands in its place if it is not taken."""
        *_, last, otherwise = self.events
        (message,) = raw.read(last)
        assert last == otherwise
        return message.headers[":exception-type"], json.loads(message.payload)

    async def taken(self, count):
        """Wait until so many chunks have been passed on, and the next is waited for."""
        while len(self.events) < count or not self.answer.waited_for:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_each_chunk_is_an_event():
    run = Run(b"one", b"two", None)
    assert await run.ended is Cause.COMPLETED
    *events, otherwise = run.events
    assert [message.payload for message in raw.read(b"".join(events))] == [b"one", b"two"]
    assert len(events) == 2
    (instead,) = raw.read(otherwise)
    assert instead.headers[":exception-type"] == "InternalStreamFailure"
    counts = run.relay.from_container
    assert (counts.parts, counts.bytes, run.relay.first_part_at) == (2, 6, 1000.0)
    assert (run.relay.started_at, run.relay.ended_at) == (1000.0, 1000.0)


async def test_an_answer_without_a_body():
    run = Run(None)
    assert await run.ended is Cause.COMPLETED
    assert run.relay.first_part_at is None


async def test_a_chunk_is_passed_on_before_the_next_one_is_there():
    run = Run(b"one")
    await run.taken(1)
    assert run.chunks == [b"one"]
    run.answer.script.put_nowait(b"two")
    await run.taken(2)
    assert run.chunks == [b"one", b"two"]
    run.answer.script.put_nowait(None)
    assert await run.ended is Cause.COMPLETED


@pytest.mark.clause("2.3-5")
@pytest.mark.parametrize(
    ("trouble", "cause", "kind", "members"),
    [
        (
            ContainerLate("silent"),
            Cause.CONTAINER_SILENT,
            "ModelStreamError",
            {"Message": "silent", "ErrorCode": LATE},
        ),
        (
            ContainerBroke("cut"),
            Cause.CONTAINER_LOST,
            "ModelStreamError",
            {"Message": "cut", "ErrorCode": "StreamBroken"},
        ),
        (
            RequestTimeout("slow"),
            Cause.CLIENT_FAULT,
            "ModelStreamError",
            {"Message": "slow", "ErrorCode": "InputStreamError"},
        ),
        (
            ZeroDivisionError("secret"),
            Cause.GATEWAY_FAULT,
            "InternalStreamFailure",
            {"Message": FAULT},
        ),
        (TimeoutError("secret"), Cause.GATEWAY_FAULT, "InternalStreamFailure", {"Message": FAULT}),
    ],
)
async def test_what_goes_wrong_is_told(trouble, cause, kind, members):
    run = Run(b"one", trouble)
    assert await run.ended is cause
    assert run.exception == (kind, members)
    assert run.events[0] == raw_part(b"one")


async def test_the_whole_has_its_time():
    run = Run(b"one")
    await run.taken(1)
    run.clock.advance(LONGEST - 1)
    run.answer.script.put_nowait(b"two")
    await run.taken(2)
    run.clock.advance(1)
    assert await run.ended is Cause.LIFETIME_OVER
    message = "the response had not ended after 480 s"
    assert run.exception == ("ModelStreamError", {"Message": message, "ErrorCode": LATE})


async def test_the_whole_has_its_time_though_the_client_does_not_read():
    run = Run(b"one", takes=1)
    await run.client.full.wait()
    run.clock.advance(LONGEST)
    assert await run.ended is Cause.LIFETIME_OVER
    assert run.events[0] == raw_part(b"one")


async def test_a_client_that_does_not_read_holds_the_container_back():
    run = Run(b"one", b"two", b"three", None, takes=1)
    await run.client.full.wait()
    assert run.answer.script.qsize() == 3
    run.client.takes = 1000
    run.client.room.set()
    assert await run.ended is Cause.COMPLETED
    assert run.events[:-1] == [raw_part(b"one"), raw_part(b"two"), raw_part(b"three")]


async def test_a_drain_breaks_it_off_while_the_container_is_waited_for():
    run = Run(b"one")
    await run.taken(1)
    run.relay.drain()
    run.relay.client_failed(ClientFault("too late"))
    assert await run.ended is Cause.GATEWAY_DRAINING
    message = "the gateway is draining; open the stream again"
    assert run.exception == ("InternalStreamFailure", {"Message": message})


async def test_a_drain_comes_too_late_for_one_whose_time_is_over():
    run = Run(b"one")
    await run.taken(1)
    run.clock.advance(LONGEST)
    run.relay.drain()
    assert await run.ended is Cause.LIFETIME_OVER


async def test_what_is_taken_away_breaks_it_off():
    run = Run(b"one")
    await run.taken(1)
    run.relay.client_failed(ClientFault("taken away", "InvalidSignature"))
    assert await run.ended is Cause.CLIENT_FAULT
    members = {"Message": "taken away", "ErrorCode": "InvalidSignature"}
    assert run.exception == ("ModelStreamError", members)


async def test_broken_off_before_it_runs():
    run = Run(b"one", None)
    run.relay.drain()
    assert await run.ended is Cause.GATEWAY_DRAINING
    assert len(run.events) == 2, "the exception, and what stands in its place"


async def test_broken_off_behind_its_end():
    run = Run(None)
    await run.ended
    run.relay.drain()
    assert run.relay.ending.cause is Cause.COMPLETED


@pytest.mark.parametrize("where", ["answer", "end"])
async def test_a_client_that_left_is_not_told(where):
    run = Run(ClientLeft() if where == "answer" else None)
    if where == "end":
        run.client.left_at_end = True
    with pytest.raises(ClientLeft):
        await run.ended
    assert run.relay.ending.cause is Cause.CLIENT_LOST
    assert not any(run.timers._lines.values())


async def test_who_cancels_gets_it():
    run = Run(b"one")
    await run.taken(1)
    run.ended.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run.ended
    assert run.relay.ending.cause is Cause.CLIENT_LOST
    assert not any(run.timers._lines.values())


async def test_what_is_held_is_counted_on_both_sides():
    run = Run(None)
    assert run.relay.buffered_bytes == 107
    await run.ended
