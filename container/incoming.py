"""Received parts that a handler has not taken yet, and the messages made of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from partway.container.fair_scheduling import HandlerScheduler
from partway.container.limits import MAX_MESSAGE_BYTES, RECEIVE_HIGH_WATER, RECEIVE_LOW_WATER
from partway.protocol.limits import PART_OVERHEAD
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.websocket.close_codes import TOO_BIG, Close

_PARTIAL = CompletionState.PARTIAL
_UTF8 = DataType.UTF8


def _nothing() -> None:
    pass


class Inbox:
    """Parts in order of arrival, for one reader at a time.

    Args:
        pause: called when more than ``high_water`` bytes wait; the owner stops reading.
        resume: called when no more than ``low_water`` are left.
        high_water: bytes of the parts, with ``PART_OVERHEAD`` for each.
        low_water: bytes, counted likewise.
        scheduler: wakes the reader; by default the inbox has its own scheduler.
        hold: called when the reader must wait for its turn: until then reading is not needed.
        let_go: called when the reader's turn has come.
    """

    def __init__(
        self,
        pause: Callable[[], None],
        resume: Callable[[], None],
        *,
        high_water: int = RECEIVE_HIGH_WATER,
        low_water: int = RECEIVE_LOW_WATER,
        scheduler: HandlerScheduler | None = None,
        hold: Callable[[], None] = _nothing,
        let_go: Callable[[], None] = _nothing,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._scheduler = scheduler if scheduler is not None else HandlerScheduler()
        self._hold = hold
        self._let_go = let_go
        self._held = False
        self._pause = pause
        self._resume = resume
        self._high_water = high_water
        self._low_water = low_water
        self._parts: deque[PayloadPart] = deque()
        self._paused = False
        self._ended = False
        self._arrival: asyncio.Future[None] | None = None
        self._woken = False  # or is about to be woken
        #: Bytes of the waiting parts, overhead included.
        self.held_bytes = 0
        #: The beginning of an unfinished message. It is kept here, so that a reader that stops
        #: waiting loses nothing.
        self.begun: bytearray | None = None
        #: Whether the last part taken as a fragment began or continued a message.
        self.mid_message = False
        self.parts_taken = 0
        #: Number of received parts, and their bytes.
        self.parts_in = 0
        self.bytes_in = 0

    def __len__(self) -> int:
        return len(self._parts)

    def put(self, part: PayloadPart) -> None:
        size = len(part.payload)
        self.parts_in += 1
        self.bytes_in += size
        self.held_bytes += size + PART_OVERHEAD
        self._parts.append(part)
        if self.held_bytes > self._high_water and not self._paused:
            self._paused = True
            self._pause()
        self._wake()

    def end(self) -> None:
        """Note that no more parts come; waiting parts can still be taken."""
        self._ended = True
        self._wake()

    def drop(self) -> None:
        self._parts.clear()
        self.held_bytes = 0
        self.begun = None
        self.end()

    async def next(self) -> PayloadPart | None:
        """Return the next part; None after the last.

        Raises:
            RuntimeError: another task waits for the next part.
        """
        while (part := self.take()) is None:
            if self._ended:
                return None
            if self._arrival is not None:
                raise RuntimeError(
                    "another task reads this stream's input: it must have one reader at a time"
                )
            self._arrival = self._loop.create_future()
            self._woken = False
            try:
                await self._arrival
            finally:
                self._arrival = None
                if self._held:
                    self._held = False
                    if not self._paused:
                        self._let_go()
        return part

    def take(self) -> PayloadPart | None:
        """Return the next part, or None. On a busy stream it avoids the cost of a coroutine."""
        if not self._parts:
            return None
        part = self._parts.popleft()
        self.parts_taken += 1
        self.held_bytes -= len(part.payload) + PART_OVERHEAD
        if self._paused and self.held_bytes <= self._low_water:
            self._paused = False
            self._resume()
        return part

    def _wake(self) -> None:
        if self._arrival is not None and not self._woken and not self._arrival.done():
            self._woken = True
            if not self._scheduler.wake(self._arrival) and not self._paused and not self._ended:
                self._held = True
                self._hold()


# Neither of these is an async generator: no task would own the closing of an abandoned one.


class Fragments(AsyncIterator[PayloadPart]):
    __slots__ = ("_inbox",)

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    async def __anext__(self) -> PayloadPart:
        inbox = self._inbox
        if inbox.begun is not None:
            raise RuntimeError("messages() has begun a message: it must be read to its end first")
        part = inbox.take() or await inbox.next()
        if part is None:
            raise StopAsyncIteration
        inbox.mid_message = part.completion is _PARTIAL
        return part


class Messages(AsyncIterator[str | bytes]):
    """The whole messages of an inbox: text as ``str``, binary as ``bytes``.

    A message that the client has not finished is left out.

    Args:
        inbox: the parts; the connection's decoder has checked that text is UTF-8 (clause 1.1-8).
        close: called with 1009 when a message is larger than ``max_message``.
        max_message: bytes of the largest message, all fragments together.
    """

    __slots__ = ("_close", "_inbox", "_max_message")

    def __init__(
        self, inbox: Inbox, close: Callable[[Close], None], max_message: int = MAX_MESSAGE_BYTES
    ) -> None:
        self._inbox = inbox
        self._close = close
        self._max_message = max_message

    async def __anext__(self) -> str | bytes:
        inbox = self._inbox
        if inbox.mid_message:
            raise RuntimeError("fragments() has begun a message: it must be read to its end first")
        while True:
            part = inbox.take() or await inbox.next()
            if part is None:
                raise StopAsyncIteration
            payload, data_type, completion = part
            if inbox.begun is None and completion is not _PARTIAL:
                break
            if inbox.begun is None:
                # A bytearray, because a list of single bytes would take fifty times their size.
                inbox.begun = bytearray()
            inbox.begun += payload
            if len(inbox.begun) > self._max_message:
                raise self._too_big()
            if completion is not _PARTIAL:
                payload, inbox.begun = bytes(inbox.begun), None
                break
        if len(payload) > self._max_message:
            raise self._too_big()
        return payload.decode() if data_type is _UTF8 else payload

    def _too_big(self) -> StopAsyncIteration:
        self._close(Close(TOO_BIG, f"a message is larger than {self._max_message} bytes"))
        return StopAsyncIteration()
