"""The runtime's HTTP/1.1 server: each request becomes an exchange."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from partway.container.serving.body import ChunkedRequest
from partway.container.serving.exchange import RuntimeExchange
from partway.log_lines import LogLine
from partway.protocol.connections.http1_connection import RequestConnection
from partway.protocol.connections.http1_server import RequestServer
from partway.protocol.errors import ApiError
from partway.protocol.http.head_limits import check_head
from partway.protocol.http1.parser import RequestBroken
from partway.protocol.http1.request import Http1Request
from partway.protocol.limits import REQUEST_HEAD_TIMEOUT, STALL_TIMEOUT

_log = logging.getLogger("partway.container.http")

#: Answers an exchange.
Handler = Callable[[RuntimeExchange], Awaitable[None]]


class ExchangeServer(RequestServer):
    """Listens for requests. :meth:`protocol` is the factory for ``loop.create_server``.

    When a client leaves, its request's task is cancelled.

    Args:
        head_timeout: seconds for a whole request head, and for an idle connection.
        taken_within: seconds in which a client must take some of the unsent bytes, over and over.
    """

    def __init__(
        self,
        handle: Handler,
        *,
        head_timeout: float = REQUEST_HEAD_TIMEOUT,
        taken_within: float = STALL_TIMEOUT,
    ) -> None:
        super().__init__(head_timeout=head_timeout, taken_within=taken_within, cancels_waiting=True)
        self._handle = handle

    def protocol(self) -> asyncio.Protocol:
        return RequestConnection(self, self, new_request=ChunkedRequest)

    # --- Requests (RequestHandler) ---------------------------------------------------------------

    async def answer(self, connection: RequestConnection, request: Http1Request) -> bool:
        exchange = RuntimeExchange(connection, request)
        try:
            check_head(exchange)
            await self._handle(exchange)
        except ApiError as error:
            exchange.refuse_unread(error.status, error.message)
        except asyncio.CancelledError:
            exchange.cut()  # a clean end would claim that the answer is complete
            raise
        except Exception as error:
            if isinstance(error, ConnectionError) and exchange.left:
                return False  # no client is left to be told
            _log.exception("the answer to a request has failed")
            if exchange.begun:
                exchange.cut()
            else:
                exchange.refuse_unread(500, "the runtime has failed; its log says how")
        if connection.reader.requests:
            await asyncio.sleep(0)  # one turn may bring a hundred; other tasks need turns
        return not (exchange.closes or self.ending)

    def refuse(self, connection: RequestConnection, broken: RequestBroken) -> None:
        exchange = RuntimeExchange(connection, ChunkedRequest.unread())
        exchange.refuse(broken.error.status, broken.error.message)

    def note_broken(self, connection: RequestConnection, broken: RequestBroken) -> None:
        _log.info(LogLine("bad request", peer=connection.peer, reason=str(broken)))
