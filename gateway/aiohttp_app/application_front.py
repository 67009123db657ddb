"""The front of a gateway in an aiohttp application: its server brings the exchanges."""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web

from partway.gateway.access.loopback_requests import is_own_machine
from partway.gateway.aiohttp_app.client_connection import ClientConnection
from partway.gateway.aiohttp_app.exchange import AiohttpExchange
from partway.gateway.aiohttp_app.mount import Mount, MountedTarget
from partway.gateway.gateway import Gateway
from partway.gateway.limits import HANDLER_CANCEL_TIMEOUT
from partway.log_lines import LogLine
from partway.protocol.errors import (
    AccessDenied,
    ApiError,
    NotFound,
    ServiceUnavailable,
    UnsupportedCoding,
)

log = logging.getLogger("partway.aiohttp")


class ApplicationFront:
    """Hands requests of an application to a gateway, from the gateway's start to its end.

    Each exchange has a task of its own, so that a stream reaches its end even where aiohttp cancels
    the handler.
    """

    def __init__(self, gateway: Gateway, mount: Mount) -> None:
        self._dispatch = gateway.dispatcher
        self._on_refused = gateway.streams.metrics.refused
        self._mount = mount
        #: Whether only clients of this machine are answered, because clients are not authenticated.
        settings = gateway.settings
        self._is_for_neighbours = settings.auth == "none" and not settings.insecure
        self._is_closed = True
        self._under_way: set[asyncio.Task[None]] = set()

    # --- Front -----------------------------------------------------------------------------------

    async def open(self) -> None:
        self._is_closed = False

    def announce_end(self) -> None:
        """Do nothing: aiohttp itself closes idle connections now, and the others when answered."""

    def hasten(self) -> None:
        """Do nothing: the streams and requests of this process are hastened."""

    async def drain(self) -> None:
        """Return at once: everything that is under way belongs to this process."""

    def close(self) -> None:
        self._is_closed = True

    async def shutdown(self, timeout: float) -> None:
        """Wait for requests under way; cancel them after half of the time."""
        if not self._under_way:
            return
        _, late = await asyncio.wait(self._under_way, timeout=timeout / 2)
        for task in late:
            task.cancel()
        if late and (await asyncio.wait(late, timeout=timeout / 2))[1]:
            line = "requests did not end after they were broken off"
            log.error(LogLine(line, requests=len(self._under_way)))

    # --- Requests --------------------------------------------------------------------------------

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, as aiohttp's handlers do; return when its operation is over."""
        with ClientConnection(request) as connection:
            exchange, refusal = self._exchange(request, connection)
            if refusal is not None:
                self._refuse(exchange, refusal)
            else:
                await self._operation(exchange)
            return exchange.response()

    def _exchange(
        self, request: web.Request, connection: ClientConnection
    ) -> tuple[AiohttpExchange, ApiError | None]:
        """Make the exchange, and the error if it must be answered before the gateway sees it."""
        try:
            target = self._mount.target_of(request)
        except NotFound as error:
            return AiohttpExchange(request, MountedTarget("/", "/", ""), connection), error
        return AiohttpExchange(request, target, connection), self._refusal(request, connection)

    def _refusal(self, request: web.Request, connection: ClientConnection) -> ApiError | None:
        if self._is_closed:
            return ServiceUnavailable("the gateway is draining; try again, or on another gateway")
        own_address = connection.own_address
        if self._is_for_neighbours and own_address and not is_own_machine(own_address):
            return AccessDenied(
                "without authentication the gateway answers only clients on this machine; its "
                "operator must set auth to sigv4, or to insecure to answer other clients"
            )
        if getattr(request.content, "total_compressed_bytes", None) is not None:
            return UnsupportedCoding(
                "the server has decoded the body's Content-Encoding, but a signature covers the "
                "encoded body; send the body without a coding, or serve the application with "
                "auto_decompress=False",
                ("identity",),
            )
        return None

    def _refuse(self, exchange: AiohttpExchange, error: ApiError) -> None:
        self._on_refused(error.name)
        log.info(LogLine("refused", peer=exchange.peer, error=error.name, reason=error.message))
        exchange.fail(error)

    async def _operation(self, exchange: AiohttpExchange) -> None:
        """Let the gateway answer, until the operation's end or until the client leaves.

        An application may cancel the handler of a client that is still there, and then answer
        itself. The operation neither reads nor sends beside that answer.
        """
        task = asyncio.create_task(self._answered(exchange), name="request of an application")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        exchange.answered_by(task.cancel)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            if exchange.client_is_gone:
                exchange.client_left()
            else:
                await self._break_off(exchange, task)
            raise

    async def _break_off(self, exchange: AiohttpExchange, task: asyncio.Task[None]) -> None:
        """End the operation of a cancelled handler; cut the connection if it does not end."""
        exchange.break_off()
        try:
            await asyncio.wait((task,), timeout=HANDLER_CANCEL_TIMEOUT)
        finally:
            if not task.done():
                exchange.abort()

    async def _answered(self, exchange: AiohttpExchange) -> None:
        try:
            await self._dispatch(exchange)
        except Exception:
            log.exception("the answer to a request has failed")
            if exchange.answered:
                exchange.abort()
        finally:
            exchange.let_go()
