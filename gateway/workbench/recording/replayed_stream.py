"""A stream to a container, on which a recorded client's frames are sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from partway.gateway.timing.clock import LoopClock
from partway.gateway.workbench.recording.comparison import TimedReply
from partway.gateway.workbench.recording.recording import Joining
from partway.protocol.connections.peer_watch import PingWatch
from partway.protocol.connections.upgrading import Upgraded
from partway.protocol.connections.websocket import FrameConnection, FrameHandler, Side
from partway.protocol.limits import (
    CONTAINER_PING_INTERVAL,
    CONTAINER_PINGS_UNANSWERED,
    LINGER_TIMEOUT,
)
from partway.protocol.websocket.close_codes import ABNORMAL, NO_STATUS, NORMAL, Close
from partway.protocol.websocket.frame_decoder import FrameError, decode_close
from partway.protocol.websocket.frames import Frame, Opcode


class ReplayedStream(FrameHandler):
    """The platform's side of a stream: it pings, answers pings, and keeps the replies.

    Args:
        patience: seconds of silence that end every wait.
        most_replies: most replies of the container.
        most_bytes: most bytes of all replies.

    Attributes:
        trouble: the reason why the stream is not whole, in words.
        count: how many whole replies have come.
        code: the code of the container's Close; 1006 if the connection ended without a Close, None
            if the stream goes on.
    """

    def __init__(
        self, upgraded: Upgraded, patience: float, *, most_replies: int, most_bytes: int
    ) -> None:
        self.trouble = ""
        self.count = 0
        self.code: int | None = None
        self.reason = ""
        self._patience = patience
        self._replies: list[TimedReply] = []
        self._joining = Joining()
        self._replies_left = most_replies
        self._bytes_left = most_bytes
        self._moved = asyncio.Event()
        self._ended = asyncio.Event()
        self._lost = asyncio.Event()
        self._blocked = False
        self._began = self._said_at = time.monotonic()
        self._connection = FrameConnection(self, Side.CLIENT)
        self._pings = PingWatch(
            self._connection,
            LoopClock(),
            interval=CONTAINER_PING_INTERVAL,
            unanswered_limit=CONTAINER_PINGS_UNANSWERED,
            on_lost=self._unresponsive,
        )
        self._connection.take_over(upgraded.transport, upgraded.accepted.trailing)

    # --- The owner's calls ------------------------------------------------------------------------

    async def pause(self, seconds: float) -> None:
        """Wait until ``seconds`` after the last sent frame, or until the stream ends."""
        left = self._said_at + seconds - time.monotonic()
        if left > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._ended.wait()

    async def until_replies(self, count: int) -> bool:
        """Wait until there are ``count`` replies; False if they do not come."""
        return await self._until(lambda: self.count >= count)

    async def until_ended(self) -> bool:
        """Wait for the container's end of the stream; False if it does not come."""
        return await self._until(self._ended.is_set)

    async def say(self, frame: Frame) -> bool:
        """Send a data frame or a Close; False if the stream is over."""
        if not await self._until(lambda: not self._blocked) and not self._ended.is_set():
            self._fail(f"the container took nothing for {self._patience:g} s")
        if self._ended.is_set():
            return False
        if frame.opcode is Opcode.CLOSE:
            self._pings.stop()
            self._connection.close(decode_close(frame.payload))
        else:
            self._connection.send(frame)
        self._said_at = time.monotonic()
        return True

    async def finish(self) -> None:
        """Close the connection, in order if the container lets us."""
        self._end()
        self._connection.finish(Close(NORMAL))
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_TIMEOUT):
                await self._lost.wait()

    def abort(self) -> None:
        self._end()
        self._connection.abort()

    def replies(self) -> list[TimedReply]:
        """The container's replies so far; an unfinished reply is the last."""
        rest = self._joining.rest()
        if rest is None:
            return list(self._replies)
        return [*self._replies, TimedReply(rest, self._began + rest.at - self._said_at)]

    async def _until(self, so: Callable[[], bool]) -> bool:
        """Wait until ``so()`` is true; False if the stream ends before, or falls silent."""
        while not so():
            if self._ended.is_set():
                return False
            self._moved.clear()
            try:
                async with asyncio.timeout(self._patience):
                    await self._moved.wait()
            except TimeoutError:
                return False
        return True

    # --- FrameHandler -----------------------------------------------------------------------------

    def frame_received(self, frame: Frame) -> None:
        if self._ended.is_set():
            return
        self._moved.set()
        now = time.monotonic()
        self._bytes_left -= len(frame.payload)
        message = self._joining.add(frame, now - self._began)
        if message is not None:
            self._replies.append(TimedReply(message, now - self._said_at))
            self.count += 1
            self._replies_left -= 1
        if self._bytes_left < 0 or self._replies_left < 0:
            self._fail("the container sent far more than the recording has: the rest was not read")

    def pong_received(self, payload: bytes) -> None:
        self._pings.pong_received(payload)

    def close_received(self, close: Close) -> None:
        if not self._ended.is_set():
            self.code = NO_STATUS if close.code is None else close.code
            self.reason = close.reason
            self._end()

    def peer_failed(self, error: FrameError) -> None:
        self._fail(f"the container broke RFC 6455: {error.reason}")

    def connection_lost(self, error: Exception | None) -> None:
        self._lost.set()
        if not self._ended.is_set():
            self.code = ABNORMAL
            self._end()

    def writing_paused(self) -> None:
        self._blocked = True

    def writing_resumed(self) -> None:
        self._blocked = False
        self._moved.set()

    def _unresponsive(self) -> None:
        self._fail(f"the container did not answer {CONTAINER_PINGS_UNANSWERED} pings")

    def _fail(self, why: str) -> None:
        if not self._ended.is_set():
            self.trouble = why
            self._end()

    def _end(self) -> None:
        self._ended.set()
        self._moved.set()
        self._pings.stop()
