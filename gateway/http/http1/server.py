"""HTTP/1.1, parsed by llhttp: each request becomes an Exchange."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from partway.gateway.http.connection_admission import Visitor, uncounted
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.http1.connection import Http1Connection
from partway.gateway.http.http1.exchange import Http1Exchange
from partway.gateway.limits import RESPONSE_TAKEN_TIMEOUT
from partway.log_lines import LogLine
from partway.protocol.connections.http1_server import RequestServer
from partway.protocol.errors import InternalServerError
from partway.protocol.http1.parser import RequestBroken
from partway.protocol.http1.request import Http1Request
from partway.protocol.limits import REQUEST_HEAD_TIMEOUT

log = logging.getLogger("partway.http1")

Dispatch = Callable[[Exchange], Awaitable[None]]


class Http1Server(RequestServer[Http1Connection]):
    """Makes a protocol for each connection; the listener feeds it.

    Args:
        dispatch: answers an exchange.
        taken_within: seconds in which a client has to take some of what it is sent, over and over.
    """

    def __init__(self, dispatch: Dispatch, *, taken_within: float = RESPONSE_TAKEN_TIMEOUT) -> None:
        super().__init__(head_timeout=REQUEST_HEAD_TIMEOUT, taken_within=taken_within)
        self._dispatch = dispatch

    def protocol(self, visitor: Visitor | None = None) -> asyncio.Protocol:
        """A protocol for one connection; without a visitor nobody counts it."""
        return Http1Connection(self, visitor or uncounted())

    async def shutdown(self, timeout: float) -> int:
        left = await super().shutdown(timeout)
        if left:
            line = "requests do not end, though they are broken off; they are left behind"
            log.error(LogLine(line, requests=left))
        return left

    # --- From connections ------------------------------------------------------------------------

    async def answer(self, connection: Http1Connection, request: Http1Request) -> bool:
        exchange = Http1Exchange(connection, request)
        try:
            dispatch = self._dispatch
            await dispatch(exchange)
        except Exception:
            log.exception("the answer to a request has failed")
            if exchange.answered:
                exchange.abort()
            else:
                exchange.fail(InternalServerError())
                exchange.closes = True
        finally:
            exchange.let_go()
        return exchange.sent(ending=self.ending)

    def refuse(self, connection: Http1Connection, broken: RequestBroken) -> None:
        exchange = Http1Exchange(connection, Http1Request.unread())
        exchange.visit.cost(0.0)
        exchange.fail(broken.error)
        exchange.sent(ending=True)
