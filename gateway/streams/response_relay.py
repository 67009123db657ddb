"""The relay of a container's answer to a client, chunk by chunk, and every way in which it ends."""

from __future__ import annotations

import logging
from typing import Final, Protocol

from partway.gateway.containers.answers import AnswerPiece
from partway.gateway.http.exchange import Exchange
from partway.gateway.streams import ends
from partway.gateway.streams.ends import Cause, ClientFault, Ending
from partway.gateway.streams.event_stream_leg import NOT_TAKEN
from partway.gateway.streams.open_stream import Counts
from partway.gateway.timing.deadlines import TimeLimit
from partway.gateway.timing.many_timers import ManyTimers
from partway.log_lines import LogLine
from partway.protocol.errors import ApiError, ContainerBroke, ContainerLate
from partway.protocol.event_stream.response_events import encode_chunk
from partway.protocol.event_stream.writer import encode_error
from partway.protocol.parts import StreamError

log = logging.getLogger("partway.stream")


class Answer(Protocol):
    """A container's answer, after its head."""

    async def piece(self) -> AnswerPiece | None:
        """Wait for the next piece; None after the end."""

    @property
    def buffered_bytes(self) -> int: ...


class AnswerForm(Protocol):
    """The form of a relayed answer for its client."""

    def chunk(self, data: bytes) -> bytes: ...

    async def end(self, exchange: Exchange, error: StreamError | None) -> None:
        """End the response; a response without an orderly end is broken off.

        Args:
            exchange: the client's.
            error: why the answer is incomplete; None if it is complete.

        Raises:
            ClientLeft: the client has left.
        """


class Events:
    """A form as events, one of which may report an error."""

    chunk = staticmethod(encode_chunk)

    async def end(self, exchange: Exchange, error: StreamError | None) -> None:
        """End the response in good order in any case."""
        last = b"" if error is None else encode_error(error)
        await exchange.end(last, last or NOT_TAKEN)


class Chunks:
    """A form as the container's own bytes; if the answer breaks off, so does the response."""

    def chunk(self, data: bytes) -> bytes:
        return data

    async def end(self, exchange: Exchange, error: StreamError | None) -> None:
        """End the response, unless the answer broke off."""
        if error is None:
            await exchange.end()


#: The forms without a state.
EVENTS: Final = Events()
CHUNKS: Final = Chunks()


class ResponseRelay:
    """Passes an answer on in a form, each chunk at once, until it ends or is broken off.

    A client that does not read holds the container back. No chunk is asked of the container while
    the client has no room, except after the first part, which goes with the head. So only the time
    limit of the whole stream runs meanwhile. The relay is an
    :class:`~partway.gateway.streams.open_stream.OpenStream`.

    Args:
        exchange: the client's; its response has begun.
        longest: seconds that the stream may take.
        first: bytes of the first chunk, if that has gone with the head; else 0.
        status: the response's.
    """

    parts_saved = 0

    def __init__(
        self,
        endpoint: str,
        answer: Answer,
        exchange: Exchange,
        timers: ManyTimers,
        longest: float,
        form: AnswerForm = EVENTS,
        first: int = 0,
        status: int = 200,
    ) -> None:
        self.endpoint = endpoint
        self.request_id = exchange.request_id
        self.status = status
        self.from_client = Counts()
        self.from_container = Counts()
        self.started_at = timers.time()
        self.first_part_at: float | None = None
        self.ended_at: float | None = None
        self.ending: Ending | None = None
        self._answer = answer
        self._exchange = exchange
        self._timers = timers
        self._longest = longest
        self._form = form
        self._broken_off: Ending | None = None
        #: The time limit of the whole stream, during the relay.
        self._limit: TimeLimit | None = None
        if first:
            self._passed_on(first)

    @property
    def buffered_bytes(self) -> int:
        return self._answer.buffered_bytes + self._exchange.unsent_bytes

    async def run(self) -> None:
        """Relay the answer, and end the response in its form.

        Raises:
            ClientLeft: the client has left, or takes nothing.
        """
        ending: Ending | None = None
        try:
            found = await self._relayed()
            await self._form.end(self._exchange, found.error)
            ending = found
        finally:
            self.ending = ends.client_gone(Cause.CLIENT_LOST) if ending is None else ending
            self.ended_at = self._timers.time()

    # --- The end from outside --------------------------------------------------------------------

    def drain(self) -> None:
        """Break off: the gateway stops, or its instance."""
        self._break_off(ends.gateway_draining())

    def client_failed(self, fault: ClientFault) -> None:
        """Break off: the client's permission has been withdrawn."""
        self._break_off(ends.client_fault(fault))

    def _break_off(self, ending: Ending) -> None:
        """Break off for the first reason, if the answer is not complete."""
        limit = self._limit
        if self._broken_off is not None or (limit is not None and limit.expired):
            return
        self._broken_off = ending
        if limit is not None:
            limit.cut_short()

    # --- Internals -------------------------------------------------------------------------------

    async def _relayed(self) -> Ending:
        """Relay the answer, and return how it has ended; everything until then is written.

        It is one coroutine from the first chunk to the last: each further one would be woken for
        each chunk.
        """
        limit = TimeLimit(self._longest, self._timers)
        answer, exchange, form = self._answer, self._exchange, self._form
        try:
            with limit:
                if self._broken_off is None:
                    self._limit = limit
                    while (piece := await answer.piece()) is not None:
                        self._passed_on(len(piece.data))
                        await exchange.write(form.chunk(piece.data))
                    return ends.answer_ended()
        except ConnectionError:
            raise
        except Exception as error:
            if not (limit.expired and isinstance(error, TimeoutError)):
                return self._ended_by(error)
        finally:
            self._limit = None
        return self._broken_off or ends.answer_too_long(self._longest)

    def _passed_on(self, size: int) -> None:
        counts = self.from_container
        if self.first_part_at is None:
            self.first_part_at = self._timers.time()
        counts.parts += 1
        counts.bytes += size

    def _ended_by(self, error: Exception) -> Ending:
        """Return the ending for an error; an unforeseen one is the gateway's fault."""
        match error:
            case ContainerLate():
                return ends.answer_silent(error.message)
            case ContainerBroke():
                return ends.answer_broken(error.message)
            case ApiError():  # in the rest of the request's body
                return ends.client_fault(ClientFault(error.message))
            case _:
                line = LogLine("stream failed", endpoint=self.endpoint, request_id=self.request_id)
                log.error(line, exc_info=error)
                return ends.gateway_fault()
