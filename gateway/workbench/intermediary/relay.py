"""The intermediary: a listener on loopback that stands before one container."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from functools import partial
from typing import Final

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.tls.trust import Trust
from partway.gateway.workbench.intermediary.connection_pair import Between, Crossing
from partway.gateway.workbench.intermediary.connection_side import READ_BYTES
from partway.gateway.workbench.intermediary.faults import Rules
from partway.gateway.workbench.intermediary.observer import Observe
from partway.log_lines import LogLine
from partway.protocol.limits import ACCEPT_BACKLOG

log = logging.getLogger("partway.intermediary")

#: Seconds for dropped connections to end.
_CLOSE_TIMEOUT: Final = 1.0


class Intermediary:
    """A listener between a gateway and one container.

    Args:
        name: the endpoint's.
        container: the address at which the container itself listens.
        rules: the faults of streams. Rules may be shared with other intermediaries, and
            replaced while streams run: open streams keep their faults.
        policy: the endpoint's. Its ``connect_timeout`` holds for the container's connections;
            ``stall_timeout`` and ``lifetime`` bound connections that no side ends.
        tls: the trust in the container's certificate; None without TLS.
    """

    def __init__(
        self,
        name: str,
        container: Address,
        rules: Rules | None = None,
        observe: Observe | None = None,
        policy: StreamPolicy | None = None,
        tls: Trust | None = None,
    ) -> None:
        self._between = Between(
            name, container, rules or Rules(), observe, policy or StreamPolicy(), tls
        )
        self._server: asyncio.Server | None = None
        self._crossings: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def in_use(self) -> bool:
        """Whether a connection of the gateway's is open on the intermediary."""
        return bool(self._crossings)

    async def start(self) -> Address:
        """Listen on loopback; return the address.

        The caller must call :meth:`aclose` at the end, even if this call is cancelled.

        Raises:
            OSError: no port on loopback can be listened on.
        """
        # asyncio itself would report "too many open files" as a missing address family.
        listening = socket.create_server(("127.0.0.1", 0), backlog=ACCEPT_BACKLOG)
        self._server = await asyncio.start_server(
            self._accepted,
            sock=listening,
            limit=READ_BYTES,
            backlog=ACCEPT_BACKLOG,
            start_serving=False,  # serving waits a turn, and the server must be stored before
        )
        await self._server.start_serving()
        return Address(*listening.getsockname())

    async def aclose(self) -> None:
        if self._server is None:
            return
        self._closed = True
        self._server.close()
        for crossing in self._crossings:
            crossing.cancel()
        await asyncio.gather(*self._crossings, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await self._server.wait_closed()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed:  # accepted just before the close
            writer.transport.abort()
            return
        crossing = asyncio.create_task(Crossing(self._between, reader, writer).run())
        self._crossings.add(crossing)
        crossing.add_done_callback(partial(self._crossed, writer))

    def _crossed(self, writer: asyncio.StreamWriter, crossing: asyncio.Task[None]) -> None:
        self._crossings.discard(crossing)
        writer.transport.abort()  # a crossing that was cancelled before its start closes nothing
        if not crossing.cancelled() and (error := crossing.exception()) is not None:
            log.error(
                LogLine(
                    "a connection through the intermediary failed", endpoint=self._between.name
                ),
                exc_info=error,
            )
