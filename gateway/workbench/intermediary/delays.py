"""Delays of pieces on their way to the gateway, where a fault asks for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from partway.gateway.workbench.intermediary.faults import Delay, Fault, Throttle
from partway.gateway.workbench.intermediary.frame_faults import Piece
from partway.protocol.limits import FRAMES_PER_TURN, JOIN_UP_TO, PART_OVERHEAD, WRITE_HIGH_WATER
from partway.protocol.websocket.frames import Frame

#: Writes per second of throttled bytes, where there are enough bytes.
_BEATS = 20


class Pacer:
    """Writes the pieces of one spoiled stream, each in its time.

    After :meth:`put`, the caller must call :meth:`pass_due` when pieces are due.

    Args:
        write: takes bytes, and returns once there is room for more.
        passed: told of each whole frame, once it is written.
        faults: the faults of the stream; only delays and throttles matter here.
    """

    def __init__(
        self,
        write: Callable[[bytes], Awaitable[None]],
        passed: Callable[[Frame], None],
        faults: Iterable[Fault],
    ) -> None:
        by_kind = {type(fault): fault for fault in faults}
        delay, throttle = by_kind.get(Delay), by_kind.get(Throttle)
        self._delay = delay.seconds if isinstance(delay, Delay) else 0.0
        self._rate = throttle.bytes_per_second if isinstance(throttle, Throttle) else 0
        self._write = write
        self._passed = passed
        self._waiting: deque[tuple[float, Piece]] = deque()
        self._held = 0
        self._free_at = 0.0
        self._now = asyncio.get_running_loop().time

    @property
    def next_at(self) -> float | None:
        """When the next piece is due, by the loop's clock; None if no piece waits."""
        return self._waiting[0][0] if self._waiting else None

    def put(self, pieces: Iterable[Piece]) -> None:
        """Take pieces whose delay begins now; call :meth:`make_room` before the next call."""
        due = self._now() + self._delay
        for piece in pieces:
            self._waiting.append((due, piece))
            self._held += len(piece.data) + PART_OVERHEAD

    async def make_room(self) -> None:
        """Write waiting pieces, each at its time, until they have few enough bytes for more."""
        while self._held >= WRITE_HIGH_WATER and (due := self.next_at) is not None:
            await asyncio.sleep(due - self._now())
            await self.pass_due()

    async def pass_due(self) -> None:
        passed = 0
        while self._waiting and self._waiting[0][0] <= self._now():
            _, piece = self._waiting.popleft()
            await self._pace(piece.data)
            self._held -= len(piece.data) + PART_OVERHEAD
            if piece.frame is not None:
                self._passed(piece.frame)
            passed += 1
            if passed % FRAMES_PER_TURN == 0:
                # a part may have become thousands of pieces: let other tasks run
                await asyncio.sleep(0)

    async def pass_all(self) -> None:
        while (due := self.next_at) is not None:
            await asyncio.sleep(due - self._now())
            await self.pass_due()

    async def _pace(self, data: bytes) -> None:
        if not self._rate:
            await self._write(data)
            return
        step = max(1, min(self._rate // _BEATS, JOIN_UP_TO))
        for at in range(0, len(data), step):
            await asyncio.sleep(self._free_at - self._now())
            some = data[at : at + step]
            await self._write(some)
            self._free_at = max(self._free_at, self._now()) + len(some) / self._rate
