"""partway.gateway.cork: what a turn of the loop writes leaves together, behind its work."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.cork import Cork
from tests.gateway.fleet.processes import eventually

pytestmark = pytest.mark.usefixtures("anyio_backend")


class Noting:
    """A connection that notes when it is to send."""

    def __init__(self, name, noted):
        self._name = name
        self._noted = noted

    def uncork(self):
        self._noted.append(self._name)


async def test_connections_send_in_their_order_once_the_turn_is_over():
    cork, noted = Cork(), []
    loop = asyncio.get_running_loop()
    for name in "abc":
        loop.call_soon(cork.hold, Noting(name, noted))
        loop.call_soon(noted.append, f"work of {name}")
    await eventually(lambda: len(noted) == 6)
    assert noted == ["work of a", "work of b", "work of c", "a", "b", "c"]
    await asyncio.sleep(0)
    assert len(noted) == 6


async def test_one_that_fails_does_not_keep_the_others_from_sending():
    cork, noted, told = Cork(), [], []
    loop = asyncio.get_running_loop()
    others = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: told.append(type(context["exception"])))

    class Failing(Noting):
        def uncork(self):
            super().uncork()
            raise MemoryError

    for connection in (Noting("a", noted), Failing("b", noted), Noting("c", noted)):
        cork.hold(connection)
    try:
        await asyncio.sleep(0)
        assert noted == ["a", "b"]
        await asyncio.sleep(0)
        assert noted == ["a", "b", "c"]
        assert told == [MemoryError]
    finally:
        loop.set_exception_handler(others)


async def test_what_is_held_while_others_send_leaves_a_turn_later():
    cork, noted = Cork(), []
    again = Noting("again", noted)

    class Asking(Noting):
        def uncork(self):
            super().uncork()
            cork.hold(again)

    cork.hold(Asking("first", noted))
    cork.hold(Noting("second", noted))
    await asyncio.sleep(0)
    assert noted == ["first", "second"]
    await asyncio.sleep(0)
    assert noted == ["first", "second", "again"]
