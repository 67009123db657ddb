"""The parent's Unix socket, at which workers forward requests, and dial each new parent."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from partway.gateway.http.exchange import Exchange
from partway.gateway.kept_state import KeptState
from partway.gateway.workers.forwarded_exchange import ForwardedExchange
from partway.gateway.workers.limits import FORWARD_TIMEOUT
from partway.gateway.workers.link import LinkBroken, WorkerLink
from partway.gateway.workers.messages import TO_OPERATION, ForwardedHead, RequestTaken, WorkerHello
from partway.gateway.workers.supervision import WorkersError
from partway.log_lines import LogLine
from partway.protocol.errors import InternalServerError
from partway.protocol.limits import ACCEPT_BACKLOG

log = logging.getLogger("partway.workers")

#: The name of the kept entry.
_NAME: Final = "forwarding"

#: Bytes of the path of a Unix socket, without the NUL behind it (unix(7)).
_LONGEST_PATH: Final = 107

#: Python 3.13 begins to remove a socket's path with its server; the next parent has the same path.
_PATH_STAYS: Final[dict[str, Any]] = (
    {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
)


class ForwardedRequests:
    """Answers requests of workers, each on a connection of its own.

    The supervisor keeps the socket, so the path stays the same for each parent.

    Args:
        dispatch: the parent's dispatcher.
        on_hello: takes a worker's new link; closes the connection if it does not want it.
    """

    def __init__(
        self,
        dispatch: Callable[[Exchange], Awaitable[None]],
        on_hello: Callable[[WorkerHello, asyncio.StreamReader, asyncio.StreamWriter], object],
        kept: KeptState,
    ) -> None:
        self._dispatch = dispatch
        self._on_hello = on_hello
        self._kept = kept
        self._folder = ""
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> str:
        """Take the socket of an earlier parent, or make one; return its path.

        The folder of the socket can be entered by this user alone.

        Raises:
            WorkersError: there is no place for it.
        """
        for entry in self._kept.take(_NAME).values():
            self._folder = entry.record.decode()
            self._socket = socket.socket(fileno=entry.descriptors[0])
            return _path_in(self._folder)
        try:
            self._folder = tempfile.mkdtemp(prefix="partway-")
            self._socket = _listening(_path_in(self._folder))
        except OSError as error:
            raise WorkersError(
                f"no socket can be made for workers: {error}; set TMPDIR to a folder with a short "
                "path that can be written"
            ) from None
        self._kept.keep(_NAME, self._folder.encode(), [self._socket.fileno()])
        return _path_in(self._folder)

    async def start(self) -> None:
        """Answer requests from now on; those that have come since the last parent's end too."""
        assert self._socket is not None, "it is open"
        self._server = await asyncio.start_unix_server(
            self._begin, sock=self._socket, backlog=ACCEPT_BACKLOG, **_PATH_STAYS
        )

    def close(self) -> None:
        """Take no further requests."""
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._socket.close()

    async def answered(self) -> None:
        """Return when no request is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def shutdown(self, timeout: float) -> None:
        """Wait for the requests under way; break off the rest after half of the seconds."""
        if self._folder:
            self._kept.forget(_NAME)
            shutil.rmtree(self._folder, ignore_errors=True)
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
        head: object = None
        try:
            async with asyncio.timeout(FORWARD_TIMEOUT):
                head = await anext(link.messages(), None)
            if isinstance(head, WorkerHello):
                self._on_hello(head, reader, writer)
            elif isinstance(head, ForwardedHead):
                link.send(RequestTaken())
                await self._dispatched(ForwardedExchange(head, link))
                await link.other_side_ends(FORWARD_TIMEOUT)
        except TimeoutError:
            log.info("a connection of this user has said nothing, and is closed")
        except (LinkBroken, OSError) as error:  # the worker has ended
            log.info(LogLine("a forwarded request was cut", reason=str(error)))
        finally:
            if not isinstance(head, WorkerHello):
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


def _path_in(folder: str) -> str:
    return str(Path(folder, "requests"))


def _listening(path: str) -> socket.socket:
    """Listen at a path.

    Raises:
        OSError: it is too long, or cannot be made.
    """
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise OSError(f"{path} has more than {_LONGEST_PATH} bytes, the most of a socket's path")
    made = socket.socket(socket.AF_UNIX)
    try:
        made.bind(path)
        made.listen(ACCEPT_BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def peer_process(writer: asyncio.StreamWriter) -> int:
    """Return the process at the other end of a Unix socket's connection."""
    credentials = struct.Struct("3i")  # process, user, group: struct ucred of unix(7)
    peer = writer.get_extra_info("socket")
    data = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    return int(credentials.unpack(data)[0])
