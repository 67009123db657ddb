"""An exchange over HTTP/1.1."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from partway.gateway.http.connection_admission import Visitor
from partway.gateway.http.duplex import Duplex
from partway.gateway.http.exchange import NO_HEADERS, UpgradableExchange
from partway.gateway.limits import CLIENT_PINGS_UNANSWERED, HTTP2_PING_INTERVAL
from partway.protocol.connections.http1_connection import RequestConnection
from partway.protocol.connections.tcp import end_by_reset, watch_by_tcp
from partway.protocol.connections.websocket import FrameConnection
from partway.protocol.errors import ClientLeft, InputValidationError
from partway.protocol.http1.request import BodyBroken, Http1Request
from partway.protocol.http1.response import CHUNKED, LAST_CHUNK, response_head
from partway.protocol.limits import KIB

#: A body of up to this size is copied after its head, so that both are one write.
_TOGETHER: Final = 64 * KIB

#: A whole response: its status, body and headers.
_Whole: TypeAlias = tuple[int, bytes, Mapping[str, str]]


class Http1Exchange(UpgradableExchange):
    """An exchange on a request of HTTP/1.1.

    Attributes:
        closes: whether the connection ends with this response.
    """

    __slots__ = (
        *("_answered", "_chunks", "_connection", "_handed_over", "_request", "_unsent_head"),
        *("_whole", "closes"),
    )

    def __init__(
        self, connection: RequestConnection, request: Http1Request, visitor: Visitor
    ) -> None:
        head = request.head
        self._connection = connection
        self._request = request
        # super() would make an object for each request.
        UpgradableExchange.__init__(
            self,
            head.method,
            head.path,
            head.query,
            (),
            head.version,
            connection.peer,
            visitor=visitor,
            encrypted=connection.encrypted,
            head_size=head.size,
        )
        self.closes = not head.keeps
        self._answered = False
        self._whole: _Whole | None = None
        self._unsent_head = b""
        self._chunks = False
        self._handed_over = False

    # --- The request's head ----------------------------------------------------------------------

    @property
    def raw_headers(self) -> Sequence[tuple[str, str]]:
        return self._request.head.raw_headers

    @property
    def headers(self) -> Mapping[str, str]:
        headers = self._request.head.headers
        return super().headers if headers is None else headers

    @property
    def stated_length(self) -> int | None:
        return self._request.head.length

    # --- The request's body ----------------------------------------------------------------------

    def _at_hand(self) -> bytes | None:
        return self._connection.reader.taken(self._request)

    def _whole_at_hand(self) -> bytes | None:
        return self._connection.reader.taken(self._request) if self._request.complete else None

    async def _read(self) -> bytes:
        try:
            return await self._connection.reader.read(self._request)
        except BodyBroken:
            raise _broken_body() from None

    def _say_continue(self) -> None:
        self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # --- The response ----------------------------------------------------------------------------

    @property
    def answered(self) -> bool:
        return self._answered

    def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        self._whole = status, body, headers

    def sent(self, *, ending: bool) -> bool:
        """Send a whole response, and end the exchange.

        Args:
            ending: whether the server ends.

        Returns:
            Whether the connection may have another request.
        """
        if self._handed_over:
            return False
        if not self._answered:
            account, request = self.visitor.account, self._request
            self.closes = self.closes or ending or request.broken or account.overdrawn
            if not request.complete:
                self._close_unless_body_comes()
            self._send_whole(self._whole or (500, b"", NO_HEADERS))
        return not (self.closes or self._request.broken)

    def _send_whole(self, whole: _Whole) -> None:
        status, body, headers = whole
        self._answered = True
        has_body = self._may_have_body(status)
        # A 204 has no length (RFC 9110 §8.6).
        framing = "" if status == 204 else f"Content-Length: {len(body)}\r\n"
        head = self._head(status, headers, framing, typed=bool(body) and has_body)
        if not has_body:
            self._connection.write(head)
        elif len(body) <= _TOGETHER:
            self._connection.write(head + body)
        else:
            self._connection.write(head)
            self._connection.write(body)

    def _close_unless_body_comes(self) -> None:
        """Close the connection after an answer to a client that still holds its body back.

        Such a client need not send the body. Its next bytes may be a request, which would be read
        as that body (RFC 9110 §10.1.1).
        """
        if not self._request.complete and self._body_is_held_back():
            self.closes = True

    @property
    def unsent_bytes(self) -> int:
        transport = self._connection.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    async def _begin(self, status: int, headers: Mapping[str, str], first: bytes) -> None:
        if self._connection.transport is None:
            raise ClientLeft
        self._close_unless_body_comes()
        framing = ""
        if not (self._bodiless or "content-length" in map(str.lower, headers)):
            if self.version == "1.1":
                self._chunks, framing = True, CHUNKED
            else:
                self.closes = True  # the body ends with the connection (RFC 9112 §6.3)
        self._answered = True
        self._unsent_head = self._head(status, headers, framing, typed=not self._bodiless)
        if first:
            self._send_piece(first, b"")
        else:  # with the first piece, or alone in the next turn
            asyncio.get_running_loop().call_soon(self._send_head)

    def _send_head(self) -> None:
        head, self._unsent_head = self._unsent_head, b""
        if head:
            self._connection.write(head)

    async def _write(self, piece: bytes) -> None:
        self._send_piece(piece, b"")
        connection = self._connection
        if connection.writing_paused or connection.transport is None:
            await connection.room()

    async def _end(self, last: bytes, otherwise: bytes) -> None:
        self._send_piece(last, LAST_CHUNK if self._chunks else b"")
        await self._connection.room()

    def _send_piece(self, piece: bytes, end: bytes) -> None:
        head, self._unsent_head = self._unsent_head, b""
        if self._chunks and piece:
            data = b"%b%x\r\n%b\r\n%b" % (head, len(piece), piece, end)
        else:
            data = head + piece + end
        if data:
            self._connection.write(data)

    async def upgrade(self, headers: Mapping[str, str]) -> None:
        self._answered = True
        self._connection.write(self._head(101, headers))

    async def open(self, status: int, headers: Mapping[str, str]) -> Duplex:
        from partway.gateway.http.http1.duplex import Http1Duplex  # chunked event streams alone

        connection, request = self._connection, self._request
        if request.broken:
            raise _broken_body()
        # The client sends its body after this, and might take the response alone for a refusal.
        self._continue_once()
        transport = connection.transport
        if transport is None:
            raise ConnectionResetError("the client left")
        self.closes = self._answered = True
        connection.write(self._head(status, headers, CHUNKED))
        # HTTP/1.1 has no ping (clause 1.4-4).
        watch_by_tcp(transport, HTTP2_PING_INTERVAL, CLIENT_PINGS_UNANSWERED)
        duplex = Http1Duplex(request, partial(connection.reader.read, request), transport)
        connection.open_both_ways(duplex)
        self._handed_over = True
        return duplex

    def hand_over(self, connection: FrameConnection) -> None:
        self._handed_over = True
        # The server would cancel this task at the transport's end, and the stream needs it to its
        # own end.
        connection.take_over_from(self._connection, tell_end=False)

    # --- The end ---------------------------------------------------------------------------------

    def abort(self) -> None:
        transport = self._connection.transport
        if transport is not None and self.version == "1.0" and self.answered:
            # With HTTP/1.0, an orderly end would say that the response is complete.
            end_by_reset(transport)
        self._connection.abort()

    def let_go(self) -> None:
        """Have the connection release a transport that was handed over and has ended."""
        if self._handed_over:
            self._connection.release()

    def _head(
        self, status: int, headers: Mapping[str, str], framing: str = "", *, typed: bool = False
    ) -> bytes:
        """Return the response's head.

        Args:
            status: the response's.
            headers: the response's.
            framing: the line that says where its body ends.
            typed: whether there is a body, which has a type (RFC 9110 §8.3).
        """
        own = f"x-amzn-requestid: {self.request_id}\r\nServer: partway\r\n"
        if typed and "Content-Type" not in headers and not _has_type(headers):
            own += "Content-Type: application/octet-stream\r\n"
        return response_head(
            *(self.version, status, headers, own + framing), keeps=not self.closes, now=time.time()
        )


def _has_type(headers: Mapping[str, str]) -> bool:
    """Say whether a response has a Content-Type, in any case."""
    return "content-type" in map(str.lower, headers)


def _broken_body() -> InputValidationError:
    return InputValidationError("the request's body is not valid HTTP/1.1", "MalformedBody")
