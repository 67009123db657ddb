"""HTTP/1.1, parsed by aiohttp: each request becomes an Exchange."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict

from gateway.serving.exchange import NO_HEADERS, Exchange
from protocol.connection import FrameConnection, HttpProtocol
from protocol.handshake import is_upgrade
from protocol.limits import MAX_HEADER_LINE, MAX_HEADERS, REQUEST_HEAD_TIMEOUT

Dispatch = Callable[[Exchange], Awaitable[None]]


class Http1Server:
    """Makes a protocol for each connection; the listener feeds it.

    Args:
        dispatch: answers an exchange.
    """

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._server = web.Server(
            self._handle,
            # aiohttp's one deadline: from a connection's start, and from its last response, to the
            # end of the next head. Bytes that dribble in do not move it (slowloris).
            keepalive_timeout=REQUEST_HEAD_TIMEOUT,
            access_log=None,
            logger=_quiet_logger(),
            max_line_size=MAX_HEADER_LINE,
            max_field_size=MAX_HEADER_LINE,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
            # A client that leaves while its container is dialled frees its place at once.
            handler_cancellation=True,
        )

    def protocol(self) -> asyncio.Protocol:
        """A protocol for one connection."""
        return self._server()

    @property
    def open_connections(self) -> int:
        """How many connections it has, upgraded ones included."""
        return len(self._server.connections)

    async def shutdown(self, timeout: float) -> None:
        """Close idle connections now, the others once their response is out."""
        self._server.pre_shutdown()
        await self._server.shutdown(timeout)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        exchange = Http1Exchange(request)
        try:
            await self._dispatch(exchange)
        finally:
            exchange.let_go()
        return exchange.response


class Http1Exchange(Exchange):
    """An exchange on aiohttp's request."""

    def __init__(self, request: web.BaseRequest) -> None:
        path, _, query = request.raw_path.partition("?")
        version = f"{request.version.major}.{request.version.minor}"
        super().__init__(
            request.method, path, query, _joined(request), version, request.remote or ""
        )
        self._request = request
        #: What aiohttp writes once the handler has returned.
        self.response: web.StreamResponse = web.Response(status=500)
        self._handed_over = False

    @property
    def answered(self) -> bool:
        return self.response.prepared

    def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        self.response = web.Response(status=status, body=body, headers=self._with_id(headers))
        if is_upgrade(self.headers):
            # What follows a refused upgrade may be frames: nobody may read it as HTTP.
            self.response.force_close()

    async def upgrade(self, headers: Mapping[str, str]) -> None:
        self.response = web.StreamResponse(status=101, headers=self._with_id(headers))
        await self.response.prepare(self._request)

    def hand_over(self, connection: FrameConnection) -> None:
        self._handed_over = True
        protocol = cast("HttpProtocol", self._request.protocol)
        # Told of the transport's end at once, aiohttp would cancel us, and we see the stream to
        # its end.
        connection.take_over_from(protocol, tell_end=False)

    def let_go(self) -> None:
        """The exchange is over: of a transport that was handed over aiohttp learns its end."""
        if self._handed_over:
            loop = asyncio.get_running_loop()
            loop.call_soon(self._request.protocol.connection_lost, None)

    def _with_id(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**headers, "x-amzn-requestid": self.request_id, "Server": "partway"}


def _joined(request: web.BaseRequest) -> CIMultiDict[str]:
    """Headers in which a repeated one is one list (RFC 9110 §5.3)."""
    headers = request.headers
    return CIMultiDict({name: ", ".join(headers.getall(name)) for name in headers})


def _quiet_logger() -> logging.Logger:
    """A logger for aiohttp that never repeats what a client sent, tokens least of all."""
    logger = logging.getLogger("partway.http1")
    logger.addFilter(_without_request_bytes)
    return logger


def _without_request_bytes(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        record.exc_info = None
        record.msg, record.args = "bad request: %s", (type(error).__name__,)
        record.levelno, record.levelname = logging.INFO, "INFO"
    return True
