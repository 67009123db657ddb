"""One exchange with a container: its answer as it comes, and every way in which it can end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Final, Protocol, Self

from partway.gateway.containers.answers import AnswerBroken, AnswerHead, AnswerParser, AnswerPiece
from partway.gateway.containers.limits import (
    ANSWER_CHUNKS_PER_TURN,
    ANSWER_PIECES_PER_TURN,
    ANSWER_TURN_BYTES,
)
from partway.gateway.timing.deadlines import time_limit
from partway.gateway.timing.many_timers import Line, ManyTimers
from partway.protocol.connections.fair_turns import Queued, rounds
from partway.protocol.errors import (
    ContainerBroke,
    ContainerError,
    ContainerLate,
    InputValidationError,
)
from partway.protocol.limits import (
    HTTP1_BYTES_PER_TURN,
    LONG_READ,
    WRITE_HIGH_WATER,
    WRITE_LOW_WATER,
)

_NO_BYTES: Final = memoryview(b"")


class RequestWire(Protocol):
    """The connection of an exchange, as the exchange sees it."""

    loop: asyncio.AbstractEventLoop

    def write(self, data: bytes) -> None:
        """Send bytes; dropped once the connection is gone."""

    async def room(self) -> None:
        """Return when there is room for more bytes."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None:
        """Break the connection off: the container's request is cancelled."""

    def over(self, *, good: bool) -> None:
        """Note that the exchange is over; ``good`` if the connection may have another."""


class ContainerAnswer:
    """A container's answer to one request; returned by :meth:`ContainerConnections.ask`.

    A context, whose end is the exchange's. If it ends before the answer does, the connection is
    broken off, which cancels the container's request.

    The container is held back while the caller does not take the answer. A fault is raised in the
    current wait, or else in the next one.

    Rules. One read may bring forty thousand chunks of a byte each.
        1. A turn parses bytes until these have made ANSWER_CHUNKS_PER_TURN pieces. The rest waits
        for another turn in the loop's rounds (:mod:`partway.protocol.connections.fair_turns`),
        and the container is not read meanwhile.
        2. A read is parsed at once, unless it is over LONG_READ while others have a backlog, or it
        follows bytes that were full of tiny chunks. Then it waits for a turn.
        3. A caller that takes more than ANSWER_PIECES_PER_TURN pieces in a row waits for a turn.
        4. A turn hands over the pieces that are there. Without any it parses more bytes.

    Args:
        timeout: seconds from the request's end to the answer's head, and of silence in its body.
        whole_chunk: a chunk of the body of up to so many bytes is one piece.

    Attributes:
        began_at: when the request was handed to the connection, by :func:`time.monotonic`.
        sender: sends the body of a request that comes bit by bit; None for another.
        sent: whether the whole request has been handed to the connection.
    """

    __slots__ = (
        "_dense",
        "_end",
        "_error",
        "_line",
        "_news",
        "_paused",
        "_place",
        "_taken_at_once",
        "_timeout",
        "_timers",
        "_unparsed",
        "_wire",
        "began_at",
        "due",
        "parser",
        "sender",
        "sent",
    )

    def __init__(
        self,
        wire: RequestWire,
        timers: ManyTimers,
        began_at: float,
        timeout: float,
        whole_chunk: int,
    ) -> None:
        self.began_at = began_at
        self.sent = False
        self._wire = wire
        self._timers = timers
        self._timeout = timeout
        self.parser = AnswerParser(whole_chunk)
        self._unparsed = _NO_BYTES
        #: Whether the last bytes were full of tiny chunks (rule 2).
        self._dense = False
        #: The place in the rounds, while a turn is waited for.
        self._place: Queued | None = None
        self._paused = False
        #: The fault that ended the connection, or "" for a good end; None while it is open.
        self._end: str | None = None
        self._error: BaseException | None = None
        self._news: asyncio.Future[None] | None = None
        self.sender: asyncio.Task[None] | None = None
        self._taken_at_once = 0
        #: Its line among the timers, while the head or more of the body is waited for.
        self._line: Line | None = None
        self.due: float

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # --- The request -----------------------------------------------------------------------------

    def send(self, body: AsyncGenerator[bytes, None], length: int | None) -> None:
        """Send a body as it comes, in a task of this object; the head has been sent.

        A body without a known length goes in chunks.
        """
        work = self._send(body, length)
        self.sender = asyncio.create_task(work, name="body of a request of a container")

    async def _send(self, body: AsyncGenerator[bytes, None], length: int | None) -> None:
        """Send a body as it comes; an error of the body fails the exchange."""
        sent = 0
        try:
            async with aclosing(body):
                async for piece in body:
                    if not piece:
                        continue  # as a chunk it would end the body
                    sent += len(piece)
                    if length is None:
                        piece = b"%x\r\n%b\r\n" % (len(piece), piece)
                    elif sent > length:
                        break
                    self._wire.write(piece)
                    async with time_limit(self._timers, self._timeout):
                        await self._wire.room()
            if length is None:
                self._wire.write(b"0\r\n\r\n")
            elif sent != length:
                self.fail(_not_as_stated(length))
                return
        except TimeoutError:
            why = f"the container took nothing of the request's body for {self._timeout:g} s"
            self.fail(ContainerLate(why))
        except Exception as error:  # raised where the answer is waited for
            self.fail(error)
        else:
            self.is_sent()

    def is_sent(self) -> None:
        """Note that the connection has the whole request: the time for the answer begins."""
        self.sent = True
        if self.parser.head is None:
            self._line = self._timers.stand(self, self._timeout)
        if self._news is not None:
            self._wake()

    # --- The answer ------------------------------------------------------------------------------

    async def head(self) -> AnswerHead:
        """Wait for the answer's status and headers.

        Raises:
            ContainerLate: it has not come in time.
            ContainerError: the connection ended, or the answer is invalid.
            Exception: an error of the request's body.
        """
        while (head := self.parser.head) is None:
            if self._error is not None:
                raise self._error
            self._news = self._wire.loop.create_future()
            try:
                await self._news  # while the body is sent, other limits hold
            finally:
                self._news = None
        return head

    async def piece(self) -> AnswerPiece | None:
        """Wait for the next piece of the answer's body; None after its end.

        Raises:
            ContainerLate: the container was silent for too long.
            ContainerError: the connection ended before the body did, or it is not valid HTTP.
            Exception: an error of the request's body.
        """
        while True:
            if self._taken_at_once >= ANSWER_PIECES_PER_TURN and self.parser.pieces:
                self._queue()
                await self._wait()
            elif (piece := self.piece_at_hand()) is not None:
                self._taken_at_once += 1
                return piece
            elif self._unparsed:
                self._queue()
                await self._wait()
            elif self.parser.complete:
                return None
            elif self._error is not None:
                raise self._error
            else:
                await self._next_read()

    async def read(self) -> bytes:
        """Wait for more of the answer's body, whatever its chunks; empty after its end.

        Raises:
            ContainerError: see :meth:`piece`.
        """
        first = await self.piece()
        if first is None:
            return b""
        if not self.parser.pieces:
            return first.data
        pieces = [first.data]
        while self.parser.pieces:
            taken = self.parser.take()
            assert taken is not None, "there are some"
            pieces.append(taken.data)
        self._taken_at_once += len(pieces) - 1
        return b"".join(pieces)

    def rest(self) -> bytes | None:
        """Take the rest of the answer's body, if it is all there; else return None.

        The caller then has to wait by :meth:`read`.
        """
        parser = self.parser
        if not parser.complete or self._paused or len(parser.pieces) > 1:
            return None
        piece = parser.take()
        return b"" if piece is None else piece.data

    async def so_far(self, most: int, seconds: float) -> bytes:
        """Wait for the answer's body, and return what has come, complete or not.

        At most ``most`` bytes are returned, after ``seconds`` at the latest.

        Raises:
            Exception: an error of the request's body.
        """
        said = b""
        with suppress(ContainerError, TimeoutError):  # its status already says that it failed
            async with time_limit(self._timers, seconds):
                while len(said) < most and (more := await self.read()):
                    said += more
        return said[:most]

    @property
    def ended(self) -> bool:
        """Whether all of the answer has come and been taken."""
        return self.parser.complete and not self.parser.pieces

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the answer that have come and wait to be taken."""
        return self.parser.held + self.parser.begun + len(self._unparsed)

    def piece_at_hand(self) -> AnswerPiece | None:
        """Take the next piece if it has come, and let the container send more; else return None."""
        piece = self.parser.take()
        if self._paused and self.parser.held <= WRITE_LOW_WATER:
            self._hold_back()
        return piece

    async def _wait(self) -> None:
        self._news = self._wire.loop.create_future()
        try:
            await self._news
        finally:
            self._news = None

    async def _next_read(self) -> None:
        """Wait until more of the answer comes, within the time for a silence."""
        self._taken_at_once = 0
        self._line = self._timers.stand(self, self._timeout)
        try:
            await self._wait()
        finally:
            self._heard()

    def _heard(self) -> None:
        """Stop the timer: the container has sent the awaited bytes."""
        line, self._line = self._line, None
        if line is not None:
            line.pop(self, None)

    def time_over(self) -> None:
        """Fail the exchange: the container has not sent the awaited bytes in time."""
        self._line = None
        what = "begin its answer" if self.parser.head is None else "continue its answer"
        self.fail(ContainerLate(f"the container did not {what} within {self._timeout:g} s"))

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # --- Called by the connection ----------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._error is not None:
            return
        if self._unparsed:
            self._unparsed = memoryview(bytes(self._unparsed) + data)
        elif self._dense or (len(data) > LONG_READ and rounds.busy()):
            self._unparsed = memoryview(data)
            self._queue()
            self._hold_back()
        elif len(data) <= ANSWER_TURN_BYTES and not self.parser.held:
            self._feed(data)  # the usual case: a whole, short answer
            if self.parser.trailing:
                self._hold_back()
            self._heard_in_time()
        else:
            self._unparsed = memoryview(data)
            self._parse()

    def connection_ended(self, trouble: str = "") -> None:
        """Note the end of the connection.

        Args:
            trouble: the fault that broke it; empty if the container has closed it in good order.
        """
        if self._end is not None or self._error is not None or self.parser.complete:
            return
        self._end = trouble
        if not self._unparsed:  # else the last bytes are parsed in turns first
            self._end_with_connection(trouble)

    def _end_with_connection(self, trouble: str) -> None:
        if trouble:
            self.fail(_broken(f"the connection broke: {trouble}"))
            return
        try:
            self.parser.feed_end()
        except AnswerBroken as broken:
            self.fail(_broken(str(broken)))
        self._wake()

    # --- Turns -----------------------------------------------------------------------------------

    def _queue(self) -> None:
        """Ask for a turn, unless one is waited for (rule 3)."""
        if self._place is None:
            self._place = rounds.wake_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Let pieces be taken, or parse some (rule 4)."""
        self._place = None
        self._taken_at_once = 0
        if self._unparsed and not self.parser.pieces:
            self._parse()
        else:
            self._wake()

    def _parse(self) -> None:
        """Parse some of the bytes into pieces (rule 1)."""
        parser = self.parser
        before = len(parser.pieces)
        while self._unparsed and len(parser.pieces) - before < ANSWER_CHUNKS_PER_TURN:
            size = HTTP1_BYTES_PER_TURN if self._dense else parser.turn
            turn = self._unparsed[:size]
            self._unparsed = self._unparsed[len(turn) :]
            if not self._feed(turn):
                return
        if self._unparsed:
            self._queue()
        elif self._end is not None and not parser.complete:
            self._end_with_connection(self._end)
        self._hold_back()
        self._heard_in_time()

    def _feed(self, data: bytes | memoryview) -> bool:
        parser = self.parser
        before = len(parser.pieces)
        try:
            parser.feed(data)
        except AnswerBroken as broken:
            self.fail(_broken(str(broken)))
            return False
        self._dense = len(parser.pieces) - before > ANSWER_CHUNKS_PER_TURN
        return True

    def _hold_back(self) -> None:
        """Pause or resume reading, by the bytes to parse and the pieces to take."""
        parser = self.parser
        enough = bool(self._unparsed) or parser.held >= WRITE_HIGH_WATER or parser.trailing
        if enough != self._paused:
            self._paused = enough
            if enough:
                self._wire.pause_reading()
            else:
                self._wire.resume_reading()

    def _heard_in_time(self) -> None:
        """Wake the waiting caller; once the head is there, stop the timer."""
        if self.parser.head is not None:
            self._heard()
        if self._news is not None:
            self._wake()

    # --- The end ---------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """End the exchange with an error, which is raised where the answer is waited for.

        The connection is broken off, which cancels the container's request. A complete answer stays
        as it is.
        """
        if self._error is None and not self.parser.complete:
            self._error = error
            self._unparsed = _NO_BYTES
            self._heard()
            self._wire.abort()
            self._wake()

    async def close(self) -> None:
        """End the exchange, in any state; return once the request's body has stopped.

        The connection may have another exchange if request and answer have ended in good order; if
        not, it is broken off.
        """
        if self._line is not None:
            self._heard()
        if self._place is not None:
            self._place.cancel()
            self._place = None
        good = self._is_good()
        if not good:
            self._wire.abort()
        try:
            sender, self.sender = self.sender, None
            if sender is not None and not sender.done():
                good = False
                sender.cancel()
                await asyncio.wait((sender,))
        finally:
            self._wire.over(good=good)

    def _is_good(self) -> bool:
        parser = self.parser
        is_whole = parser.complete and self._error is None and self.sent
        behind = self._paused or parser.trailing
        return is_whole and not behind and parser.head is not None and parser.head.keeps


def _not_as_stated(length: int) -> InputValidationError:
    return InputValidationError(f"the body must have {length} bytes, as its head states")


def _broken(how: str) -> ContainerError:
    return ContainerBroke(f"the container gave no whole answer: {how}")
