"""partway.gateway.fleet.health.ping_quota: who has room for a ping, and who is next."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.fleet.health.ping_quota import PingRoom
from partway.gateway.fleet.limits import HEALTH_PINGS_PER_ROOM_LEFT
from tests.gateway.fleet.fakes import turns

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

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
