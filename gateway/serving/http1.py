"""HTTP/1.1, parsed by llhttp: each request becomes an Exchange."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from partway.gateway.cork import Cork
from partway.gateway.limits import RESPONSE_TAKEN_TIMEOUT
from partway.gateway.serving.crowd import Visitor, uncounted
from partway.gateway.serving.exchange import Exchange
from partway.gateway.serving.http1_connection import Http1Connection
from partway.gateway.serving.http1_exchange import Http1Exchange
from partway.gateway.serving.http1_parser import RequestBroken
from partway.gateway.serving.http1_request import Http1Request
from partway.log_lines import LogLine
from partway.protocol.errors import InternalServerError
from partway.protocol.limits import REQUEST_HEAD_TIMEOUT

log = logging.getLogger("partway.http1")

Dispatch = Callable[[Exchange], Awaitable[None]]


class Http1Server:
    """Makes a protocol for each connection; the listener feeds it.

    Args:
        dispatch: answers an exchange.
        taken_within: seconds in which a client has to take some of what it is sent, over and over.

    Attributes:
        head_timeout: seconds from when the listener hands a connection on, and from its last
            response, to the end of the next head. Bytes that dribble in do not move it (slowloris).
        taken_within: the same.
        ending: whether connections end with the response that is under way.
        tasks: those in which requests are answered.
        cork: has responses of several connections sent together.
    """

    def __init__(self, dispatch: Dispatch, *, taken_within: float = RESPONSE_TAKEN_TIMEOUT) -> None:
        self.head_timeout = REQUEST_HEAD_TIMEOUT
        self.taken_within = taken_within
        self.ending = False
        self.tasks: set[asyncio.Task[None]] = set()
        self.cork = Cork()
        self._dispatch = dispatch
        self._connections: set[Http1Connection] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    def protocol(self, visitor: Visitor | None = None) -> asyncio.Protocol:
        """A protocol for one connection; without a visitor nobody counts it."""
        return Http1Connection(self, visitor or uncounted())

    @property
    def open_connections(self) -> int:
        """How many connections are open, upgraded ones included."""
        return len(self._connections)

    async def shutdown(self, timeout: float) -> None:
        """Close idle connections now, others with their response, or after ``timeout`` seconds.

        Requests that are broken off then have ``timeout`` seconds once more to come to their end.
        """
        self.ending = True
        for connection in list(self._connections):
            connection.close_if_idle()
        try:
            async with asyncio.timeout(timeout):
                if self.tasks:
                    await asyncio.wait(self.tasks)
                for connection in list(self._connections):
                    if connection.encrypted:
                        # A client need not answer TLS's close_notify, and the loop may end before.
                        connection.abort()
                await self._none_left.wait()
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort()
            for task in self.tasks:
                task.cancel()
            if self.tasks:
                await self._cancelled(timeout)

    async def _cancelled(self, timeout: float) -> None:
        """Wait for tasks that are cancelled, which may take no longer over that than others."""
        _, left = await asyncio.wait(self.tasks, timeout=timeout)
        if left:
            line = "requests do not end, though they are broken off; they are left behind"
            log.error(LogLine(line, requests=len(left)))

    # --- From connections ------------------------------------------------------------------------

    def begun(self, connection: Http1Connection) -> None:
        """A connection has begun."""
        self._connections.add(connection)
        self._none_left.clear()

    def over(self, connection: Http1Connection) -> None:
        """A connection is over."""
        self._connections.discard(connection)
        if not self._connections:
            self._none_left.set()

    async def answer(self, connection: Http1Connection, request: Http1Request) -> bool:
        """Answer a request; returns whether the connection may have another one."""
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
        """Answer what is no request; nothing of it is repeated."""
        exchange = Http1Exchange(connection, Http1Request.unread())
        exchange.visit.cost(0.0)
        exchange.fail(broken.error)
        exchange.sent(ending=True)
