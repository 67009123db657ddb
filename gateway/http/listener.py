"""The listener: it accepts connections, looks at their first bytes, and hands them on.

Clauses 2.5-1 to 2.5-6 list the needs of each client.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from partway.gateway.http.connection_admission import Crowd, Visitor
from partway.gateway.limits import OPENING_TIMEOUT
from partway.protocol.http2.preface import FirstBytes, opening_of
from partway.protocol.limits import ACCEPT_BACKLOG

if TYPE_CHECKING:
    from partway.gateway.http.tls_port import TlsPort


class HttpServer(Protocol):
    """Makes a protocol for each connection that speaks its version of HTTP."""

    def protocol(self, visitor: Visitor) -> asyncio.Protocol:
        """Return a protocol for one connection, not yet connected."""

    @property
    def open_connections(self) -> int: ...


class Listener:
    """The listening ports. First bytes tell which HTTP a connection speaks, with TLS or without.

    A client that negotiated h2 by ALPN is never served HTTP/1.1. ALPN decides nothing else: older
    clients open with HTTP/2's preface without ALPN.
    """

    def __init__(self, http1: HttpServer, http2: HttpServer, crowd: Crowd) -> None:
        self.http1 = http1
        self.http2 = http2
        self.crowd = crowd
        self._servers: list[asyncio.Server] = []
        self._tls_ports: list[TlsPort] = []
        #: Connections that have not sent anything yet.
        self.opening: set[asyncio.Transport] = set()

    async def start(
        self, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> tuple[str, int]:
        """Listen on one more port; return the address, with the real port for port 0.

        Raises:
            OSError: the address is taken, or not this machine's; the error's ``filename`` is host
                and port.
        """
        try:
            if tls is not None:
                tls_port = self._tls_port(tls)
                address = await tls_port.start(host, port)
                self._tls_ports.append(tls_port)
                return address
            server = await asyncio.get_running_loop().create_server(
                lambda: _Opening(self), host, port, backlog=ACCEPT_BACKLOG
            )
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
        self._servers.append(server)
        name = server.sockets[0].getsockname()
        return name[0], name[1]

    async def accept_on(
        self, sockets: Sequence[socket.socket], tls: ssl.SSLContext | None = None
    ) -> None:
        """Accept connections from sockets that listen already; they belong to the listener then."""
        if tls is not None:
            self._tls_ports.append(tls_port := self._tls_port(tls))
            tls_port.accept_on(sockets)
            return
        for each in sockets:
            server = await asyncio.get_running_loop().create_server(
                lambda: _Opening(self), sock=each, backlog=ACCEPT_BACKLOG
            )
            self._servers.append(server)

    def _tls_port(self, context: ssl.SSLContext) -> TlsPort:
        from partway.gateway.http.tls_port import TlsPort

        return TlsPort(context, lambda visitor: _Opening(self, visitor), self.crowd.enter)

    def stop(self, *, cut: bool = True) -> None:
        """Accept nothing more; connections that have sent something stay.

        Args:
            cut: whether connections that have sent nothing yet are closed.
        """
        for server in self._servers:
            server.close()
        for port in self._tls_ports:
            port.stop(cut=cut)
        for transport in list(self.opening) if cut else ():
            transport.abort()


class _Opening(asyncio.Protocol):
    """A connection until its first bytes show which HTTP version it speaks.

    The client has ``OPENING_TIMEOUT`` for them; the HTTP server's own deadline begins after that.

    Args:
        visitor: the connection, if it was admitted before its TLS handshake.
    """

    def __init__(self, listener: Listener, visitor: Visitor | None = None) -> None:
        self._listener = listener
        self._visitor = visitor
        self._encrypted = False
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast("asyncio.Transport", transport)
        if self._visitor is None:
            peer = accepted.get_extra_info("peername")
            # A socket without a peer name was closed by its client before it was accepted.
            self._visitor = self._listener.crowd.enter(peer[0] if peer else "", accepted.abort)
            if self._visitor is None:
                accepted.abort()
                return
        self._visitor.drop = accepted.abort
        self._encrypted = accepted.get_extra_info("sslcontext") is not None
        self._transport = accepted
        self._listener.opening.add(accepted)
        self._deadline = asyncio.get_running_loop().call_later(OPENING_TIMEOUT, accepted.abort)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._transport is not None:
            self._look(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()
        if self._visitor is not None:
            self._visitor.account.left(encrypted=self._encrypted)
            self._visitor.leave()

    def _look(self, transport: asyncio.Transport) -> None:
        match opening_of(self._received):
            case FirstBytes.HTTP1 if not self._agreed_on_http2(transport):
                self._hand_on(transport, self._listener.http1)
            case FirstBytes.HTTP1 | FirstBytes.HTTP2:
                self._hand_on(transport, self._listener.http2)
            case FirstBytes.UNDECIDED:
                pass

    @staticmethod
    def _agreed_on_http2(transport: asyncio.Transport) -> bool:
        tls = transport.get_extra_info("ssl_object")
        return tls is not None and tls.selected_alpn_protocol() == "h2"

    def _hand_on(self, transport: asyncio.Transport, server: HttpServer) -> None:
        self._let_go()
        assert self._visitor is not None, "it has been taken in"
        protocol = server.protocol(self._visitor)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(self._received)

    def _let_go(self) -> None:
        if self._transport is not None:
            self._listener.opening.discard(self._transport)
        if self._deadline is not None:
            self._deadline.cancel()
