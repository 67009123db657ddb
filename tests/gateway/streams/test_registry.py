"""The registry of streams: admission while it fills and drains, and the drain by a test's clock.

The drain on the wire: test_gateway.
"""

from __future__ import annotations

import asyncio
import itertools

import pytest

from partway.gateway.limits import STANDING_CHECK_INTERVAL
from partway.gateway.streams.ends import Cause
from partway.gateway.streams.registry import Streams
from partway.protocol.errors import ServiceUnavailable
from partway.protocol.limits import SHUTDOWN_BURST, SHUTDOWN_STEP
from tests.gateway.streams.fakes import FakeClock, FakeStream


class FakeSession:
    """What the registry asks of a session."""

    def __init__(self) -> None:
        self.drained = False

    def drain(self) -> None:
        self.drained = True


async def hold(streams, entered, leave):
    with streams.opening():
        entered.set()
        await leave.wait()


async def opening(streams):
    """A stream that is being opened, until its event is set."""
    entered, leave = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(hold(streams, entered, leave))
    await entered.wait()
    return task, leave


async def test_those_being_opened_count_as_streams():
    streams = Streams(2)
    streams.started(FakeSession())
    task, leave = await opening(streams)
    with pytest.raises(ServiceUnavailable, match="all 2 streams"), streams.opening():
        pass
    leave.set()
    await task
    with streams.opening():
        pass


async def test_nothing_new_while_draining():
    streams = Streams(2)
    await streams.drain(grace=0, spread=0)
    with pytest.raises(ServiceUnavailable, match="draining"), streams.opening():
        pass


async def test_an_idle_registry_drains_at_once():
    await asyncio.wait_for(Streams(1).drain(grace=60, spread=60), 1)


async def test_those_being_opened_are_refused_once_grace_is_over():
    streams = Streams(2)
    task, _ = await opening(streams)
    session = FakeSession()
    streams.started(session)
    await streams.drain(grace=0, spread=0)
    with pytest.raises(ServiceUnavailable, match="draining"):
        await task
    assert session.drained


async def test_a_client_that_leaves_while_its_stream_is_opened_is_no_drain():
    streams = Streams(2)
    task, _ = await opening(streams)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert streams.idle


async def test_hastened_it_waits_neither_for_grace_nor_for_spread():
    streams = Streams(10)
    sessions = [FakeSession() for _ in range(5)]
    for session in sessions:
        streams.started(session)
    draining = asyncio.create_task(streams.drain(grace=60, spread=60))
    await asyncio.sleep(0)
    assert streams.draining
    streams.hasten()
    await asyncio.wait_for(draining, 20)
    assert all(session.drained for session in sessions)


# --- By the clock --------------------------------------------------------------------------------


class TimedSession(FakeSession):
    """Notes when it was told, and takes its time over its end."""

    def __init__(self, clock, cost=0.0):
        super().__init__()
        self.clock = clock
        self.cost = cost
        self.times = []

    def drain(self):
        super().drain()
        self.times.append(self.clock.time())
        self.clock.now += self.cost


class LateClock(FakeClock):
    """A busy machine's: each timer fires late."""

    def __init__(self, late):
        super().__init__()
        self.late = late
        self.timers = 0

    def call_later(self, delay, callback, *args):
        self.timers += 1
        return super().call_later(delay + self.late, callback, *args)


async def a_few_turns():
    """As many as a drain takes until it waits for its clock."""
    for _ in range(5):
        await asyncio.sleep(0)


async def run_out(clock, draining):
    """Turn the clock from timer to timer until the drain is over."""
    async with asyncio.timeout(60):  # of the machine's time, for a drain that never ends
        while not draining.done():
            await asyncio.sleep(0)
            if clock.armed:
                clock.advance_to(clock.armed[0].due)
    await draining


async def drained(clock, count, *, grace=0.0, spread=5.0, cost=0.0):
    """When each of so many streams was told, in seconds since the drain began."""
    streams = Streams(count, clock)
    sessions = [TimedSession(clock, cost) for _ in range(count)]
    for session in sessions:
        streams.started(session)
    began = clock.time()
    await run_out(clock, asyncio.create_task(streams.drain(grace, spread)))
    assert all(len(session.times) == 1 for session in sessions), "each is told once"
    return sorted(session.times[0] - began for session in sessions)


async def test_ten_thousand_streams_end_over_the_spread():
    clock = LateClock(late=0)
    times = await drained(clock, 10_000, grace=15)
    assert times[0] == 15
    assert 19.9 < times[-1] < 20
    for second in range(5):
        ended = sum(15 + second <= time < 16 + second for time in times)
        assert ended == pytest.approx(2000, abs=20), f"an even pace: {ended} in one second"
    assert clock.timers <= 5 / SHUTDOWN_STEP + 2, "no timer for each stream"


async def test_timers_that_are_late_do_not_add_up():
    """A wait of 1.2 ms for each that takes 2.9 would be 12 s."""
    times = await drained(LateClock(late=0.0017), 4096)
    assert times[-1] < 5.01


async def test_ends_that_take_their_time_are_made_up_for():
    """2 s of work for all: the pace is the clock's, and no wait comes on top of the work."""
    times = await drained(FakeClock(), 4096, cost=0.0005)
    assert 4.9 < times[-1] < 5.01


async def test_more_work_than_time_goes_on_without_a_pause():
    clock = LateClock(late=0.001)
    times = await drained(clock, 4096, cost=0.002)
    assert times[-1] < 4096 * 0.002 + 0.1


async def test_a_turn_of_the_loop_ends_no_more_than_a_burst():
    """Others are answered in between, however many are overdue."""
    clock = FakeClock()
    streams = Streams(1000, clock)
    sessions = [FakeSession() for _ in range(1000)]
    for session in sessions:
        streams.started(session)
    draining = asyncio.create_task(streams.drain(0, 0))
    seen = [0]
    while not draining.done():
        await asyncio.sleep(0)
        seen.append(sum(session.drained for session in sessions))
    assert max(later - earlier for earlier, later in itertools.pairwise(seen)) == SHUTDOWN_BURST
    assert seen[-1] == 1000


async def test_streams_that_have_ended_are_passed_over():
    clock = FakeClock()
    streams = Streams(4, clock)
    sessions = [FakeSession() for _ in range(4)]
    for session in sessions:
        streams.started(session)
    draining = asyncio.create_task(streams.drain(0, 4))
    await a_few_turns()
    (first,) = (session for session in sessions if session.drained)
    gone = next(session for session in sessions if session is not first)
    streams.sessions.discard(gone)
    await run_out(clock, draining)
    assert [session for session in sessions if not session.drained] == [gone]


async def test_a_stream_that_starts_all_the_same_is_told():
    clock = FakeClock()
    streams = Streams(2, clock)
    await streams.drain(0, 0)
    late = FakeSession()
    streams.started(late)
    assert not late.drained, "it has yet to start"
    clock.advance(0)
    assert late.drained


@pytest.mark.parametrize("when", ["in the grace", "in the spread"])
async def test_once_the_last_stream_has_ended_nobody_waits(when):
    clock = FakeClock()
    streams = Streams(2, clock)
    fakes = [FakeStream(), FakeStream()]
    for fake in fakes:
        streams.started(fake.session)
    draining = asyncio.create_task(streams.drain(60 if when == "in the grace" else 0, 60))
    await a_few_turns()
    assert len([fake for fake in fakes if fake.ended]) == (when == "in the spread")
    for fake in fakes:
        fake.session.drain()
        streams.ended(fake.session)
    await draining
    assert clock.time() == 1000


# --- A principal's share -------------------------------------------------------------------------


async def test_a_principal_has_its_share():
    streams = Streams(9, per_principal=2)
    session = FakeStream()
    streams.started(session, "chat")
    with streams.opening("chat"):
        refused = pytest.raises(ServiceUnavailable, match="'chat' has 2 streams open")
        with refused, streams.opening("chat"):
            pass
        with streams.opening("other"), streams.opening(None), streams.opening(None):
            pass
    with streams.opening("chat"):
        streams.started(FakeStream(), "chat")
    with pytest.raises(ServiceUnavailable), streams.opening("chat"):
        pass
    assert ServiceUnavailable("").status == 503


async def test_nobody_s_streams_have_no_share():
    streams = Streams(9, per_principal=1)
    for _ in range(5):
        streams.started(FakeStream())
    with streams.opening():
        pass


# --- What opened a stream may be taken away ------------------------------------------------------


class Watched(FakeSession):
    """A session that ends when it is told of a fault."""

    request_id = "5f0c"

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []

    def client_failed(self, fault) -> None:
        self.faults.append(fault.code)


async def test_a_stream_ends_when_what_opened_it_is_taken_away():
    clock = FakeClock()
    streams = Streams(9, clock)
    good = {"chat": True, "other": True}
    chat, other, nobody = Watched(), Watched(), Watched()
    streams.started(chat, "chat", lambda: good["chat"])
    clock.advance(STANDING_CHECK_INTERVAL)
    streams.started(other, "other", lambda: good["other"])
    streams.started(nobody, None, lambda: False)
    assert (chat.faults, other.faults, nobody.faults) == ([], [], [])
    good["chat"] = False
    clock.advance(STANDING_CHECK_INTERVAL)
    assert (chat.faults, other.faults, nobody.faults) == (["InvalidSignature"], [], [])


async def test_nothing_is_looked_at_without_streams():
    stream = FakeStream()
    streams = Streams(9, FakeClock())
    streams.started(stream.session, "chat", lambda: True)
    assert len(streams._clock.armed) == 1
    stream.session.client_gone(Cause.CLIENT_LOST)
    streams.ended(stream.session)
    assert streams._clock.armed == []


async def test_an_open_stream_takes_the_place_of_the_one_that_was_being_opened():
    clock = FakeClock()
    streams = Streams(9, clock, per_principal=1)
    stream = FakeStream()
    with streams.opening("chat") as opening:
        assert (streams.idle, streams._opening != set()) == (False, True)
        opening.started(stream.session, lambda: True)
        assert (streams.sessions, streams._opening) == ({stream.session}, set())
        assert len(clock.armed) == 1, "that looks whether it stands"
        with pytest.raises(ServiceUnavailable, match="as many"), streams.opening("chat"):
            pass
    assert not streams.idle
    stream.session.client_gone(Cause.CLIENT_LOST)
    streams.ended(stream.session)
    assert streams.idle
    with streams.opening("chat"):
        pass


async def test_a_stream_that_is_open_is_not_cancelled_as_one_that_is_being_opened():
    streams = Streams(9)
    session = FakeSession()

    async def opened():
        with streams.opening() as opening:
            opening.started(session)
            while not session.drained:  # noqa: ASYNC110 (a session that is drained tells nobody)
                await asyncio.sleep(0)
            streams.sessions.discard(session)

    opened_in = asyncio.create_task(opened())
    await asyncio.sleep(0)
    await streams.drain(grace=0, spread=0)
    await opened_in
