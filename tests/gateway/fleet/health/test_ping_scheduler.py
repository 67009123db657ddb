"""gateway.fleet.health.ping_scheduler: pings at a time, and the log of those that fail."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import pytest

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.health import ping_scheduler as pinging
from partway.gateway.fleet.health.ping_scheduler import LoopTurns, Pinging, PingRoom
from partway.gateway.fleet.launchers.process import HOST
from partway.gateway.fleet.limits import (
    HEALTH_PINGS_AT_ONCE,
    HEALTH_PINGS_PER_ROOM_LEFT,
    HEALTH_PINGS_PER_TURN,
    PING_TIMEOUT,
    UNPINGED_LINE_INTERVAL,
)
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address, OutOfDescriptors
from tests.gateway.fleet.fakes import turns
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

PLACE = Place("echo", Address("h", 1), StreamPolicy())


async def test_no_more_are_asked_at_a_time_than_that(monkeypatch):
    asked, answer = [], asyncio.Event()

    async def ping(place, clock, seconds):
        asked.append(seconds)
        await answer.wait()
        return "refused"

    monkeypatch.setattr(pinging, "ping_place", ping)
    ask = Pinging(FakeClock())
    each = [replace(PLACE, endpoint=f"e{n}") for n in range(HEALTH_PINGS_AT_ONCE + 1)]
    asking = [asyncio.create_task(ask(place, 2)) for place in each]
    await turns(HEALTH_PINGS_AT_ONCE)
    assert asked == [2] * HEALTH_PINGS_AT_ONCE
    answer.set()
    assert set(await soon(asyncio.gather(*asking))) == {"refused"}
    assert len(asked) == HEALTH_PINGS_AT_ONCE + 1


async def test_those_of_an_endpoint_that_hang_keep_no_other_waiting():
    def answer(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    clock = FakeClock()
    ask, many = Pinging(clock), 2 * HEALTH_PINGS_AT_ONCE
    # Its connections are accepted, as the system does that, and nobody reads what comes by them.
    with socket.create_server((HOST, 0), backlog=many) as mute:
        hangs = replace(PLACE, container=Address(HOST, mute.getsockname()[1]))
        hanging = [asyncio.create_task(ask(hangs, PING_TIMEOUT)) for _ in range(many)]
        await turns(many)
        async with await asyncio.start_server(answer, HOST, 0) as server:
            address = Address(HOST, server.sockets[0].getsockname()[1])
            other = replace(PLACE, endpoint="other", container=address)
            others = [ask(other, PING_TIMEOUT) for _ in range(100)]
            assert await soon(asyncio.gather(*others)) == [None] * len(others)
        assert not any(each.done() for each in hanging)  # the clock has stood still
        while not all(each.done() for each in hanging):
            await eventually(lambda: clock.armed or all(each.done() for each in hanging))
            clock.advance(PING_TIMEOUT)
            await turns(many)
    assert {each.result() for each in hanging} == {"/ping was not answered within 2 s"}


async def test_pings_that_are_due_together_leave_the_loop_to_others_in_between(monkeypatch):
    asked = []

    async def ping(*_):
        asked.append(None)

    monkeypatch.setattr(pinging, "ping_place", ping)
    ask, begun = Pinging(FakeClock()), []
    asking = [asyncio.create_task(ask(PLACE, 2)) for _ in range(5 * HEALTH_PINGS_PER_TURN)]
    while len(asked) < len(asking):
        before = len(asked)
        await asyncio.sleep(0)
        begun.append(len(asked) - before)
    await soon(asyncio.gather(*asking))
    assert max(begun) == HEALTH_PINGS_PER_TURN


async def test_one_line_tells_that_nobody_can_be_asked(monkeypatch, caplog):
    async def ping(*_):
        raise OutOfDescriptors("Too many open files")

    monkeypatch.setattr(pinging, "ping_place", ping)
    clock = FakeClock()
    ask = Pinging(clock)
    for _ in range(3):
        with pytest.raises(OutOfDescriptors):
            await ask(PLACE, 2)
    (line,) = caplog.messages
    assert line.startswith("instances cannot be pinged, and keep their health: ")
    assert line.endswith('reason="Too many open files"')
    clock.advance(UNPINGED_LINE_INTERVAL)
    with pytest.raises(OutOfDescriptors):
        await ask(PLACE, 2)
    assert len(caplog.messages) == 2


#: One endpoint alone has all of it but this much.
ROOM = 10
ONE = ROOM * HEALTH_PINGS_PER_ROOM_LEFT // (HEALTH_PINGS_PER_ROOM_LEFT + 1)


class Pings:
    """Pings that last until they are told to end."""

    def __init__(self, room=ROOM):
        self.under_way = []
        self._room = PingRoom(room)
        self._tasks = {}

    async def begin(self, *endpoints):
        """One for each name; they are known by it and their number."""
        for endpoint in endpoints:
            name = f"{endpoint}{sum(each.startswith(endpoint) for each in self._tasks)}"
            self._tasks[name] = asyncio.create_task(self._ping(endpoint, name))
        await turns(3)

    async def _ping(self, endpoint, name):
        await self._room.claim(1, endpoint)
        try:
            self.under_way.append(name)
            await asyncio.get_running_loop().create_future()
        finally:
            if name in self.under_way:
                self.under_way.remove(name)
            self._room.give_back(1, endpoint)

    def cancel(self, *names):
        for name in names:
            self._tasks[name].cancel()

    async def end(self, *names):
        self.cancel(*names)
        ended = [self._tasks[name] for name in names]
        await asyncio.gather(*ended, return_exceptions=True)
        await turns(3)

    def of(self, endpoint):
        return sum(each.startswith(endpoint) for each in self.under_way)

    async def end_all(self):
        await self.end(*self._tasks)
        self._tasks.clear()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.end_all()


async def test_one_endpoint_leaves_some_to_the_others():
    async with Pings() as pings:
        await pings.begin(*"a" * 2 * ROOM)
        assert pings.of("a") == ONE < ROOM
        await pings.begin("b")
        assert pings.of("b") == 1


async def test_each_that_hangs_beside_others_has_less():
    async with Pings(room=90) as pings:
        for endpoint in "ab":
            await pings.begin(*endpoint * 180)
        had = pings.of("a"), pings.of("b")
        assert had == (72, 15)  # the first one came when nobody else was there
        await pings.end(*[f"a{n}" for n in range(72)])
        had = pings.of("a"), pings.of("b")
        assert had == (40, 41)


async def test_those_of_one_endpoint_come_in_their_order():
    async with Pings() as pings:
        await pings.begin(*"a" * (ONE + 2))
        await pings.end("a0")
        await pings.end("a1")
        assert pings.under_way == [f"a{n}" for n in range(2, ONE + 2)]


async def test_endpoints_take_turns_in_what_becomes_free():
    async with Pings(room=2) as pings:
        await pings.begin("x", "y", *"aaa", *"bb", "c")
        assert pings.under_way == ["x0", "y0"]
        came = []
        for name in ("x0", "y0", "a0", "b0", "c0"):
            await pings.end(name)
            came.append(pings.under_way[-1])
        assert came == ["a0", "b0", "c0", "a1", "b1"]


async def test_those_that_have_left_take_nobodys_room():
    async with Pings(room=1) as pings:
        await pings.begin(*"xaabb")
        await pings.end("a0", "b0", "b1")
        await pings.end("x0")
        assert pings.under_way == ["a1"]
        await pings.begin("c")
        await pings.end("a1")
        assert pings.under_way == ["c0"]


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_one_that_leaves_as_room_becomes_free_gives_it_to_the_next(cancelled_first):
    """It is cancelled before the room is its own, or before it has heard that it is."""
    room = PingRoom(1)
    await room.claim(1, "x")
    first, second = (asyncio.create_task(room.claim(1, name)) for name in "ab")
    await turns(3)
    for step in (first.cancel, lambda: room.give_back(1, "x"))[:: 1 if cancelled_first else -1]:
        step()
    await turns(3)
    assert first.cancelled()
    assert second.done()


async def test_all_is_free_again_once_all_have_left():
    async with Pings() as pings:
        for _ in range(2):
            await pings.begin(*"abcde" * ROOM)
            assert len(pings.under_way) == ROOM
            await pings.end_all()


async def test_nothing_is_kept_of_endpoints_whose_pings_are_over():
    room = PingRoom(1)
    await room.claim(1, "x")
    as_it_was = repr(vars(room))
    waiting = asyncio.create_task(room.claim(1, "a"))
    await turns(3)
    waiting.cancel()
    await turns(3)
    assert repr(vars(room)) == as_it_was
    room.give_back(1, "x")
    assert repr(vars(room)) == repr(vars(PingRoom(1)))


class Turns:
    def __init__(self):
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_soon(self._turn)

    def _turn(self):
        self.count += 1
        self._next = self._loop.call_soon(self._turn)

    def stop(self):
        self._next.cancel()


async def passed(turns, name, noted, counted):
    await turns.next()
    noted.append((name, counted.count))


async def without_the_first_two(turns, names, noted, counted):
    """All wait, and two leave before the first turn; returns when the others have had theirs."""
    tasks = [asyncio.create_task(passed(turns, name, noted, counted)) for name in names]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[1].cancel()
    await asyncio.wait(tasks)
    assert [task.cancelled() for task in tasks] == [True, True, *[False] * (len(names) - 2)]


async def test_so_many_go_on_in_a_turn_and_the_others_in_the_next_ones():
    turns, noted, counted = LoopTurns(2), [], Turns()
    await asyncio.gather(*(passed(turns, name, noted, counted) for name in "abcde"))
    counted.stop()
    assert [name for name, _ in noted] == list("abcde")
    first = noted[0][1]
    assert [count - first for _, count in noted] == [0, 0, 1, 1, 2]


async def test_whoever_comes_later_waits_behind_the_others():
    turns, noted, counted = LoopTurns(1), [], Turns()

    async def again(name):
        await passed(turns, name, noted, counted)
        await passed(turns, name + "2", noted, counted)

    await asyncio.gather(again("a"), again("b"))
    counted.stop()
    assert [name for name, _ in noted] == ["a", "b", "a2", "b2"]


async def test_those_that_have_left_keep_nobody():
    turns, noted, counted = LoopTurns(1), [], Turns()
    await without_the_first_two(turns, "abc", noted, counted)
    await passed(turns, "d", noted, counted)  # nobody waits any more, so it begins anew
    counted.stop()
    assert [name for name, _ in noted] == ["c", "d"]


async def test_those_that_have_left_take_nobodys_place():
    turns, noted, counted = LoopTurns(2), [], Turns()
    await without_the_first_two(turns, "abcd", noted, counted)
    counted.stop()
    (_, third), (_, fourth) = noted
    assert third == fourth
