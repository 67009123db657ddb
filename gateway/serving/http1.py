"""HTTP/1.1, parsed by aiohttp: each request becomes an Exchange."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

from aiohttp import StreamReader, web
from aiohttp.http_writer import HttpVersion11
from aiohttp.web_protocol import RequestHandler

from partway.bounded_heads import BoundedParser, bound_head
from partway.gateway.limits import (
    CLIENT_PING_INTERVAL,
    CLIENT_PINGS_UNANSWERED,
    HTTP1_BYTES_PER_TURN,
    HTTP1_STUCK_BYTES,
    TLS_READ_HELD,
)
from partway.gateway.serving.crowd import Visitor, uncounted
from partway.gateway.serving.exchange import (
    NO_HEADERS,
    ClientLeft,
    Duplex,
    Exchange,
    UpgradableExchange,
)
from partway.gateway.serving.http1_duplex import Http1Duplex
from partway.gateway.serving.http1_heads import (
    MAX_FIELD_LINE,
    MAX_LINES,
    MAX_REQUEST_LINE,
    origin_form,
    quiet_logger,
    unreadable,
)
from partway.protocol.connection import FrameConnection, HttpProtocol, watch_by_tcp
from partway.protocol.errors import ApiError, InputValidationError, InternalServerError
from partway.protocol.handshake import is_upgrade
from partway.protocol.limits import LINGER_TIMEOUT, REQUEST_HEAD_TIMEOUT

Dispatch = Callable[[Exchange], Awaitable[None]]

#: SO_LINGER of a socket that ends by RST, and not by FIN.
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Http1Server:
    """Makes a protocol for each connection; the listener feeds it.

    Args:
        dispatch: answers an exchange.
    """

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._server = _Server(
            self._handle,
            # aiohttp's one deadline: from when the listener hands a connection on, and from its
            # last response, to the end of the next head. Bytes that dribble in do not move it
            # (slowloris).
            keepalive_timeout=REQUEST_HEAD_TIMEOUT,
            access_log=None,
            logger=quiet_logger(),
            max_line_size=MAX_REQUEST_LINE,
            max_field_size=MAX_FIELD_LINE,
            max_headers=MAX_LINES,
            auto_decompress=False,
            lingering_time=LINGER_TIMEOUT,
            # A client that leaves while its container is dialled frees its place at once.
            handler_cancellation=True,
        )

    def protocol(self, visitor: Visitor | None = None) -> asyncio.Protocol:
        """A protocol for one connection; without a visitor nobody counts it."""
        protocol = cast("_RequestHandler", self._server())
        protocol.visitor = visitor or protocol.visitor
        return protocol

    @property
    def open_connections(self) -> int:
        """How many connections are open, upgraded ones included."""
        return len(self._server.connections)

    async def shutdown(self, timeout: float) -> None:
        """Close idle connections now, others with their response, or after ``timeout`` seconds."""
        encrypted = [
            transport
            for connection in self._server.connections
            if (transport := connection.transport) and transport.get_extra_info("sslcontext")
        ]
        self._server.pre_shutdown()
        await self._server.shutdown(timeout)
        for transport in encrypted:
            # A client need not answer TLS's close_notify, and the loop may end before it does.
            transport.abort()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        exchange = Http1Exchange(request)
        try:
            await self._dispatch(exchange)
        finally:
            exchange.let_go()
        return exchange.response


class _Server(web.Server):
    """aiohttp's server, whose connections are :class:`_RequestHandler`."""

    def __call__(self) -> RequestHandler:
        return bound_head(_RequestHandler(self, loop=self._loop, **self._kwargs))


class _RequestHandler(RequestHandler):
    """aiohttp's protocol of a connection; errors are the API's, and quote nothing (clause 4-1).

    A connection parses in turns with others, and gives up a client that takes no response.

    Attributes:
        duplex: what hears of the transport in aiohttp's place, while a response is open both ways.
        content: the request's body, while an operation reads it.
        broken: whether what follows in that body is not valid HTTP.
        waiting: how many tasks wait for the client in an exchange's methods.
        visitor: the connection, as the crowd has it.
    """

    __slots__ = (
        "_not_taken", "_tls_read", "_turn", "_unparsed", "broken", "content", "duplex", "visitor",
        "waiting",
    )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.duplex: Http1Duplex | None = None
        self.content: StreamReader | None = None
        self.broken = False
        self.waiting = 0
        self.visitor = uncounted()
        self._unparsed = b""
        self._tls_read = 0
        self._turn: asyncio.Handle | None = None
        self._not_taken: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        self._unparsed += data
        if self.ssl_context is not None:
            self._tls_read = max(self._tls_read, len(data))
        if self._turn is None:
            self._take_turn()

    def _take_turn(self) -> None:
        """Parse some of a read; the rest of it waits while other connections have their turn."""
        waited = self._turn is not None
        self._turn = None
        self._parse(HTTP1_BYTES_PER_TURN)
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if self._unparsed:
            transport.pause_reading()  # aiohttp may resume it: a read more then waits here too
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)
        elif waited and not self._reading_paused and not self._buffer_paused:
            transport.resume_reading()

    def parse_rest(self) -> None:
        """Parse at once what waits for its turn: nothing comes after it."""
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
            held = 0 if self._not_taken is None else HTTP1_STUCK_BYTES
            held += cast("BoundedParser", self._parser).held + self._tls_read * TLS_READ_HELD
            self.visitor.holds(held)

    def body_is_broken(self, content: StreamReader) -> bool:
        """Whether the body of the request that is being answered cannot be read to its end.

        aiohttp queues the error as the next request's, and tells the reader of the body nothing.
        """
        return bool(self._messages) and not content.is_eof()

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
        self.parse_rest()
        return self.duplex is not None and self.duplex.half_closed()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.parse_rest()
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
        exchange = Http1Exchange(request)
        exchange.fail(error)
        exchange.response.force_close()
        return exchange.response


class Http1Exchange(UpgradableExchange):
    """An exchange on aiohttp's request."""

    def __init__(self, request: web.BaseRequest) -> None:
        path, _, query = origin_form(request.raw_path).partition("?")
        version = f"{request.version.major}.{request.version.minor}"
        headers = tuple(request.headers.items())
        super().__init__(request.method, path, query, headers, version, request.remote or "")
        self._request = request
        self._protocol = cast("_RequestHandler", request.protocol)
        self.visitor = self._protocol.visitor
        self.encrypted = request.secure
        #: What aiohttp writes once the handler has returned.
        self.response: web.StreamResponse = web.Response(status=500)
        self._handed_over = False

    # --- The request's body ----------------------------------------------------------------------

    async def _read(self) -> bytes:
        protocol, content = self._protocol, self._request.content
        if protocol.content is None:
            protocol.content = content
            protocol.broken = protocol.body_is_broken(content)
        if not protocol.broken:
            try:
                with self._told_if_left():
                    chunk = await content.readany()
            except (web.RequestPayloadError, ValueError):
                protocol.broken = True  # aiohttp has said what is wrong
        if protocol.broken:
            raise _broken_body()
        return chunk

    def _say_continue(self) -> None:
        transport = self._protocol.transport
        if transport is not None:
            transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # --- The response ----------------------------------------------------------------------------

    @property
    def answered(self) -> bool:
        return self.response.prepared

    def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        self.response = web.Response(status=status, body=body, headers=self._with_id(headers))
        if is_upgrade(self.headers) or self.method == "CONNECT" or self._protocol.broken:
            # What follows a refused upgrade or tunnel is not HTTP: nobody may read it as such. Nor
            # is what follows in a broken body.
            self.response.force_close()

    async def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.response = web.StreamResponse(status=status, headers=self._with_id(headers))
        with self._told_if_left():
            await self.response.prepare(self._request)

    async def _write(self, piece: bytes) -> None:
        with self._told_if_left():
            await self.response.write(piece)

    async def _end(self) -> None:
        with self._told_if_left():
            await self.response.write_eof()

    @contextmanager
    def _told_if_left(self) -> Iterator[None]:
        """Have ClientLeft raised, and nobody cancelled, if the client leaves in this block."""
        protocol = self._protocol
        protocol.waiting += 1
        try:
            yield
        except ConnectionError as error:
            raise ClientLeft from error
        finally:
            protocol.waiting -= 1
        if protocol.transport is None:  # lost since this was woken
            raise ClientLeft

    async def upgrade(self, headers: Mapping[str, str]) -> None:
        self.response = web.StreamResponse(status=101, headers=self._with_id(headers))
        await self.response.prepare(self._request)

    async def open(self, status: int, headers: Mapping[str, str]) -> Duplex:
        response = web.StreamResponse(status=status, headers=self._with_id(headers))
        response.enable_chunked_encoding()
        response.force_close()
        protocol = self._protocol
        if protocol.body_is_broken(self._request.content):
            raise _broken_body()
        # Its client sends the body after this, and might take the response alone for a refusal.
        self._continue_once()
        self.response = response
        await response.prepare(self._request)
        if protocol.transport is None:
            raise ConnectionResetError("the client left")
        # HTTP/1.1 has no ping (clause 1.4-4).
        watch_by_tcp(protocol.transport, CLIENT_PING_INTERVAL, CLIENT_PINGS_UNANSWERED)
        duplex = Http1Duplex(self._request.content, protocol.transport)
        protocol.duplex = duplex
        self._handed_over = True
        return duplex

    def hand_over(self, connection: FrameConnection) -> None:
        self._handed_over = True
        self._protocol.parse_rest()
        protocol = cast("HttpProtocol", self._request.protocol)
        # Told of the transport's end at once, aiohttp would cancel us, and we see the stream to
        # its end.
        connection.take_over_from(protocol, tell_end=False)

    # --- The end ---------------------------------------------------------------------------------

    def abort(self) -> None:
        transport = self._request.transport
        if transport is None:
            return
        if self.version == "1.0" and self.answered:
            # There the connection's orderly end would say that the response is whole.
            sock = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()

    def let_go(self) -> None:
        """Note that the exchange is over; tells aiohttp that a transport handed over has ended."""
        self._protocol.content = None
        if self._handed_over:
            self._protocol.duplex = None
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def _with_id(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**headers, "x-amzn-requestid": self.request_id, "Server": "partway"}


def _broken_body() -> InputValidationError:
    return InputValidationError("the request's body is not valid HTTP/1.1", "MalformedBody")
