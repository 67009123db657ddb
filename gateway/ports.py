"""The ports of a gateway: the listener, the server of each HTTP version, and admission control."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import NamedTuple

from partway.gateway.http.connection_admission import Crowd
from partway.gateway.http.dispatcher import Dispatcher
from partway.gateway.http.http1.server import Http1Server
from partway.gateway.http.http2.server import Http2Server
from partway.gateway.http.listener import Listener
from partway.gateway.http.peers import TrustedProxies
from partway.gateway.http.unauthenticated_clients import Strangers
from partway.gateway.quota import NamedCounts
from partway.gateway.settings.settings import Settings
from partway.gateway.streams.metrics import Metrics
from partway.gateway.timing.clock import Clock


class Listening(NamedTuple):
    """The addresses of a gateway, with the real port for port 0."""

    host: str
    port: int
    tls_port: int | None


class Ports:
    """The front of a gateway that has a server of its own.

    Args:
        settings: where to listen, and the limits of connections and streams.
        tls: the context of the TLS port; None without such a port, or if :meth:`open_tls` opens it
            later.
        counts: shared with other processes, whose connections count too.

    Attributes:
        listener: accepts the connections of both.
    """

    def __init__(
        self,
        settings: Settings,
        dispatcher: Dispatcher,
        metrics: Metrics,
        clock: Clock,
        tls: ssl.SSLContext | None,
        counts: NamedCounts | None = None,
    ) -> None:
        self._settings = settings
        self._tls = tls
        self._listening: Listening | None = None
        self.http1 = Http1Server(dispatcher)
        self.http2 = Http2Server(
            dispatcher,
            metrics.closed_to_new,
            settings.max_streams_per_connection,
            dispatcher.in_reserve,
        )
        metrics.connections |= {
            "1.1": lambda: self.http1.open_connections,
            "2": lambda: self.http2.open_connections,
        }
        trusted = TrustedProxies(settings.trusted_proxies)
        crowd = Crowd(
            settings.max_connections,
            settings.connections_per_address,
            trusted,
            time.monotonic,
            metrics.dropped,
            Strangers(clock, trusted.__contains__).account,
            counts,
        )
        self.listener = Listener(self.http1, self.http2, crowd)

    @property
    def listening(self) -> Listening:
        """The addresses, once the ports are open."""
        assert self._listening is not None, "they are open"
        return self._listening

    async def open(self) -> None:
        """Listen on the addresses of the settings.

        Raises:
            OSError: an address cannot be listened on; the error's ``filename`` is host and port.
        """
        host, port = await self.listener.start(self._settings.host, self._settings.port)
        tls_port = None
        if self._tls is not None and self._settings.tls_port is not None:
            try:
                tls_port = await self.open_tls(self._tls)
            except OSError:
                self.listener.stop()
                raise
        self._listening = Listening(host, port, tls_port)

    async def open_tls(self, context: ssl.SSLContext) -> int:
        """Listen on the TLS port of the settings, and return its number.

        Raises:
            OSError: as :meth:`open`.
        """
        assert self._settings.tls_port is not None, "the settings have one"
        _, port = await self.listener.start(self._settings.host, self._settings.tls_port, context)
        return port

    def announce_end(self) -> None:
        """Tell HTTP/2's clients to open nothing more."""
        self.http2.announce_end()

    def hasten(self) -> None:
        """Do nothing: the streams and requests of this process are hastened."""

    async def drain(self) -> None:
        """Return at once: everything that is under way belongs to this process."""

    def close(self) -> None:
        self.listener.stop()

    async def shutdown(self, timeout: float) -> None:
        """End all connections, within so many seconds."""
        async with asyncio.TaskGroup() as servers:
            # The server of HTTP/1.1 waits twice.
            servers.create_task(self.http1.shutdown(timeout / 2))
            servers.create_task(self.http2.shutdown(timeout))
