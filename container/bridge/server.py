"""The bridge's side toward the platform: ``/ping``, streams, and the end (section 1.1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from partway.container.activity import Activity
from partway.container.bridge.credential_echo import shows_credential
from partway.container.bridge.dialling import UpstreamDialler, UpstreamFailed
from partway.container.bridge.health import is_healthy
from partway.container.bridge.program import ProgramEnded, UpstreamProgram
from partway.container.bridge.settings import BridgeSettings, ServerUrl
from partway.container.bridge.stream import STREAM_TIMES, BridgedStream, StreamTimes
from partway.container.errors import CannotServe
from partway.container.health import Health
from partway.container.limits import (
    ACCEPT_BACKLOG,
    CANCEL_GRACE,
    MAX_RUNNING,
    PLATFORM_PROBES,
    PLATFORM_SILENCE,
    UNLOAD_GRACE,
    UPSTREAM_START_CHECK,
)
from partway.container.serving.exchange import TEXT, RuntimeExchange
from partway.container.serving.platform_requests import PING, answer_ping, check_stream, request_id
from partway.container.serving.server import ExchangeServer
from partway.container.shutdown import Shutdown, ShutdownTimes
from partway.log_lines import LogLine
from partway.protocol.connections.tcp import watch_by_tcp
from partway.protocol.http.targets import QUERY
from partway.protocol.limits import LOGGED_CHARACTERS
from partway.protocol.websocket.handshake import (
    AFTER_ANSWER,
    CLOSE_HEADER,
    UpgradeError,
    is_upgrade,
    tokens,
    upgrade_headers,
)

_log = logging.getLogger("partway.container.bridge")

_TIMES = ShutdownTimes()

#: Headers of the platform that the upstream gets begin with this (clause 1.6-1).
_PLATFORM: Final = "x-amzn-"


class BridgeServer:
    """A bridge on a TCP port, from :meth:`start` to :meth:`stopped`.

    It ends by the rules of :class:`~partway.container.shutdown.Shutdown`. Its program, if it has
    one, gets SIGTERM after all streams have ended.

    Args:
        port: the TCP port; 0 takes a free one.
        times: the time limits of the shutdown's parts.
        dialler: opens streams at the upstream.
    """

    def __init__(
        self,
        settings: BridgeSettings,
        host: str = "127.0.0.1",
        port: int = 0,
        times: ShutdownTimes = _TIMES,
        stream_times: StreamTimes = STREAM_TIMES,
        dialler: UpstreamDialler | None = None,
    ) -> None:
        self._settings = settings
        self._host = host
        self._port = port
        self._times = times
        self._stream_times = stream_times
        self._dialler = dialler or UpstreamDialler()
        self._program = UpstreamProgram(settings.program) if settings.program else None
        self._health = Health(
            partial(is_healthy, settings.health), subject="upstream", check="health check"
        )
        self._health.set_loaded()
        self._is_up = False
        unready = "the upstream is not up yet"
        self.activity = Activity(MAX_RUNNING, lambda: None if self._is_up else unready)
        self._http = ExchangeServer(self._handle)
        self._shutdown = Shutdown(self.activity, times)
        self._listener: asyncio.Server | None = None
        self._over_at = 0.0

    # --- The life of the server ------------------------------------------------------------------

    async def start(self) -> int:
        """Listen, and return the port. /ping answers 503 until the upstream is up.

        Raises:
            OSError: the address is taken, or does not belong to this machine.
        """
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._http.protocol, self._host, self._port, backlog=ACCEPT_BACKLOG
        )
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def load(self) -> None:
        """Start the program, and wait until the upstream is up; the platform limits the wait.

        The call returns early if the server is stopped.

        Raises:
            CannotServe: the program cannot be started, or has ended.
        """
        if self._program is not None:
            self._program.start()
        try:
            await self._shutdown.unless_stopped(self._unless_program_ends(self._until_up))
        except ProgramEnded as error:
            url = self._settings.upstream
            raise CannotServe(f"{error}, before the upstream {url} was up") from error

    def stop(self) -> None:
        """Begin to shut down; called again, hasten. A signal handler may call this."""
        self._shutdown.stop()

    async def stopped(self) -> None:
        """Wait for :meth:`stop`, then complete the shutdown.

        Raises:
            CannotServe: the program has ended by itself; the shutdown is complete.
        """
        ended: ProgramEnded | None = None
        try:
            try:
                await self._unless_program_ends(self._shutdown.begun)
            except ProgramEnded as error:
                _log.error(LogLine("the program has ended", reason=str(error)))
                ended = error
                for _ in range(2):  # nothing is left to wait for
                    self._shutdown.stop()
            await self._drain()
        finally:
            await self.aclose()
        if ended is not None:
            raise CannotServe(f"{ended}, and the bridge with it") from ended

    async def aclose(self) -> None:
        """End at once: connections are aborted, and the program is ended."""
        if self._listener is not None:
            self._listener.close()
        await self.activity.cancel(CANCEL_GRACE)
        await self._http.shutdown(CANCEL_GRACE)
        if self._program is not None:
            left = self._over_at - asyncio.get_running_loop().time()
            await self._program.stop(max(left, UNLOAD_GRACE))

    async def _drain(self) -> None:
        times, clock = self._times, asyncio.get_running_loop().time
        self._over_at = clock() + times.grace + times.spread + times.hard
        await self._shutdown.drain()
        if self._shutdown.hastened:
            self._over_at = min(self._over_at, clock() + times.hard)

    async def _until_up(self) -> None:
        began = asyncio.get_running_loop().time()
        url = str(self._settings.upstream)
        _log.info(LogLine("waiting for the upstream", upstream=url))
        while await self._health.trouble() is not None:  # noqa: ASYNC110 (no event tells of it)
            await asyncio.sleep(UPSTREAM_START_CHECK)
        self._is_up = True
        took = round(asyncio.get_running_loop().time() - began, 1)
        _log.info(LogLine("the upstream is up", upstream=url, seconds=took))

    async def _unless_program_ends(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Complete some work.

        Raises:
            ProgramEnded: the program has ended meanwhile; the work is cancelled.
        """
        if self._program is None:
            await work()
            return
        working = asyncio.create_task(work())
        ending = asyncio.create_task(self._program.ended())
        try:
            await asyncio.wait((working, ending), return_when=asyncio.FIRST_COMPLETED)
            if ending.done() and not working.done():
                raise ending.result()
            working.result()
        finally:
            for task in (working, ending):
                task.cancel()
            await asyncio.wait((working, ending))

    # --- Requests --------------------------------------------------------------------------------

    async def _handle(self, exchange: RuntimeExchange) -> None:
        path = exchange.path.removeprefix("/")
        asks = is_upgrade(exchange.headers)
        if self.activity.draining or asks:
            # The bytes after a refused upgrade may be frames; they must not be parsed as HTTP.
            exchange.closes = True
        if exchange.path == PING:
            await answer_ping(exchange, self.activity, self._health)
        elif asks or path in self._settings.paths:
            await self._stream(exchange, path)
        else:
            exchange.refuse_unread(
                404, f"this container bridges streams, not requests: use {PING}, or a WebSocket"
            )

    async def _stream(self, exchange: RuntimeExchange, path: str) -> None:
        try:
            key = check_stream(exchange, self.activity)
            url = self._url(path)
            with self.activity.counted():
                await self._bridge(exchange, key, url)
        except UpgradeError as error:
            exchange.refuse(error.status, error.reason, error.headers)
        except UpstreamFailed as failure:
            self._fail(exchange, url, failure)

    def _fail(self, exchange: RuntimeExchange, url: ServerUrl, failure: UpstreamFailed) -> None:
        """Answer a request whose stream the upstream did not open."""
        body, reason = failure.body, failure.detail or failure.reason
        if body and shows_credential(body, self._settings.authorization):
            body = None
            reason += "; its body is not passed on, since it shows PARTWAY_UPSTREAM_AUTHORIZATION"
        _log.warning(
            LogLine(
                "the upstream opened no stream",
                request_id=request_id(exchange.headers),
                upstream=str(url),
                status=failure.status,
                reason=reason[:LOGGED_CHARACTERS],
            )
        )
        if body:
            exchange.respond(failure.status, body, {"Content-Type": TEXT})
        else:
            exchange.refuse(failure.status, failure.reason)

    def _url(self, path: str) -> ServerUrl:
        url = self._settings.paths.get(path)
        if url is None:
            known = ", ".join(f"/{each}" for each in sorted(self._settings.paths))
            raise UpgradeError(404, f"this path takes no streams: it must be one of {known}")
        return url

    def _query(self, exchange: RuntimeExchange) -> str:
        """Return the client's query, which the upstream gets byte for byte."""
        query = exchange.query
        fine = QUERY.match(query)
        end = fine.end() if fine else 0
        if end < len(query):
            raise UpgradeError(
                400,
                f"the query has {query[end]!a} at place {end}; a query must be percent-encoded, as "
                "in %20 for a blank and %23 for # (RFC 3986)",
            )
        return query

    async def _bridge(self, exchange: RuntimeExchange, key: str, url: ServerUrl) -> None:
        upgraded = await self._dialler.open(
            url,
            self._query(exchange),
            self._headers(exchange),
            tokens(", ".join(exchange.headers.getall("Sec-WebSocket-Protocol", []))),
        )
        stream = BridgedStream(request_id(exchange.headers), exchange.path, self._stream_times)
        accepted = upgraded.accepted
        headers = upgrade_headers(key, accepted.subprotocol)
        if accepted.finishes_before_close:
            headers[CLOSE_HEADER] = AFTER_ANSWER
        exchange.switch(headers)
        connection = exchange.connection
        if connection.transport is not None:
            # A platform's machine may vanish, and then its pings stop too.
            watch_by_tcp(connection.transport, PLATFORM_SILENCE, PLATFORM_PROBES)
        try:
            with self.activity.open(stream):
                await stream.run(connection, upgraded)
        finally:
            connection.release()

    def _headers(self, exchange: RuntimeExchange) -> list[tuple[str, str]]:
        """Return the headers for the upstream: the platform's own, and the setting's."""
        headers = [
            (name, value)
            for name, value in exchange.raw_headers
            if name.lower().startswith(_PLATFORM)
        ]
        if self._settings.authorization:
            headers.append(("Authorization", self._settings.authorization))
        offers = exchange.headers.getall("Sec-WebSocket-Protocol", [])
        texts = (*offers, *(value for _, value in headers))
        if not all(text.isascii() and text.isprintable() for text in texts):
            raise UpgradeError(400, "subprotocols and X-Amzn headers must be printable ASCII")
        return headers
