"""HTTP/1.1, parsed by aiohttp: each request becomes an Exchange."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gateway.serving.exchange import NO_HEADERS, Exchange
from protocol.connection import FrameConnection, HttpProtocol
from protocol.limits import MAX_HEADER_LINE, MAX_HEADERS, REQUEST_HEAD_TIMEOUT

Dispatch = Callable[[Exchange], Awaitable[None]]


class Http1Server:
    """Makes a protocol for each connection; the listener feeds it.

    Args:
        dispatch: answers an exchange.
    """

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._server = _Server(
            self._handle,
            access_log=None,
            logger=_quiet_logger(),
            max_line_size=MAX_HEADER_LINE,
            max_field_size=MAX_HEADER_LINE,
            max_headers=MAX_HEADERS,
            keepalive_timeout=REQUEST_HEAD_TIMEOUT,
            auto_decompress=False,
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
        connection = cast("_HeadDeadline", request.protocol)
        connection.head_complete()
        try:
            exchange = Http1Exchange(request)
            await self._dispatch(exchange)
            return exchange.response
        finally:
            connection.expect_head()


class Http1Exchange(Exchange):
    """An exchange on aiohttp's request."""

    def __init__(self, request: web.BaseRequest) -> None:
        path, _, query = request.raw_path.partition("?")
        super().__init__(request.method, path, query, request.headers, request.remote or "")
        self._request = request
        #: What aiohttp writes once the handler has returned.
        self.response: web.StreamResponse

    @property
    def client_gone(self) -> bool:
        transport = self._request.transport
        return transport is None or transport.is_closing()

    def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        self.response = web.Response(status=status, body=body, headers=self._with_id(headers))

    async def upgrade(self, headers: Mapping[str, str]) -> None:
        self.response = web.StreamResponse(status=101, headers=self._with_id(headers))
        await self.response.prepare(self._request)

    def hand_over(self, connection: FrameConnection) -> None:
        connection.take_over_from(cast("HttpProtocol", self._request.protocol))

    def _with_id(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**headers, "x-amzn-requestid": self.request_id}


class _HeadDeadline(web.RequestHandler):
    """aiohttp's protocol, with a limit on how long a request's head may take.

    Without it a client that sends a byte a minute keeps its connection for ever (slowloris).
    """

    __slots__ = ("_head_deadline",)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._head_deadline: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self.expect_head()

    def expect_head(self) -> None:
        """A whole head is due from now on."""
        if self.transport is not None:
            self._head_deadline = asyncio.get_running_loop().call_later(
                REQUEST_HEAD_TIMEOUT, self._head_overdue
            )

    def head_complete(self) -> None:
        """It has come."""
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def connection_lost(self, exc: BaseException | None) -> None:
        self.head_complete()
        super().connection_lost(exc)

    def _head_overdue(self) -> None:
        self._head_deadline = None
        self.force_close()


class _Server(web.Server):
    """aiohttp's low-level server, making our connections."""

    def __call__(self) -> web.RequestHandler:
        return _HeadDeadline(self, loop=self._loop, **self._kwargs)


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
