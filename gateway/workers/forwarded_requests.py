"""The parent's Unix socket, at which workers forward requests."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from partway.gateway.http.exchange import Exchange
from partway.gateway.workers.forwarded_exchange import ForwardedExchange
from partway.gateway.workers.limits import FORWARD_TIMEOUT
from partway.gateway.workers.link import LinkBroken, WorkerLink
from partway.gateway.workers.messages import TO_OPERATION, ForwardedHead
from partway.gateway.workers.nursery import WorkersError
from partway.log_lines import LogLine
from partway.protocol.errors import InternalServerError
from partway.protocol.limits import ACCEPT_BACKLOG

log = logging.getLogger("partway.workers")

#: Bytes of the path of a Unix socket, without the NUL behind it (unix(7)).
_LONGEST_PATH: Final = 107


class ForwardedRequests:
    """Answers requests of workers, each on a connection of its own.

    Args:
        dispatch: the parent's dispatcher.
    """

    def __init__(self, dispatch: Callable[[Exchange], Awaitable[None]]) -> None:
        self._dispatch = dispatch
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        """Listen in a folder that only this user may enter; return the socket's path.

        Raises:
            WorkersError: there is no place for it.
        """
        try:
            self._folder = tempfile.TemporaryDirectory(prefix="partway-")
            path = _checked(str(Path(self._folder.name, "requests")))
            self._server = await asyncio.start_unix_server(
                self._begin, path, backlog=ACCEPT_BACKLOG
            )
        except OSError as error:
            raise WorkersError(
                f"no socket can be made for workers: {error}; set TMPDIR to a folder with a short "
                "path that can be written"
            ) from None
        return path

    def close(self) -> None:
        """Take no further requests."""
        if self._server is not None:
            self._server.close()

    async def shutdown(self, timeout: float) -> None:
        """Wait for the requests under way; break off the rest after half of the seconds."""
        if self._folder is not None:
            self._folder.cleanup()
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
                await self._dispatched(ForwardedExchange(head, link))
                await link.other_side_ends(FORWARD_TIMEOUT)
        except (LinkBroken, OSError) as error:  # the worker has ended
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
        if not operation.cancelled():
            operation.result()

    async def _operation(self, exchange: ForwardedExchange) -> None:
        try:
            await self._dispatch(exchange)
        except Exception:
            log.exception("the answer to a request has failed")
            if exchange.answered:
                exchange.abort()
            else:
                exchange.fail(InternalServerError())
        exchange.send_whole()


def _checked(path: str) -> str:
    """Return the path of a Unix socket.

    Raises:
        OSError: it is too long; asyncio and uvloop have no good words for that.
    """
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise OSError(f"{path} has more than {_LONGEST_PATH} bytes, the most of a socket's path")
    return path
