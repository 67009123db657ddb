"""What waits for the gateway: how much of it, and who has a turn meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from partway.gateway.workbench.intermediary.delays import Pacer
from partway.gateway.workbench.intermediary.faults import Delay
from partway.gateway.workbench.intermediary.frame_faults import Piece
from partway.protocol.limits import PART_OVERHEAD, WRITE_HIGH_WATER
from partway.protocol.websocket.frames import Frame, Opcode

EMPTY = Piece(b"\x80\x00", Frame(Opcode.CONTINUATION, b""))
FULL = WRITE_HIGH_WATER // PART_OVERHEAD


class Taken:
    def __init__(self) -> None:
        self.frames: list[Frame] = []

    async def write(self, data: bytes) -> None:
        """Takes everything, at once: nobody is waited for."""


async def test_others_have_their_turn_while_much_is_due(anyio_backend):
    taken = Taken()
    pacer = Pacer(taken.write, taken.frames.append, [])
    pacer.put([EMPTY] * 1000)
    passing = asyncio.create_task(pacer.pass_due())
    turns = 0
    while not passing.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(taken.frames) == 1000
    assert turns > 10


async def test_many_empty_pieces_are_much(anyio_backend):
    taken = Taken()
    pacer = Pacer(taken.write, taken.frames.append, [Delay(60.0)])
    pacer.put([EMPTY] * (FULL - 100))
    await asyncio.wait_for(pacer.make_room(), 5)
    pacer.put([EMPTY] * 100)
    with suppress(TimeoutError):
        await asyncio.wait_for(pacer.make_room(), 0.05)
        raise AssertionError("there was room")
    assert taken.frames == []


async def test_there_is_room_once_they_have_passed(anyio_backend):
    taken = Taken()
    pacer = Pacer(taken.write, taken.frames.append, [Delay(0.05)])
    pacer.put([EMPTY] * FULL)
    await asyncio.wait_for(pacer.make_room(), 5)
    assert len(taken.frames) == FULL
    assert pacer.next_at is None
