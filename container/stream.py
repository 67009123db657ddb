"""Stream: what a model's handler holds of one bidirectional stream.

:class:`Stream` is what the handler sees, :class:`WebSocketStream` what the runtime runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol

from container.limits import (
    HANDLER_GRACE,
    RECEIVE_HIGH_WATER,
    RECEIVE_LOW_WATER,
)
from protocol.closing import ABNORMAL, INTERNAL_ERROR, NO_STATUS, NORMAL, Close
from protocol.connection import FrameConnection, HttpProtocol, Side
from protocol.frame_codec import FrameError
from protocol.frames import Frame, FramesToParts, PartsToFrames
from protocol.limits import PART_OVERHEAD, STALL_TIMEOUT
from protocol.parts import PayloadPart

_log = logging.getLogger("partway.container.stream")


class StreamClosed(Exception):
    """The stream is over and takes nothing more. A handler may let it pass.

    Attributes:
        code: of the Close that ended it, ours or the client's; 1005 for one without a code, 1006
            where there was none.
        reason: why.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}".strip())
        self.code = code
        self.reason = reason


class Stream(Protocol):
    """One bidirectional stream, as its handler sees it."""

    def fragments(self) -> AsyncIterator[PayloadPart]:
        """The client's frames as they arrive, one part each; for one reader at a time.

        The iteration ends with the client's Close, after all that came before it, and what is
        sent then still reaches the client; it ends at once with the stream. Whoever takes nothing
        stops the client from sending.
        """

    async def send(self, part: PayloadPart) -> None:
        """Send a part as one frame; waits while the client is behind.

        Parts between a ``PARTIAL`` and its ``COMPLETE`` continue its message whatever their
        ``data_type`` says (clause 1.2-4).

        Raises:
            StreamClosed: the stream is over.
        """

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """End the stream; what has been sent still goes out. Only the first time counts.

        Raises:
            ValueError: the code may not travel (RFC 6455 §7.4).
        """


class WebSocketStream:
    """A :class:`Stream` on a connection whose 101 has been written.

    Args:
        name: what the log calls it.
        high_water: received bytes, unread by the handler, at which the client stops being read.
        low_water: the level at which it is read again.
        stall_timeout: seconds without a byte of progress after which a waiting ``send`` gives the
            client up.
        handler_grace: seconds from the end of the input until the handler is cancelled.

    Every stream ends in one of these ways, and the first one counts:
        1. The handler returns: Close 1000. It raises: Close 1011, and a traceback in the log.
        2. The client's Close ends the input. The handler says the rest and returns: the same Close
           back, as late as that (RFC 6455 §5.5.1). It does not return: Close 1011.
        3. The handler, or a shutdown, calls :meth:`close`.
        4. The client breaks RFC 6455, or sends text that is not UTF-8 (clause 1.1-8).
        5. The connection is lost, or moves nothing for ``stall_timeout``.

    After 4 and 5 the handler is cancelled at once, after 2 and 3 when ``handler_grace`` is over.
    """

    def __init__(
        self,
        name: str,
        *,
        high_water: int = RECEIVE_HIGH_WATER,
        low_water: int = RECEIVE_LOW_WATER,
        stall_timeout: float = STALL_TIMEOUT,
        handler_grace: float = HANDLER_GRACE,
    ) -> None:
        self.name = name
        self._high_water = high_water
        self._low_water = low_water
        self._stall_timeout = stall_timeout
        self._handler_grace = handler_grace
        self._connection = FrameConnection(self, Side.SERVER, check_text=True, answer_close=False)
        self._parts_of = FramesToParts()
        self._frames_of = PartsToFrames()
        self._received: deque[PayloadPart] = deque()
        self._received_bytes = 0
        self._arrival: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._client_close: Close | None = None  # the input is over
        self._end: Close | None = None  # the stream is over
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._overdue: asyncio.TimerHandle | None = None

    # --- For the handler -------------------------------------------------------------------------

    def fragments(self) -> AsyncIterator[PayloadPart]:
        return _Fragments(self._next)

    async def send(self, part: PayloadPart) -> None:
        while True:
            if self._end is not None:
                raise StreamClosed(self._end.code or NO_STATUS, self._end.reason)
            if self._writable.is_set():
                break
            await self._wait_writable()
        self._connection.send(self._frames_of.frame(part))

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        self._close(Close(code, reason))

    # --- For the runtime -------------------------------------------------------------------------

    @property
    def buffered_bytes(self) -> int:
        """Bytes held in this process for the stream, both ways."""
        return self._received_bytes + self._connection.buffered_bytes

    async def run(
        self, http: HttpProtocol, handler: Callable[[Stream], Coroutine[Any, Any, None]]
    ) -> None:
        """Take the connection over, run the handler, and return once both are at their end.

        Cancelling it cancels the handler and aborts the connection.
        """
        task = self._task = asyncio.create_task(handler(self), name=f"stream {self.name}")
        try:
            self._connection.take_over_from(http)
            await asyncio.wait((task,))
            self._handler_ended(task)
            await self._lost.wait()  # FrameConnection's linger bounds this
        finally:
            if not self._lost.is_set():  # we are cancelled
                self.abort()
                await asyncio.wait((task,))
                self._handler_ended(task)
            if self._overdue is not None:
                self._overdue.cancel()

    def abort(self) -> None:
        """End the connection and the handler at once."""
        self._connection.abort()
        if self._end is None:
            self._ended(Close(ABNORMAL, "aborted"))
        self._cancel_handler()

    # --- What the connection tells (protocol.connection.FrameHandler) ----------------------------

    def frame_received(self, frame: Frame) -> None:
        self._received.append(self._parts_of.part(frame))
        self._received_bytes += len(frame.payload) + PART_OVERHEAD
        if self._received_bytes > self._high_water:
            self._connection.pause_reading()
        self._wake_reader()

    def pong_received(self, payload: bytes) -> None:
        """The runtime sends no pings: liveness is the gateway's to watch (clause 1.4-1)."""

    def close_received(self, close: Close) -> None:
        self._client_close = close  # answered once the handler has ended
        self._input_ended()

    def peer_failed(self, error: FrameError) -> None:
        _log.info("stream %s: the client failed: %s", self.name, error.reason)
        self._connection.finish()
        self._ended(Close(error.code, error.reason))
        self._cancel_handler()

    def connection_lost(self, error: Exception | None) -> None:
        if self._end is None:
            self._ended(Close(ABNORMAL, f"the connection was lost: {error or 'end of file'}"))
            self._cancel_handler()
        self._lost.set()

    def writing_paused(self) -> None:
        self._writable.clear()

    def writing_resumed(self) -> None:
        self._writable.set()

    # --- Inside ----------------------------------------------------------------------------------

    async def _next(self) -> PayloadPart | None:
        while not self._received:
            if self._client_close is not None or self._end is not None:
                return None
            if self._arrival is not None:
                raise RuntimeError("a stream's fragments have one reader at a time")
            self._arrival = asyncio.get_running_loop().create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None
        part = self._received.popleft()
        self._received_bytes -= len(part.payload) + PART_OVERHEAD
        if self._received_bytes <= self._low_water and self._end is None:
            self._connection.resume_reading()
        return part

    def _close(self, close: Close) -> None:
        if self._end is None:
            self._connection.finish(close)
            self._ended(close)

    def _wake_reader(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    async def _wait_writable(self) -> None:
        """Wait until the client has caught up, or the stream is over, or nothing has moved."""
        unsent = self._connection.unsent_bytes
        try:
            async with asyncio.timeout(self._stall_timeout):
                await self._writable.wait()
        except TimeoutError:
            if self._end is None and self._connection.unsent_bytes >= unsent:
                _log.info("stream %s: the client took nothing", self.name)
                self._connection.abort()  # a Close would queue behind what it does not take
                self._ended(Close(ABNORMAL, "the client took nothing for too long"))
                self._cancel_handler()

    def _input_ended(self) -> None:
        self._wake_reader()
        if self._overdue is None:
            self._overdue = asyncio.get_running_loop().call_later(
                self._handler_grace, self._cancel_handler
            )

    def _ended(self, end: Close) -> None:
        """Note how the stream ended, and wake whoever waits for it."""
        self._end = end
        self._received.clear()
        self._received_bytes = 0
        self._writable.set()
        self._input_ended()

    def _cancel_handler(self) -> None:
        if self._task is not None:
            self._task.cancel()  # without effect on one that is done

    def _handler_ended(self, task: asyncio.Task[None]) -> None:
        """Close as the handler's end demands, unless the stream is over already (rules 1, 2)."""
        if task.cancelled():
            if self._client_close is not None:
                self.close(INTERNAL_ERROR, "the model did not end with its input")
            else:  # not by us: a cancellation of the handler's own leaked
                self.close(INTERNAL_ERROR, "the model's handler was cancelled")
            return
        error = task.exception()
        if error is None or (isinstance(error, StreamClosed) and self._end is not None):
            self._close(self._client_close or Close(NORMAL))
            return
        _log.error("stream %s: the model's handler failed", self.name, exc_info=error)
        # The type, not the message: that one may quote a payload.
        self.close(INTERNAL_ERROR, f"the model failed: {type(error).__name__}")


class _Fragments(AsyncIterator[PayloadPart]):
    """Not an async generator: one that is left early is closed by a task that nobody owns."""

    __slots__ = ("_next",)

    def __init__(self, next_part: Callable[[], Awaitable[PayloadPart | None]]) -> None:
        self._next = next_part

    async def __anext__(self) -> PayloadPart:
        part = await self._next()
        if part is None:
            raise StopAsyncIteration
        return part
