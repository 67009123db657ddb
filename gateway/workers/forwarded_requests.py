"""The parent's Unix socket, at which workers forward requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from partway.gateway.http.exchange import Exchange
from partway.gateway.workers.forwarded_exchange import ForwardedExchange
from partway.gateway.workers.link import LinkBroken, WorkerLink
from partway.gateway.workers.messages import TO_OPERATION, ForwardedHead
from partway.log_lines import LogLine
from partway.protocol.errors import InternalServerError

log = logging.getLogger("partway.workers")


class ForwardedRequests:
    """Answers requests of workers, each on a connection of its own.

    Args:
        dispatch: the parent's dispatcher.
        has_names: whether it authenticates senders.
    """

    def __init__(self, dispatch: Callable[[Exchange], Awaitable[None]], *, has_names: bool) -> None:
        self._dispatch = dispatch
        self._has_names = has_names
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, path: str) -> None:
        """Listen at a path in a folder that only this user may enter."""
        self._server = await asyncio.start_unix_server(self._begin, path)

    def close(self) -> None:
        """Take no further requests."""
        if self._server is not None:
            self._server.close()

    async def shutdown(self, timeout: float) -> None:
        """Wait for the requests under way; break off the rest after half of the seconds."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=timeout / 2)
        for task in late:
            task.cancel()
        if late and (await asyncio.wait(late, timeout=timeout / 2))[1]:
            line = "requests did not end after they were broken off"
            log.error(LogLine(line, requests=len(self._tasks)))

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._answer(reader, writer), name="forwarded request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = WorkerLink(reader, writer, TO_OPERATION)
        try:
            head = await anext(link.messages(), None)
            if isinstance(head, ForwardedHead):
                await self._dispatched(ForwardedExchange(head, link, has_names=self._has_names))
        except (LinkBroken, ConnectionError) as error:  # the worker has ended
            log.info(LogLine("a forwarded request was cut", reason=str(error)))
        finally:
            await link.aclose()

    async def _dispatched(self, exchange: ForwardedExchange) -> None:
        """Let the dispatcher answer, until its end or until the client leaves."""
        operation = asyncio.create_task(self._operation(exchange), name="forwarded operation")
        taking = asyncio.create_task(exchange.take_body(operation.cancel), name="forwarded body")
        try:
            await asyncio.wait((operation,))
        finally:
            operation.cancel()
            taking.cancel()
            await asyncio.wait((operation, taking))

    async def _operation(self, exchange: ForwardedExchange) -> None:
        try:
            await self._dispatch(exchange)
        except Exception:
            log.exception("the answer to a request has failed")
            if exchange.answered:
                exchange.abort()
            else:
                exchange.fail(InternalServerError())
