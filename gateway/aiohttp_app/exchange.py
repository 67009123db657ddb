"""A request of an aiohttp application as an Exchange."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from partway.gateway.aiohttp_app.client_connection import ClientConnection
from partway.gateway.aiohttp_app.mount import MountedTarget
from partway.gateway.http.duplex import Duplex
from partway.gateway.http.exchange import NO_HEADERS, UpgradableExchange
from partway.gateway.http.http1.duplex import Http1Duplex
from partway.gateway.limits import CLIENT_PINGS_UNANSWERED, HTTP2_PING_INTERVAL
from partway.protocol.connections.tcp import end_by_reset, watch_by_tcp
from partway.protocol.connections.websocket import FrameConnection, HttpProtocol
from partway.protocol.errors import ClientLeft, InputValidationError
from partway.protocol.http1.request import BodyBroken
from partway.protocol.signatures.signed_request import SignableRequest
from partway.protocol.websocket.handshake import is_upgrade

#: The status in an access log of a client that left before an answer (nginx's).
_CLIENT_LEFT: Final = 499


class AiohttpExchange(UpgradableExchange):
    """An exchange on a request of aiohttp's.

    aiohttp sends a whole answer itself, behind the application's middlewares. All other answers
    begin here, and :meth:`response` then returns one that has been sent.
    """

    __slots__ = (
        *("_connection", "_handed_over", "_has_read", "_on_left", "_request", "_sent"),
        *("_target", "_waiting", "_whole"),
    )

    def __init__(
        self, request: web.Request, target: MountedTarget, connection: ClientConnection
    ) -> None:
        super().__init__(
            request.method,
            target.path,
            target.query,
            [(_text(name), _text(value)) for name, value in request.raw_headers],
            f"{request.version.major}.{request.version.minor}",
            connection.peer,
            encrypted=connection.encrypted,
        )
        self._request = request
        self._target = target
        self._connection = connection
        self._has_read = False
        self._whole: web.Response | None = None
        self._sent: web.StreamResponse | None = None
        self._handed_over = False
        self._waiting = 0
        self._on_left: Callable[[], object] = lambda: None
        connection.on_lost = self.client_left

    @property
    def signable(self) -> SignableRequest:
        path = self._target.signed_path
        return SignableRequest(self.method, path, self.query, tuple(self.raw_headers))

    # --- The operation's task --------------------------------------------------------------------

    def answered_by(self, cancel: Callable[[], object]) -> None:
        """Store how to cancel the operation if its client leaves."""
        self._on_left = cancel

    def client_left(self) -> None:
        """Cancel the operation, unless it waits for the client or must see a stream to its end."""
        if not (self._waiting or self._handed_over):
            self._on_left()

    @property
    def client_is_gone(self) -> bool:
        return self._connection.transport is None

    def break_off(self) -> None:
        """Cancel the operation; cut a begun response, since no other may follow a part of one."""
        if self.answered:
            self.abort()  # the operation sees a client that leaves
        else:
            self._on_left()

    @contextmanager
    def _waits(self) -> Iterator[None]:
        """Wait for the client inside the block.

        Raises:
            ClientLeft: the client leaves meanwhile.
        """
        self._waiting += 1
        try:
            yield
        except Exception:  # aiohttp has several for a transport that is gone
            if self._connection.transport is None:
                raise ClientLeft from None
            raise
        finally:
            self._waiting -= 1

    # --- The request's body ----------------------------------------------------------------------

    async def _read(self) -> bytes:
        content = self._request.content
        has_read, self._has_read = self._has_read, True
        try:
            with self._waits():
                if not has_read and content.at_eof():
                    # A middleware may have read the body, which then is kept with the request.
                    return await self._request.read()
                return await content.readany()
        except (HttpProcessingError, web.RequestPayloadError):
            raise _broken_body() from None

    async def _read_open(self) -> bytes:
        """Read as :meth:`_read` does, for a response that is open both ways."""
        try:
            return await self._read()
        except InputValidationError:
            raise BodyBroken from None

    def _say_continue(self) -> None:
        if self._connection.transport is not None:
            self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # --- The response ----------------------------------------------------------------------------

    @property
    def answered(self) -> bool:
        return self._sent is not None

    def response(self) -> web.StreamResponse:
        """Return the answer, as aiohttp's handlers do."""
        if self._sent is not None:
            return self._sent
        if self._connection.transport is None:
            return web.Response(status=_CLIENT_LEFT)
        response = self._whole or web.Response(status=500)
        self._close_behind(response)
        return response

    def _close_behind(self, response: web.StreamResponse) -> None:
        """End the connection behind this response where no request may be read after it."""
        content = self._request.content
        # A client that waits for 100 may send no body next (RFC 9110 §10.1.1). A body may be
        # broken. The bytes behind a refused upgrade may be no HTTP.
        held_back = self._body_is_held_back() and not content.is_eof()
        if held_back or content.exception() is not None or is_upgrade(self.headers):
            response.force_close()

    def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        self._whole = _WholeResponse(status=status, body=body, headers=self._with_id(headers))

    @property
    def unsent_bytes(self) -> int:
        transport = self._connection.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    async def _begin(self, status: int, headers: Mapping[str, str], first: bytes) -> None:
        response = web.StreamResponse()
        self._close_behind(response)
        await self._prepared(response, status, headers)
        if first:
            with self._waits():
                await response.write(first)

    async def _write(self, piece: bytes) -> None:
        assert self._sent is not None, "it has begun"
        with self._waits():
            await self._sent.write(piece)

    async def _end(self, last: bytes, otherwise: bytes) -> None:
        assert self._sent is not None, "it has begun"
        with self._waits():
            await self._sent.write_eof(last)

    async def upgrade(self, headers: Mapping[str, str]) -> None:
        await self._prepared(_SentResponse(), 101, headers)

    async def open(self, status: int, headers: Mapping[str, str]) -> Duplex:
        # Its client sends the body after this, and might take the response alone for a refusal.
        self._continue_once()
        response = _SentResponse()
        response.force_close()
        await self._prepared(response, status, headers)
        transport = self._connection.transport
        if transport is None:
            raise ConnectionResetError("the client left")
        # HTTP/1.1 has no ping (clause 1.4-4).
        watch_by_tcp(transport, HTTP2_PING_INTERVAL, CLIENT_PINGS_UNANSWERED)
        self._handed_over = True
        duplex = Http1Duplex(_BodyProgress(self._request), self._read_open, transport)
        self._connection.duplex = duplex
        return duplex

    def hand_over(self, connection: FrameConnection) -> None:
        self._handed_over = True
        # Told of the transport's end at once, aiohttp might cancel the handler, but the operation
        # must see the stream to its end.
        http = cast("HttpProtocol", self._connection.http)
        connection.take_over_from(http, tell_end=False)

    async def _prepared(
        self, response: web.StreamResponse, status: int, headers: Mapping[str, str]
    ) -> None:
        response.set_status(status)
        response.headers.update(self._with_id(headers))
        with self._waits():
            await response.prepare(self._request)
        self._sent = response

    def _with_id(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**headers, "x-amzn-requestid": self.request_id}

    # --- The end ---------------------------------------------------------------------------------

    def abort(self) -> None:
        transport = self._connection.transport
        if transport is None:
            return
        if self.version == "1.0" and self.answered:
            # There the connection's orderly end would mean that the response is whole.
            end_by_reset(transport)
        transport.abort()

    def let_go(self) -> None:
        """Let aiohttp drop a transport that was handed over and has ended."""
        if self._handed_over:
            self._connection.release()


class _WholeResponse(web.Response):
    """A whole response, whose client must keep taking some of it."""

    async def write_eof(self, data: bytes = b"") -> None:
        assert self._req is not None, "it has been prepared"
        with ClientConnection(self._req):
            await super().write_eof(data)


class _SentResponse(web.StreamResponse):
    """A response whose body, if there is one, is sent and ended elsewhere."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Send nothing more."""


class _BodyProgress:
    """The progress of a request's body: the part that a duplex looks at."""

    def __init__(self, request: web.Request) -> None:
        self._content = request.content

    @property
    def complete(self) -> bool:
        return self._content.is_eof()

    @property
    def ended(self) -> bool:
        return self._content.at_eof()


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _broken_body() -> InputValidationError:
    return InputValidationError("the request's body is not valid HTTP/1.1", "MalformedBody")
