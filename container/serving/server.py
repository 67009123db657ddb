"""The connections of a runtime: each request becomes an exchange."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from partway.container.serving.chunks import ChunkedRequest
from partway.container.serving.exchange import HttpExchange
from partway.log_lines import LogLine
from partway.protocol.http1.connection import RequestConnection
from partway.protocol.http1.parser import RequestBroken
from partway.protocol.http1.request import Http1Request
from partway.protocol.http1.server import RequestServer
from partway.protocol.limits import REQUEST_HEAD_TIMEOUT, STALL_TIMEOUT

_log = logging.getLogger("partway.container.http")

#: Answers an exchange.
Handler = Callable[[HttpExchange], Awaitable[None]]


class Connection(RequestConnection):
    """A connection of the platform's; when that leaves, nobody goes on working for it."""

    __slots__ = ()

    def _tell_lost(self) -> None:
        if self._idle is not None:
            self._wake()
            return
        if self._current is not None:
            self._current.tell()
        if self._task is not None:
            self._task.cancel()

    def _break(self, broken: RequestBroken) -> None:
        _log.info(LogLine("bad request", peer=self.peer, reason=str(broken)))
        super()._break(broken)


class ExchangeServer(RequestServer):
    """Listens for requests. :meth:`protocol` is the factory for ``loop.create_server``.

    Args:
        handle: answers an exchange.
        head_timeout: seconds for a whole request head, and for an idle connection.
    """

    def __init__(self, handle: Handler, *, head_timeout: float = REQUEST_HEAD_TIMEOUT) -> None:
        super().__init__(head_timeout=head_timeout, taken_within=STALL_TIMEOUT)
        self._handle = handle

    def protocol(self) -> asyncio.Protocol:
        """A protocol for one connection."""
        return Connection(self, ChunkedRequest)

    async def answer(self, connection: Connection, request: Http1Request) -> bool:
        exchange = HttpExchange(connection, request)
        try:
            await self._handle(exchange)
        except asyncio.CancelledError:
            exchange.cut()  # an orderly end would say that what has been sent is whole
            raise
        except Exception as error:
            if isinstance(error, ConnectionError) and exchange.left:
                return False  # nobody is there to be told
            _log.exception("the answer to a request has failed")
            if exchange.begun:
                exchange.cut()
            else:
                exchange.closes = True
                exchange.respond(500)
        return not (exchange.closes or self.ending)

    def refuse(self, connection: Connection, broken: RequestBroken) -> None:
        exchange = HttpExchange(connection, ChunkedRequest.unread())
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        exchange.respond(broken.error.status, f"{broken.error}\n".encode(), headers)
