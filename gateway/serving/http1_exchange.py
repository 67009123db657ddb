"""A request of HTTP/1.1 as an Exchange."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Final, cast

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter

from partway.gateway.limits import CLIENT_PING_INTERVAL, CLIENT_PINGS_UNANSWERED
from partway.gateway.serving.exchange import NO_HEADERS, ClientLeft, Duplex, UpgradableExchange
from partway.gateway.serving.http1_connection import Http1Connection
from partway.gateway.serving.http1_duplex import Http1Duplex
from partway.gateway.serving.http1_heads import origin_form
from partway.protocol.connection import FrameConnection, HttpProtocol, watch_by_tcp
from partway.protocol.errors import ApiError, InputValidationError
from partway.protocol.handshake import is_upgrade

#: SO_LINGER of a socket that ends by RST, and not by FIN.
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Http1Exchange(UpgradableExchange):
    """An exchange on aiohttp's request."""

    def __init__(self, request: web.BaseRequest) -> None:
        path, _, query = origin_form(request.raw_path).partition("?")
        version = f"{request.version.major}.{request.version.minor}"
        headers = tuple(request.headers.items())
        self._request = request
        self._protocol = cast("Http1Connection", request.protocol)
        super().__init__(
            *(request.method, path, query, headers, version, request.remote or ""),
            visitor=self._protocol.visitor,
            encrypted=request.secure,
        )
        #: What aiohttp writes once the handler has returned; None as long as there is no answer.
        self.response: web.StreamResponse | None = None
        self._handed_over = False
        self._told = _ToldIfLeft(self._protocol)

    # --- The request's body ----------------------------------------------------------------------

    def _begin_to_read(self) -> StreamReader:
        protocol, content = self._protocol, self._request.content
        if protocol.content is None:
            protocol.content = content
            protocol.broken = protocol.body_is_broken(content)
        return content

    def _at_hand(self) -> bytes | None:
        content, protocol = self._begin_to_read(), self._protocol
        if protocol.broken or protocol.transport is None or content.exception() is not None:
            return None  # read, it says what is wrong
        chunk = content.read_nowait()
        return chunk if chunk or content.at_eof() else None

    async def _read(self) -> bytes:
        content, protocol = self._begin_to_read(), self._protocol
        if not protocol.broken:
            try:
                with self._told:
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
        return self.response is not None and self.response.prepared

    def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        response = web.Response(status=status, body=body, headers=self._with_id(headers))
        if is_upgrade(self.headers) or self.method == "CONNECT" or self._protocol.broken:
            # What follows a refused upgrade or tunnel is not HTTP: nobody may read it as such. Nor
            # is what follows in a broken body.
            response.force_close()
        self.response = response

    @property
    def unsent_bytes(self) -> int:
        transport = self._protocol.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    async def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.response = _InPieces(status=status, headers=self._with_id(headers))
        with self._told:
            writer = await self.response.prepare(self._request)
        assert writer is not None, "it has not ended"
        # With the first piece, if that is there by now; else by itself, in this turn of the loop.
        asyncio.get_running_loop().call_soon(_send_head, self._protocol, writer)

    async def _write(self, piece: bytes) -> None:
        assert self.response is not None, "it has begun"
        with self._told:
            await self.response.write(piece)

    async def _end(self, last: bytes, otherwise: bytes) -> None:
        assert self.response is not None, "it has begun"
        with self._told:
            await self.response.write_eof(last)

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


class _InPieces(web.StreamResponse):
    """A response in pieces, whose head is not written by itself where its first piece follows."""

    _send_headers_immediately = False


def _send_head(protocol: Http1Connection, writer: AbstractStreamWriter) -> None:
    """Write a head that is not written yet, unless the client has left."""
    if protocol.transport is not None and not protocol.transport.is_closing():
        writer.send_headers()


class _ToldIfLeft:
    """A block in which ClientLeft is raised, and nobody cancelled, if the client leaves.

    Args:
        protocol: the client's connection.
    """

    __slots__ = ("_protocol",)

    def __init__(self, protocol: Http1Connection) -> None:
        self._protocol = protocol

    def __enter__(self) -> None:
        self._protocol.waiting += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._protocol.waiting -= 1
        if isinstance(error, ConnectionError):
            raise ClientLeft from error
        if error is None and self._protocol.transport is None:  # lost since this was woken
            raise ClientLeft


def refusal(request: web.BaseRequest, error: ApiError) -> web.StreamResponse:
    """Make the response to a request that ends its connection."""
    exchange = Http1Exchange(request)
    exchange.visit.cost(0.0)
    exchange.fail(error)
    assert exchange.response is not None, "it has been answered"
    exchange.response.force_close()
    return exchange.response


def _broken_body() -> InputValidationError:
    return InputValidationError("the request's body is not valid HTTP/1.1", "MalformedBody")
