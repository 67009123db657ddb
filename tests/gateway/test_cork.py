"""partway.gateway.cork: what a turn of the loop writes leaves together, behind its work."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.cork import Cork

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
    while len(noted) < 6:
        assert noted == [] or noted[3:] == []
        await asyncio.sleep(0)
    assert noted == ["work of a", "work of b", "work of c", "a", "b", "c"]
    await asyncio.sleep(0)
    assert len(noted) == 6


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
