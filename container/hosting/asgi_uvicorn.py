"""uvicorn inside this process, with our loop, our signals and our shutdown.

Its WebSocket implementation is ``websockets-sansio``. Of uvicorn's implementations only this one
answers a broken frame with the Close that RFC 6455 demands. It needs no further package.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from partway.container.hosting.asgi_messages import App
from partway.container.limits import ACCEPT_BACKLOG, CANCEL_GRACE, MAX_MESSAGE_BYTES, MAX_RUNNING
from partway.container.serving.exchange import SERVER
from partway.protocol.limits import (
    HANDSHAKE_HEAD_BYTES,
    PART_OVERHEAD,
    REQUEST_HEAD_TIMEOUT,
    STALL_TIMEOUT,
)

#: Most fragments of one message: each is held as an object until the message is complete. As
#: fragments of 20 ms they hold 43 minutes.
MAX_FRAGMENTS = MAX_MESSAGE_BYTES // PART_OVERHEAD

#: Most connections: twice the number of streams and requests, for idle ones and for /ping.
_MAX_CONNECTIONS = 2 * MAX_RUNNING


class BoundedHttpProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 on h11, which bounds a request's head; this adds a deadline.

    Without a deadline, a connection that sends nothing, or a byte now and then, would be kept
    forever.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_head()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection to its WebSocket.

        h11 accepts some heads that websockets refuses, such as one with a body or a hundred headers
        too many. uvicorn would never answer these.
        """
        self._expect_nothing()
        super().handle_websocket_upgrade(event)
        stream = self.transport.get_protocol()
        if isinstance(stream, WebSocketProtocol) and not stream.handshake_initiated:
            self.send_400_response("this request is no valid WebSocket handshake")

    def _expect_head(self) -> None:
        self._expect_nothing()
        self._deadline = self.loop.call_later(REQUEST_HEAD_TIMEOUT, self._on_deadline)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        if getattr(self.cycle, "response_complete", True):  # None before the first head
            self.transport.close()


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket on websockets' sans-IO layer, with a limit on fragments.

    Their bytes count against ``ws_max_size``, but empty fragments have none.
    """

    def handle_cont(self, event: Frame) -> None:
        super().handle_cont(event)
        if len(self.frames) > MAX_FRAGMENTS:
            self.frames.clear()
            self.conn.fail(
                CloseCode.MESSAGE_TOO_BIG, f"a message must have at most {MAX_FRAGMENTS} fragments"
            )
            self.handle_parser_exception()


class _Connections(set[Any]):
    """uvicorn's open connections; the event ``none`` is set while no connection is open."""

    def __init__(self) -> None:
        super().__init__()
        self.none = asyncio.Event()
        self.none.set()

    def add(self, connection: Any) -> None:
        super().add(connection)
        self.none.clear()

    def discard(self, connection: Any) -> None:
        super().discard(connection)
        if not self:
            self.none.set()

    remove = discard


class WebServer(uvicorn.Server):
    """Serves an app from :meth:`listen` to :meth:`aclose`."""

    def __init__(self, app: App) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                interface="asgi3",
                lifespan="off",  # see asgi_lifespan
                http=BoundedHttpProtocol,
                h11_max_incomplete_event_size=HANDSHAKE_HEAD_BYTES,
                ws=WebSocketProtocol,
                ws_max_size=MAX_MESSAGE_BYTES,
                ws_per_message_deflate=False,  # a compressed payload is not the part's bytes
                ws_ping_interval=None,  # the platform pings
                limit_concurrency=_MAX_CONNECTIONS,
                backlog=ACCEPT_BACKLOG,
                timeout_keep_alive=int(REQUEST_HEAD_TIMEOUT),
                headers=[("server", SERVER)],
                server_header=False,
                proxy_headers=False,
                access_log=False,  # it would show queries
                log_config=None,
                log_level="error",  # lower levels are clients' faults
            )
        )
        self._connections = self.server_state.connections = _Connections()
        self._listening = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    async def listen(self, host: str, port: int) -> int:
        """Listen, and return the port.

        Raises:
            OSError: the address is taken, or does not belong to this machine.
        """
        # uvicorn ends the process if it cannot bind, so it gets bound sockets.
        sockets = await _bound_sockets(host, port)
        self._serving = asyncio.create_task(self.serve(sockets), name="uvicorn")
        listening = asyncio.create_task(self._listening.wait())
        try:
            await asyncio.wait((self._serving, listening), return_when=asyncio.FIRST_COMPLETED)
        finally:
            listening.cancel()
        if self._serving.done():
            for each in sockets:
                each.close()
            self._serving.result()
        taken: int = sockets[0].getsockname()[1]
        return taken

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: the command handles them."""
        yield

    async def finish(self, patience: float) -> None:
        """Accept no more connections, and give the open ones ``patience`` seconds to end."""
        self._stop_listening()
        for connection in list(self._connections):
            # A WebSocket's Close is on its way; the other connections have nothing left to send.
            if (
                isinstance(connection, BoundedHttpProtocol)
                and not connection.transport.is_closing()
            ):
                connection.shutdown()
        try:
            async with asyncio.timeout(patience):
                await self._connections.none.wait()
        except TimeoutError:
            return

    def abort(self) -> None:
        """Accept no more connections, and abort the open ones."""
        self._stop_listening()
        for connection in list(self._connections):
            connection.transport.abort()

    async def aclose(self) -> None:
        if self._serving is not None:
            # uvicorn's own shutdown() only checks every tenth of a second.
            self._serving.cancel()
            await asyncio.wait((self._serving,), timeout=CANCEL_GRACE)

    def _stop_listening(self) -> None:
        for server in self.servers if self.started else ():
            server.close()


async def _bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Bind a socket for each address of a host; accepted connections inherit its options."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # The kernel must find a peer that is gone or takes nothing: uvicorn waits without
            # limit.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                timeout = int(STALL_TIMEOUT * 1000)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout)
            sock.bind(address)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets
