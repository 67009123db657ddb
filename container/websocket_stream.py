"""WebSocket implementation of :class:`~partway.container.stream.Stream`."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from multidict import CIMultiDictProxy, MultiMapping

from partway.container.errors import ModelError, cause_of, log_failure, reason_of, without_frames
from partway.container.fair_scheduling import HandlerScheduler
from partway.container.figures import Ending
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
    GOING_AWAY,
    INTERNAL_ERROR,
    NO_STATUS,
    NORMAL,
    TRY_AGAIN_LATER,
    Close,
    encode_close,
    only_ends_input,
)
from partway.protocol.websocket.frame_decoder import FrameError
from partway.protocol.websocket.frames import Frame, FramesToParts

_log = logging.getLogger("partway.container.stream")


class WebSocketStream:
    """A stream on a connection whose 101 has been written.

    Args:
        high_water: received bytes, not taken by the handler, at which reading stops.
        low_water: the level at which reading goes on.
        scheduler: wakes the handler when its input has come.
        stall_timeout: seconds without progress after which a waiting ``send`` gives the client up.
            A client whose input waits for so long gets a Close: its model is stuck.
        finish_timeout: seconds without any input or output after which a handler is cancelled, once
            its input has ended.
        handler_grace: seconds from the stream's end until the handler is cancelled.

    Every stream ends in one of these ways, and the first one counts:
        1. The handler returns: Close 1000. It raises: Close 1011, or the code of a
           :class:`~partway.container.errors.ModelError`, and a traceback in the log.
        2. The client's Close ends the input: 1000, without a code, or with one of its own. The
           handler sends its remaining output and returns: then the same Close is sent back (RFC
           6455 §5.5.1; clause 1.5-12). If the handler is silent for ``finish_timeout``: Close 1011.
        3. The client's Close says that it has left or failed (1001 to 1014): the same Close is sent
           back.
        4. The handler, or a shutdown, calls :meth:`close`.
        5. The client breaks RFC 6455, or sends text that is not UTF-8 (clause 1.1-8).
        6. The connection is lost, or takes no output for ``stall_timeout``.
        7. The handler takes no input for ``stall_timeout``: Close 1011.

    After 3, 5 and 6 the handler is cancelled at once, otherwise after ``handler_grace``.
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
        self._writable: asyncio.Future[None] | None = None  # set while the client is behind
        self._client_close: Close | None = None  # set once the input has ended
        self._gone = False  # the client has left
        self._end: Close | None = None  # set once the stream has ended
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._overdue: asyncio.TimerHandle | None = None  # runs until the handler is cancelled
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

    @property
    def closed(self) -> bool:
        return self._end is not None

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

    @property
    def ending(self) -> Ending:
        """How the stream ended; for a stream that is over."""
        end = self._end
        if self._gone:
            return "client_left"
        if end is None or end.code in (ABNORMAL, GOING_AWAY):
            return "stopped"
        if end is self._client_close or end.code == NORMAL:
            return "completed"
        return "busy" if end.code == TRY_AGAIN_LATER else "failed"

    async def run(
        self, http: HttpProtocol, handler: Callable[[Stream], Coroutine[Any, Any, None]]
    ) -> None:
        """Take the connection over, run the handler, and return once both have ended.

        The caller must tell the HTTP server of the connection's end. Cancelling this call cancels
        the handler and aborts the connection.
        """
        began = self._loop.time()
        task = self._task = asyncio.create_task(_contained(handler, self), name=f"stream {self.id}")
        try:
            if http.transport is not None:
                self._socket = http.transport.get_extra_info("socket")
            self._connection.take_over_from(http, tell_end=False)
            await asyncio.wait((task,))
            self._handler_ended(task)
            await self._lost.wait()  # bounded by FrameConnection's linger
        finally:
            if not self._lost.is_set():  # this task was cancelled
                self.abort()
                await asyncio.wait((task,))
                self._handler_ended(task)
            if self._overdue is not None:
                self._overdue.cancel()
            self._log_end(self._loop.time() - began)

    def abort(self) -> None:
        self._connection.abort()
        if self._end is None:
            self._ended(Close(ABNORMAL, "aborted"))
        self._cancel_handler()

    # --- What the connection tells (FrameHandler) -------------------------------------------------

    def frame_received(self, frame: Frame) -> None:
        self._inbox.put(self._parts_of.part(frame))

    def pong_received(self, payload: bytes) -> None:
        """Ignore a Pong: the runtime sends no pings, the gateway does (clause 1.4-1)."""

    def close_received(self, close: Close) -> None:
        if only_ends_input(close):
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
        # If more input waits, the handler will answer that too; one write then sends all answers.
        self._connection.send(frame, more=bool(self._inbox))

    def _clear(self) -> bool:
        self._sends += 1
        turn_over = not self._sends % FRAMES_PER_TURN
        return self._writable is None and self._end is None and not turn_over

    async def _ready(self) -> None:
        """Wait until a frame may be written.

        Raises:
            StreamClosed: the stream is over.
        """
        if not self._sends % FRAMES_PER_TURN:
            await asyncio.sleep(0)  # a handler that only sends would block the loop
        while self._writable is not None:
            await self._wait_writable(self._writable)
        if self._end is not None:
            raise StreamClosed(self._end.code or NO_STATUS, self._end.reason)

    async def _wait_writable(self, writable: asyncio.Future[None]) -> None:
        """Wait until the client has caught up, the stream is over, or progress has stalled."""
        unsent = self._connection.unsent_bytes
        await asyncio.wait((writable,), timeout=self._stall_timeout)
        if not writable.done() and self._connection.unsent_bytes >= unsent:
            self._client_stalled()

    def _pause(self) -> None:
        """Stop reading while the handler is behind, with a time limit.

        A connection that is not read does not report its end either, so it is checked for that.
        """
        self._connection.pause_reading()
        self._untaken.watch(min(PRESENCE_CHECK, self._stall_timeout))

    def _resume(self) -> None:
        self._untaken.stop()
        self._connection.resume_reading()

    def _look_at_taking(self, still: float) -> None:
        if is_over(self._socket):
            self._connection.abort()
            self._client_left(Close(ABNORMAL, "the client left while its input was not being read"))
        elif still >= self._stall_timeout:
            self._close(Close(INTERNAL_ERROR, "the model read no input for too long"))

    def _close(self, close: Close) -> None:
        if self._end is None:
            encode_close(close)  # raises before anything is changed
            self._outbox.cut()
            self._connection.finish(close)
            self._ended(close)

    def _client_stalled(self) -> None:
        if self._end is None:
            self._connection.abort()  # a Close would wait behind the untaken bytes
            self._client_left(Close(ABNORMAL, "the client read nothing for too long"))

    def _client_left(self, end: Close) -> None:
        """End the stream of a client that has left: the handler need not finish."""
        if self._end is None:
            self._gone = True
            self._ended(end)
            self._cancel_handler()

    def _ended(self, end: Close) -> None:
        """Note how the stream ended, and wake the tasks that wait for it."""
        self._end = end
        self._untaken.stop()
        self._finishing.stop()
        self._inbox.drop()
        self.writing_resumed()
        self._inbox.end()
        self._in_grace(self._cancel_handler)

    # --- What a handler has when there is nothing more to hear, or to say ------------------------

    def _in_grace(self, call: Callable[[], object]) -> None:
        """Restart the single timer of the handler's end."""
        if self._overdue is not None:
            self._overdue.cancel()
        self._overdue = self._loop.call_later(self._handler_grace, call)

    def _progress(self) -> tuple[int, int, int]:
        """Return counters that change while the handler works and its client takes output."""
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
            self._task.cancel()  # no effect on a task that is done
            self._in_grace(self._on_ignored)

    def _on_ignored(self) -> None:
        if self._task is not None and not self._task.done():
            ignored = "the model's handler ignores its cancellation"
            _log.warning(LogLine(ignored, request_id=self.id))

    def _handler_ended(self, task: asyncio.Task[None]) -> None:
        """Close as the handler's end requires, unless the stream is over already (rules 1, 2)."""
        if task.cancelled():  # a cancellation from the handler's own code, unless the end is known
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
    """Run a handler; turn exceptions that would end the loop into a failure of this handler."""
    try:
        await handler(stream)
    except asyncio.CancelledError as error:
        raise without_frames(error) from None
    except (SystemExit, KeyboardInterrupt) as error:
        raise ordinary(error) from error


def _lets_pass(error: BaseException) -> bool:
    """Whether a handler's exception, or each of its tasks', only says that the stream is over."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(StreamClosed)[1] is None
    return isinstance(error, StreamClosed)
