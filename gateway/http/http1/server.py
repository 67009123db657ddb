"""The HTTP/1.1 server: each request of its connections becomes an Exchange."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from partway.gateway.http.connection_admission import Visitor, uncounted
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.http1.exchange import Http1Exchange
from partway.gateway.limits import HTTP1_STUCK_BYTES, RESPONSE_TAKEN_TIMEOUT, TLS_READ_HELD
from partway.log_lines import LogLine
from partway.protocol.connections.fair_turns import Cancellable
from partway.protocol.connections.http1_connection import RequestConnection
from partway.protocol.connections.http1_server import RequestServer
from partway.protocol.errors import InternalServerError
from partway.protocol.http1.parser import RequestBroken
from partway.protocol.http1.request import Http1Request
from partway.protocol.limits import REQUEST_HEAD_TIMEOUT

log = logging.getLogger("partway.http1")

Dispatch = Callable[[Exchange], Awaitable[None]]


class Http1Server(RequestServer):
    """Makes a protocol for each connection; the listener feeds it.

    Args:
        taken_within: seconds in which a client must take some of the bytes sent to it, repeatedly.
    """

    def __init__(self, dispatch: Dispatch, *, taken_within: float = RESPONSE_TAKEN_TIMEOUT) -> None:
        super().__init__(head_timeout=REQUEST_HEAD_TIMEOUT, taken_within=taken_within)
        self._dispatch = dispatch

    def protocol(self, visitor: Visitor | None = None) -> asyncio.Protocol:
        """Return a protocol for one connection; without a visitor it is not counted."""
        visitor = visitor or uncounted()
        handler = Http1Handler(self._dispatch, visitor)
        connection = RequestConnection(self, handler, handler)
        visitor.drop = connection.abort
        return connection

    async def shutdown(self, timeout: float) -> int:
        left = await super().shutdown(timeout)
        if left:
            line = "requests did not end after they were broken off"
            log.error(LogLine(line, requests=left))
        return left


class Http1Handler:
    """A connection's handler: it dispatches requests, and reports memory to admission control."""

    __slots__ = ("_dispatch", "_held", "_stalls", "_visitor")

    def __init__(self, dispatch: Dispatch, visitor: Visitor) -> None:
        self._dispatch = dispatch
        self._visitor = visitor
        self._held = 0
        self._stalls = False

    # --- Requests (RequestHandler) ---------------------------------------------------------------

    async def answer(self, connection: RequestConnection, request: Http1Request) -> bool:
        exchange = Http1Exchange(connection, request, self._visitor)
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
        return exchange.sent(ending=connection.server.ending)

    def refuse(self, connection: RequestConnection, broken: RequestBroken) -> None:
        exchange = Http1Exchange(connection, Http1Request.unread(), self._visitor)
        exchange.visit.cost(0.0)
        exchange.fail(broken.error)
        exchange.sent(ending=True)

    def note_broken(self, connection: RequestConnection, broken: RequestBroken) -> None:
        log.info(LogLine("bad request", peer=connection.peer, reason=str(broken)))

    # --- The connection in admission control (Admission) -----------------------------------------

    @property
    def known(self) -> bool:
        return self._visitor.account.known

    def wait(self, go_on: Callable[[], None]) -> Cancellable | None:
        return self._visitor.account.has_to_wait(go_on)

    def holds(self, size: int, tls_read: int) -> None:
        held = size + tls_read * TLS_READ_HELD
        if held != self._held:
            self._held = held
            self._weigh()

    def stalls(self, *, stalls: bool) -> None:
        self._stalls = stalls
        self._weigh()

    def left(self, *, encrypted: bool) -> None:
        self._visitor.account.left(encrypted=encrypted)
        self._visitor.leave()

    def _weigh(self) -> None:
        self._visitor.holds(self._held + (HTTP1_STUCK_BYTES if self._stalls else 0))
