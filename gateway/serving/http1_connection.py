"""A connection of HTTP/1.1: aiohttp's protocol, with turns, limits and errors of the gateway's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiohttp import StreamReader, web
from aiohttp.http_writer import HttpVersion11
from aiohttp.web_protocol import RequestHandler

from partway.bounded_heads import BoundedParser
from partway.gateway.limits import HTTP1_BYTES_PER_TURN, HTTP1_STUCK_BYTES, TLS_READ_HELD
from partway.gateway.serving.crowd import uncounted
from partway.gateway.serving.http1_duplex import Http1Duplex
from partway.gateway.serving.http1_heads import unreadable
from partway.protocol.connection import Cancellable
from partway.protocol.errors import ApiError, InputValidationError, InternalServerError
from partway.protocol.limits import LONG_READ, REQUEST_HEAD_TIMEOUT
from partway.protocol.rounds import rounds

#: Makes the response to a request that aiohttp could not read, or that an error of ours has ended.
Refuse = Callable[[web.BaseRequest, ApiError], web.StreamResponse]


class Http1Connection(RequestHandler):
    """aiohttp's protocol of a connection; errors are the API's, and quote nothing (clause 4-1).

    A connection parses in turns with others, and gives up a client that takes no response.

    Args:
        server: aiohttp's.
        refuse: makes the response to a request that cannot be read, or whose handler failed.
        options: aiohttp's.

    Attributes:
        duplex: what hears of the transport in aiohttp's place, while a response is open both ways.
        content: the request's body, while an operation reads it.
        broken: whether what follows in that body is not valid HTTP.
        waiting: how many tasks wait for the client in an exchange's methods.
        visitor: the connection, as the crowd has it.
    """

    __slots__ = (
        "_client_ended",
        "_encrypted",
        "_not_taken",
        "_refuse",
        "_tls_read",
        "_turn",
        "_unparsed",
        "broken",
        "content",
        "duplex",
        "visitor",
        "waiting",
    )

    def __init__(self, server: web.Server, refuse: Refuse, **options: Any) -> None:
        super().__init__(server, **options)
        self._refuse = refuse
        self.duplex: Http1Duplex | None = None
        self.content: StreamReader | None = None
        self.broken = False
        self.waiting = 0
        self.visitor = uncounted()
        self._unparsed = b""
        self._tls_read = 0
        self._client_ended = False
        self._turn: Cancellable | None = None
        self._not_taken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._encrypted = transport.get_extra_info("sslcontext") is not None
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._unparsed += data
        if self._encrypted:
            self._tls_read = max(self._tls_read, len(data))
        if self._turn is not None:
            self._pause_transport_reading()  # aiohttp has resumed it
            self._weigh()
            return
        if not self.visitor.account.known or (len(data) > LONG_READ and rounds.busy()):
            self._yield_turn()
        else:
            self._take_turn()

    def _take_turn(self) -> None:
        """Parse some of a read; the rest of it waits while other connections have their turn."""
        waited = self._turn is not None
        self._turn = None
        if (waits := self.visitor.account.has_to_wait(self._take_turn)) is not None:
            self._pause_transport_reading()
            self._turn = waits
            return
        self._parse(HTTP1_BYTES_PER_TURN)
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if self._unparsed:
            self._yield_turn()
        elif self._client_ended:
            if not self._may_be_sent_to():
                transport.close()
        elif waited and not self._reading_paused and not self._buffer_paused:
            transport.resume_reading()

    def _yield_turn(self) -> None:
        """Let others have the loop: a read may hold tens of thousands of tiny chunks."""
        self._pause_transport_reading()  # aiohttp may resume it: for one more read, which waits too
        self._turn = rounds.soon(self._take_turn)

    def parse_rest(self) -> None:
        """Parse at once what waits behind the head of an upgrade: aiohttp keeps it as it is."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
            self._parse(len(self._unparsed))

    def _parse(self, size: int) -> None:
        data, self._unparsed = self._unparsed[:size], self._unparsed[size:]
        super().data_received(data)
        self._weigh()
        if self.duplex is not None and self.body_is_broken(self.duplex.content):
            self.duplex.request_broken()
        elif self.content is not None and self.body_is_broken(self.content):
            self.broken = True
            self.content.feed_eof()  # it wakes the reader; nothing more of this body is read

    def _weigh(self) -> None:
        if self._parser is not None:
            held = len(self._unparsed) + (0 if self._not_taken is None else HTTP1_STUCK_BYTES)
            held += cast("BoundedParser", self._parser).held + self._tls_read * TLS_READ_HELD
            self.visitor.holds(held)

    def body_is_broken(self, content: StreamReader) -> bool:
        """Whether the body of the request that is being answered cannot be read to its end.

        aiohttp queues the error as the next request's, and tells the reader of the body nothing.
        """
        return bool(self._messages) and not content.is_eof()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Read on, which aiohttp asks for with each piece of a body that is taken."""
        if self._reading_paused or self._buffer_paused:
            super().resume_reading(resume_parser)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.duplex is not None:
            self.duplex.writing_paused()
        elif self.transport is not None:
            self._not_taken = asyncio.get_running_loop().call_later(
                REQUEST_HEAD_TIMEOUT, self.transport.abort
            )
            self._weigh()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._not_taken is not None:
            self._not_taken.cancel()
            self._not_taken = None
            self._weigh()
        if self.duplex is not None:
            self.duplex.writing_resumed()

    def eof_received(self) -> bool:  # type: ignore[override]  # aiohttp has it return nothing
        self._client_ended = True
        transport = self.transport
        if self._turn is None or transport is None:
            return self._may_be_sent_to()
        if not self._encrypted:
            return True  # what waits may hold the last chunk; TLS cannot be kept open: a cut
        return self._may_be_sent_to()

    def _may_be_sent_to(self) -> bool:
        """Whether the client, which sends nothing more, may still be sent to."""
        return self.duplex is not None and self.duplex.half_closed()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._turn is not None:  # nobody would hear of what waits: who reads the body is told
            self._turn.cancel()
            self._turn = None
            self._unparsed = b""
        self.visitor.account.left(encrypted=self._encrypted)
        self.visitor.leave()
        if self._not_taken is not None:
            self._not_taken.cancel()
        if self.duplex is None:
            if self.waiting:
                self._task_handler = None  # aiohttp would cancel it; who waits gets ClientLeft
            super().connection_lost(exc)
        else:  # aiohttp would cancel the handler, which sees the stream to its end
            self.duplex.connection_lost()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a malformed request (400), or one whose handler failed, and close.

        Raises:
            ConnectionError: a response has begun.
        """
        super().handle_error(request, status, exc)  # it logs; what it would answer is dropped
        error: ApiError
        if status == InputValidationError.status:
            # What aiohttp has for a request that it could not read says HTTP/1.0.
            request._version = HttpVersion11  # noqa: SLF001
            error = unreadable(exc)
        else:
            error = InternalServerError()
        return self._refuse(request, error)
