"""The :class:`~partway.container.stream.Stream` that the runtime runs on a WebSocket."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from multidict import CIMultiDictProxy, MultiMapping

from partway.container.errors import ModelError, cause_of, log_failure, reason_of
from partway.container.fair_scheduling import HandlerScheduler
from partway.container.incoming import Fragments, Inbox, Messages
from partway.container.limits import (
    FINISH_CHECKS,
    FINISH_TIMEOUT,
    HANDLER_GRACE,
    PRESENCE_CHECK,
    RECEIVE_HIGH_WATER,
    RECEIVE_LOW_WATER,
)
from partway.container.model import Opening
from partway.container.outgoing import Outbox, OutgoingMessage
from partway.container.stream import Stream, StreamClosed
from partway.container.stream_watch import ProgressWatch, is_over
from partway.container.threads import ordinary
from partway.log_lines import LogLine
from partway.protocol.connections.websocket import FrameConnection, HttpProtocol, Side
from partway.protocol.limits import FRAMES_PER_TURN, LOGGED_CHARACTERS, STALL_TIMEOUT
from partway.protocol.parts import PayloadPart
from partway.protocol.websocket.close_codes import (
    ABNORMAL,
    FIRST_PRIVATE,
    INTERNAL_ERROR,
    NO_STATUS,
    NORMAL,
    Close,
    encode_close,
)
from partway.protocol.websocket.frame_decoder import FrameError
from partway.protocol.websocket.frames import Frame, FramesToParts

_log = logging.getLogger("partway.container.stream")


class WebSocketStream:
    """A stream on a connection whose 101 has been written.

    Args:
        opening: what the client asked for.
        high_water: received bytes, unread by the handler, at which the client stops being read.
        low_water: the level at which it is read again.
        scheduler: wakes the handler when its input has come.
        stall_timeout: seconds without a byte of progress after which a waiting ``send`` gives the
            client up, or a client that is not read is told that its model is stuck.
        finish_timeout: seconds in which a handler whose input is over has neither taken nor sent
            anything; then it is cancelled.
        handler_grace: seconds from the stream's end until the handler is cancelled.

    Every stream ends in one of these ways, and the first one counts:
        1. The handler returns: Close 1000. It raises: Close 1011, or the code of a
           :class:`~partway.container.errors.ModelError`, and a traceback in the log.
        2. The client's Close ends the input: 1000, without a code, or with one of its own. The
           handler says the rest and returns: the same Close back, as late as that (RFC 6455
           §5.5.1; clause 1.5-12). It says nothing for ``finish_timeout``: Close 1011.
        3. The client's Close says that it has gone, or failed (1001 to 1014): the same Close back.
        4. The handler, or a shutdown, calls :meth:`close`.
        5. The client breaks RFC 6455, or sends text that is not UTF-8 (clause 1.1-8).
        6. The connection is lost, or takes nothing of what is sent for ``stall_timeout``.
        7. The handler takes nothing of what has come for ``stall_timeout``: Close 1011.

    After 3, 5 and 6 the handler is cancelled at once, else when ``handler_grace`` is over.
    """

    def __init__(
        self,
        opening: Opening,
        *,
        high_water: int = RECEIVE_HIGH_WATER,
        low_water: int = RECEIVE_LOW_WATER,
        stall_timeout: float = STALL_TIMEOUT,
        finish_timeout: float = FINISH_TIMEOUT,
        handler_grace: float = HANDLER_GRACE,
        scheduler: HandlerScheduler | None = None,
        reason_of: Callable[[BaseException], str] = reason_of,
    ) -> None:
        self.id = opening.id
        self.path = opening.path
        self.query: MultiMapping[str] = opening.query
        self.headers: CIMultiDictProxy[str] = opening.headers
        self._loop = asyncio.get_running_loop()
        self._stall_timeout = stall_timeout
        self._finish_timeout = finish_timeout
        self._handler_grace = handler_grace
        self._reason_of = reason_of
        self._connection = FrameConnection(self, Side.SERVER, check_text=True, answer_close=False)
        self._parts_of = FramesToParts()
        self._inbox = Inbox(
            *(self._pause, self._resume),
            high_water=high_water,
            low_water=low_water,
            scheduler=scheduler,
            hold=self._connection.pause_reading,
            let_go=self._connection.resume_reading,
        )
        self._outbox = Outbox(self._write, self._clear, self._ready)
        self._writable: asyncio.Future[None] | None = None  # while the client is behind
        self._client_close: Close | None = None  # the input is over
        self._gone = False  # nobody takes anything more
        self._end: Close | None = None  # the stream is over
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._overdue: asyncio.TimerHandle | None = None  # until the handler is cancelled
        self._untaken = ProgressWatch(
            self._loop, lambda: self._inbox.parts_taken, self._look_at_taking
        )
        self._finishing = ProgressWatch(self._loop, self._progress, self._look_at_progress)
        self._socket: socket.socket | None = None
        self._sends = 0

    # --- For the handler (partway.container.stream.Stream) ----------------------------------------

    @property
    def client_gone(self) -> bool:
        return self._gone

    def messages(self) -> AsyncIterator[str | bytes]:
        return Messages(self._inbox, self._close)

    def fragments(self) -> AsyncIterator[PayloadPart]:
        return Fragments(self._inbox)

    def send(self, message: str | bytes) -> Coroutine[Any, Any, None]:
        return self._outbox.send(message)

    def send_part(self, part: PayloadPart) -> Coroutine[Any, Any, None]:
        return self._outbox.send_part(part)

    def message(self, *, text: bool = False) -> Any:
        return OutgoingMessage(self._outbox, text=text)

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        self._close(Close(code, reason))

    # --- For the runtime -------------------------------------------------------------------------

    @property
    def buffered_bytes(self) -> int:
        """Bytes held in this process for the stream, both ways."""
        unfinished = len(self._inbox.begun or b"")
        return self._inbox.held_bytes + unfinished + self._connection.buffered_bytes

    async def run(
        self, http: HttpProtocol, handler: Callable[[Stream], Coroutine[Any, Any, None]]
    ) -> None:
        """Take the connection over, run the handler, and return once both are at their end.

        The HTTP server is not told of the connection's end: the caller owes it that.
        Cancelling this cancels the handler and aborts the connection.
        """
        began = self._loop.time()
        task = self._task = asyncio.create_task(_contained(handler, self), name=f"stream {self.id}")
        try:
            if http.transport is not None:
                self._socket = http.transport.get_extra_info("socket")
            self._connection.take_over_from(http, tell_end=False)
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
            self._log_end(self._loop.time() - began)

    def abort(self) -> None:
        """End the connection and the handler at once."""
        self._connection.abort()
        if self._end is None:
            self._ended(Close(ABNORMAL, "aborted"))
        self._cancel_handler()

    # --- What the connection tells (FrameHandler) -------------------------------------------------

    def frame_received(self, frame: Frame) -> None:
        self._inbox.put(self._parts_of.part(frame))

    def pong_received(self, payload: bytes) -> None:
        """The runtime sends no pings: liveness is the gateway's to watch (clause 1.4-1)."""

    def close_received(self, close: Close) -> None:
        if _still_listens(close):
            self._client_close = close  # answered once the handler has ended
            self._inbox.end()
            self._finishing.watch(self._finish_timeout / FINISH_CHECKS)
        else:
            self._connection.finish(close)
            self._client_left(close)

    def peer_failed(self, error: FrameError) -> None:
        self._connection.finish()
        self._client_left(Close(error.code, error.reason))

    def connection_lost(self, error: Exception | None) -> None:
        lost = f"the connection was lost: {error or 'end of file'}"
        self._client_left(Close(ABNORMAL, lost))
        self._lost.set()

    def writing_paused(self) -> None:
        if self._writable is None and self._end is None:
            self._writable = self._loop.create_future()

    def writing_resumed(self) -> None:
        waited, self._writable = self._writable, None
        if waited is not None:
            waited.set_result(None)

    # --- Inside ----------------------------------------------------------------------------------

    def _write(self, frame: Frame) -> None:
        # With more input at hand the handler is about to answer that too: one write for all of it.
        self._connection.send(frame, more=bool(self._inbox))

    def _clear(self) -> bool:
        """Whether a frame may be written at once; asked before each frame."""
        self._sends += 1
        turn_over = not self._sends % FRAMES_PER_TURN
        return self._writable is None and self._end is None and not turn_over

    async def _ready(self) -> None:
        """Wait until a frame may be written.

        Raises:
            StreamClosed: the stream is over, and no frame may be written any more.
        """
        if not self._sends % FRAMES_PER_TURN:
            await asyncio.sleep(0)  # a handler that only sends would keep the loop
        while self._writable is not None:
            await self._wait_writable(self._writable)
        if self._end is not None:
            raise StreamClosed(self._end.code or NO_STATUS, self._end.reason)

    async def _wait_writable(self, writable: asyncio.Future[None]) -> None:
        """Wait until the client has caught up, or the stream is over, or nothing moves."""
        unsent = self._connection.unsent_bytes
        await asyncio.wait((writable,), timeout=self._stall_timeout)
        if not writable.done() and self._connection.unsent_bytes >= unsent:
            self._client_stalled()

    def _pause(self) -> None:
        """Stop reading while the handler is behind, but not for ever.

        A connection that is not read does not show its end either: it is looked for.
        """
        self._connection.pause_reading()
        self._untaken.watch(min(PRESENCE_CHECK, self._stall_timeout))

    def _resume(self) -> None:
        self._untaken.stop()
        self._connection.resume_reading()

    def _look_at_taking(self, still: float) -> None:
        if is_over(self._socket):
            self._connection.abort()
            self._client_left(Close(ABNORMAL, "the client has gone, and was not read"))
        elif still >= self._stall_timeout:
            self._close(Close(INTERNAL_ERROR, "the model took nothing for too long"))

    def _close(self, close: Close) -> None:
        if self._end is None:
            encode_close(close)  # raises before anything has happened
            self._outbox.cut()
            self._connection.finish(close)
            self._ended(close)

    def _client_stalled(self) -> None:
        if self._end is None:
            self._connection.abort()  # a Close would queue behind what it does not take
            self._client_left(Close(ABNORMAL, "the client took nothing for too long"))

    def _client_left(self, end: Close) -> None:
        """Nobody is there to compute for: the handler need not finish."""
        if self._end is None:
            self._gone = True
            self._ended(end)
            self._cancel_handler()

    def _ended(self, end: Close) -> None:
        """Note how the stream ended, and wake whoever waits for it."""
        self._end = end
        self._untaken.stop()
        self._finishing.stop()
        self._inbox.drop()
        self.writing_resumed()
        self._inbox.end()
        self._in_grace(self._cancel_handler)

    # --- What a handler has when there is nothing more to hear, or to say ------------------------

    def _in_grace(self, call: Callable[[], object]) -> None:
        """Set the one timer of the handler's end anew."""
        if self._overdue is not None:
            self._overdue.cancel()
        self._overdue = self._loop.call_later(self._handler_grace, call)

    def _progress(self) -> tuple[int, int, int]:
        """What moves as long as a handler works, and its client takes what it says."""
        return self._inbox.parts_taken, self._outbox.parts_out, self._connection.taken_bytes

    def _look_at_progress(self, still: float) -> None:
        if self._writable is not None:
            if still >= self._stall_timeout:
                self._client_stalled()
        elif still >= self._finish_timeout:
            silent = f"the model was silent for {self._finish_timeout:g} s after its input's end"
            self._close(Close(INTERNAL_ERROR, f"{silent} (--finish-timeout)"))
            self._cancel_handler()

    def _cancel_handler(self) -> None:
        if self._task is not None:
            self._task.cancel()  # without effect on one that is done
            self._in_grace(self._on_ignored)

    def _on_ignored(self) -> None:
        if self._task is not None and not self._task.done():
            ignored = "the model's handler ignores its cancellation"
            _log.warning(LogLine(ignored, request_id=self.id))

    def _handler_ended(self, task: asyncio.Task[None]) -> None:
        """Close as the handler's end demands, unless the stream is over already (rules 1, 2)."""
        if task.cancelled():  # not by us, or the end is said: one of the handler's own leaked
            self.close(INTERNAL_ERROR, "the model's handler was cancelled")
            return
        error = task.exception()
        if error is None or (self._end is not None and _lets_pass(error)):
            self._close(self._client_close or Close(NORMAL))
            return
        error = cause_of(error)
        log_failure(_log, "stream", error, request_id=self.id)
        code = error.code if isinstance(error, ModelError) else INTERNAL_ERROR
        self.close(code, self._reason_of(error))

    def _log_end(self, duration: float) -> None:
        end = self._end or Close(ABNORMAL)
        _log.info(
            LogLine(
                "stream ended",
                request_id=self.id,
                path=self.path,
                duration=round(duration, 3),
                parts_in=self._inbox.parts_in,
                bytes_in=self._inbox.bytes_in,
                parts_out=self._outbox.parts_out,
                bytes_out=self._outbox.bytes_out,
                code=end.code or NO_STATUS,
                reason=end.reason[:LOGGED_CHARACTERS],
            )
        )


async def _contained(
    handler: Callable[[Stream], Coroutine[Any, Any, None]], stream: Stream
) -> None:
    """Run a handler; what would end the loop, and every stream, is this handler's failure."""
    try:
        await handler(stream)
    except (SystemExit, KeyboardInterrupt) as error:
        raise ordinary(error) from error


def _still_listens(close: Close) -> bool:
    """Whether a client's Close ends its input alone (clause 1.5-11): others wait for no answer.

    What the codes from 3000 on mean is known to those alone who agreed on them.
    """
    return close.code in (None, NORMAL) or close.code >= FIRST_PRIVATE


def _lets_pass(error: BaseException) -> bool:
    """Whether a handler, or each task of it that failed, only raised that the stream is over."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(StreamClosed)[1] is None
    return isinstance(error, StreamClosed)
