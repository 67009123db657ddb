"""A client's connection while the gateway answers one of its requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from aiohttp import web

from partway.gateway.http.http1.duplex import Http1Duplex
from partway.gateway.limits import RESPONSE_TAKEN_TIMEOUT
from partway.protocol.connections.slow_clients import StalledWrites


class ClientConnection(asyncio.Protocol):
    """Stands between a transport and aiohttp's protocol, inside a ``with`` block.

    aiohttp's protocol gets every callback. This protocol also sees when the client leaves, when a
    response that is open both ways must pause, and when the client ends its side. It drops a client
    that takes none of the bytes sent to it.

    Attributes:
        transport: the connection's; None once it is gone.
        duplex: told of the transport's events, while a response is open both ways.
        on_lost: called when the transport is gone, behind aiohttp's protocol.
    """

    def __init__(self, request: web.BaseRequest) -> None:
        self.http = request.protocol
        self.transport = self.http.transport
        self._body = request.content
        self._is_broken = False
        self.duplex: Http1Duplex | None = None
        self.on_lost: Callable[[], None] = lambda: None
        self._not_taken: StalledWrites | None = None

    def __enter__(self) -> Self:
        if self.transport is not None:
            self.transport.set_protocol(self)
            self._look_at_body()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._take_watch_off()
        if self._is_broken:
            self._body.feed_eof()  # else aiohttp would wait for the rest, and log a fault
        if self.transport is not None and self.transport.get_protocol() is self:
            self.transport.set_protocol(self.http)

    @property
    def peer(self) -> str:
        """The client's address; empty where it has none, as at a Unix socket."""
        return _address_of(self.http.peername)

    @property
    def own_address(self) -> str:
        """The address that the client has connected to; empty at a Unix socket."""
        return _address_of(self.http.sockname)

    @property
    def encrypted(self) -> bool:
        return self.http.ssl_context is not None

    def release(self) -> None:
        """Let aiohttp drop a transport that was handed over and has ended."""
        self.transport = None
        self.http.connection_lost(None)

    # --- The loop's callbacks --------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self.http.data_received(data)
        self._look_at_body()

    def eof_received(self) -> bool:
        self.http.eof_received()
        return self.duplex is not None and self.duplex.half_closed()

    def pause_writing(self) -> None:
        self.http.pause_writing()
        if self.duplex is not None:
            self.duplex.writing_paused()
        elif self.transport is not None:
            call_later = asyncio.get_running_loop().call_later
            self._not_taken = StalledWrites(self.transport, call_later, RESPONSE_TAKEN_TIMEOUT)

    def resume_writing(self) -> None:
        self._take_watch_off()
        self.http.resume_writing()
        if self.duplex is not None:
            self.duplex.writing_resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._take_watch_off()
        self.transport = None
        self.http.connection_lost(exc)
        if self.duplex is not None:
            self.duplex.connection_lost()
        else:
            self.on_lost()

    def _look_at_body(self) -> None:
        """Tell the body's reader that its bytes are not valid HTTP; aiohttp does not.

        Before a body is whole no other request can follow. A queued message then is aiohttp's
        error.
        """
        if not self._is_broken and self.http._messages and not self._body.is_eof():  # noqa: SLF001 it is said nowhere else
            self._is_broken = True
            self._body.set_exception(web.RequestPayloadError("not valid HTTP/1.1"))

    def _take_watch_off(self) -> None:
        if self._not_taken is not None:
            self._not_taken.cancel()
            self._not_taken = None


def _address_of(name: object) -> str:
    return str(name[0]) if isinstance(name, tuple) else ""
