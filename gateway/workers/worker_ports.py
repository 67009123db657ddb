"""The ports of a worker, which listen already."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from typing import NamedTuple

from partway.gateway.core import Core
from partway.gateway.ports import Ports


class PortSockets(NamedTuple):
    """Sockets that listen already.

    Attributes:
        tls: those of the TLS port.
    """

    plain: Sequence[socket.socket]
    tls: Sequence[socket.socket] = ()


def address_of(sockets: Sequence[socket.socket]) -> tuple[str, int]:
    """Return the address of the first socket."""
    host, port, *_ = sockets[0].getsockname()
    return host, port


class WorkerPorts(Ports):
    """The front of a worker.

    Args:
        tls: the TLS context of the TLS port; None without such a port.
    """

    def __init__(self, core: Core, sockets: PortSockets, tls: ssl.SSLContext | None) -> None:
        super().__init__(
            *(core.settings, core.dispatcher, core.streams.metrics, core.clock, tls, core.counts)
        )
        self._sockets = sockets

    @property
    def open_connections(self) -> int:
        """The connections that are open, besides those that have sent nothing yet."""
        opening = len(self.listener.opening)
        return self.http1.open_connections + self.http2.open_connections + opening

    def retire(self) -> None:
        """Accept nothing more, and let clients go: none is cut, and each request is answered."""
        self.listener.stop(cut=False)
        self.http1.ending = True
        self.http2.retire()

    async def open(self) -> None:
        await self.listener.accept_on(self._sockets.plain)
        if self._sockets.tls:
            await self.listener.accept_on(self._sockets.tls, self._tls)
