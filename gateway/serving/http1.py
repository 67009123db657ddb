"""HTTP/1.1, parsed by aiohttp: each request becomes an Exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from partway.bounded_heads import bound_head
from partway.gateway.serving.crowd import Visitor
from partway.gateway.serving.exchange import Exchange
from partway.gateway.serving.http1_connection import Http1Connection
from partway.gateway.serving.http1_exchange import Http1Exchange, refusal
from partway.gateway.serving.http1_heads import (
    MAX_FIELD_LINE,
    MAX_LINES,
    MAX_REQUEST_LINE,
    quiet_logger,
)
from partway.protocol.limits import LINGER_TIMEOUT, REQUEST_HEAD_TIMEOUT

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
        protocol = cast("Http1Connection", self._server())
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
        response = exchange.response or web.Response(status=500)
        if exchange.visitor.account.overdrawn and not response.prepared:
            response.force_close()
        return response


class _Server(web.Server):
    """aiohttp's server, whose connections are :class:`Http1Connection`."""

    def __call__(self) -> RequestHandler:
        return bound_head(Http1Connection(self, refusal, loop=self._loop, **self._kwargs))
