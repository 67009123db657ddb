"""The gateway: endpoints, the streams that are open, and the way down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gateway.fleet.endpoints import Endpoints
from gateway.metrics import Metrics
from gateway.operations.bidirectional import BidirectionalStream
from gateway.operations.status import Status
from gateway.serving import routes
from gateway.serving.exchange import Exchange
from gateway.serving.http1 import Http1Server
from gateway.serving.listener import Listener
from gateway.settings import Settings
from gateway.streams.session import Session
from protocol.errors import ApiError, InternalServerError, ServiceUnavailable

log = logging.getLogger("partway.gateway")
stream_log = logging.getLogger("partway.stream")


class Gateway:
    """One gateway process.

    Owns the listener from :meth:`start` to the end of :meth:`drain`, and every stream in between.

    Args:
        settings: the whole tree.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.endpoints = Endpoints(settings.endpoints)
        self.metrics = Metrics()
        self.draining = False
        self._opening: set[asyncio.Task[object]] = set()
        self._ending = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._hasten = asyncio.Event()
        self._http1 = Http1Server(self._dispatch)
        self._listener = Listener(self._http1, settings.max_connections)
        status = Status(self)
        self._routes = (
            routes.Route(frozenset({"GET", "HEAD"}), routes.HEALTHZ, status.healthz),
            routes.Route(frozenset({"GET", "HEAD"}), routes.READYZ, status.readyz),
            routes.Route(frozenset({"GET", "HEAD"}), routes.METRICS, status.metrics),
            routes.Route(
                frozenset({"GET", "POST"}), routes.BIDIRECTIONAL, BidirectionalStream(self)
            ),
        )

    async def start(self) -> tuple[str, int]:
        """Listen; returns host and real port.

        Raises:
            OSError: the address cannot be listened on.
        """
        return await self._listener.start(self.settings.host, self.settings.port)

    # --- Requests --------------------------------------------------------------------------------

    async def _dispatch(self, exchange: Exchange) -> None:
        try:
            operation, named = routes.find(self._routes, exchange.method, exchange.path)
            await operation(exchange, named)
        except ApiError as error:
            self._refuse(exchange, error)
        except ConnectionError:
            log.info("client left request_id=%s peer=%s", exchange.request_id, exchange.peer)
        except asyncio.CancelledError:
            log.info("client left request_id=%s peer=%s", exchange.request_id, exchange.peer)
            raise
        except Exception:
            log.exception("request failed request_id=%s", exchange.request_id)
            self._refuse(exchange, InternalServerError())

    def _refuse(self, exchange: Exchange, error: ApiError) -> None:
        """Answer with an API error; its one line in the log."""
        self.metrics.refused(error.name)
        log.info(
            "refused request_id=%s peer=%s status=%d error=%s: %s",
            exchange.request_id,
            exchange.peer,
            error.status,
            error.name,
            error.message,
        )
        if exchange.answered:
            exchange.abort()  # a second answer would be taken for the first one's content
        else:
            exchange.fail(error)

    # --- Streams ---------------------------------------------------------------------------------

    @contextmanager
    def opening(self) -> Iterator[None]:
        """The time in which a stream is being opened; it counts as one.

        Raises:
            ServiceUnavailable: full, or draining (clause 4-6).
        """
        if self.draining:
            raise _draining()
        if len(self._opening) + len(self.metrics.sessions) >= self.settings.max_streams:
            raise ServiceUnavailable(
                f"all {self.settings.max_streams} streams of this gateway are in use"
            )
        task = asyncio.current_task()
        assert task is not None, "a request is answered in a task"
        self._opening.add(task)
        self._idle.clear()
        try:
            yield
        except asyncio.CancelledError:
            if not self._ending:
                raise
            task.uncancel()
            raise _draining() from None
        finally:
            self._opening.discard(task)
            self._check_idle()

    def session_started(self, session: Session) -> None:
        """A stream is about to run."""
        self.metrics.started(session)

    def session_ended(self, session: Session) -> None:
        """A stream has ended; its one line in the log."""
        self.metrics.ended(session)
        self._check_idle()
        ending, ended_at = session.ending, session.ended_at
        assert ending is not None, "an ended session has its ending"
        assert ended_at is not None, "an ended session has its time"
        first = session.first_part_at
        stream_log.info(
            "stream ended endpoint=%s request_id=%s duration=%.3f parts_in=%d bytes_in=%d "
            "parts_out=%d bytes_out=%d first_part=%s cause=%s",
            session.endpoint,
            session.request_id,
            ended_at - session.started_at,
            session.from_client.parts,
            session.from_client.bytes,
            session.from_container.parts,
            session.from_container.bytes,
            "-" if first is None else f"{first - session.started_at:.4f}",
            ending.cause.value,
        )

    def _check_idle(self) -> None:
        if not self._opening and not self.metrics.sessions:
            self._idle.set()

    # --- The way down ----------------------------------------------------------------------------

    def hasten(self) -> None:
        """Cut the drain short: a second signal."""
        self._hasten.set()

    async def drain(self) -> None:
        """Stop: not ready, nothing new, streams finish or are ended, then everything is closed.

        Until then connections are still accepted, so that who asks is told 503 and goes elsewhere.
        Streams have ``shutdown_grace`` seconds to end by themselves; then those that are still
        being opened are refused, and the rest are ended one by one over ``shutdown_spread`` so
        that their clients do not all return at once. Bounded by grace, spread and
        ``shutdown_hard`` together.
        """
        self.draining = True
        settings = self.settings
        log.info("draining streams=%d", len(self.metrics.sessions))
        await self._wait_idle(settings.shutdown_grace)
        self._ending = True
        for task in self._opening:  # their containers have not answered, and need not any more
            task.cancel()
        left = list(self.metrics.sessions)
        for position, session in enumerate(left):
            if position:
                await self._pause(settings.shutdown_spread / len(left))
            session.drain()
        self._listener.stop()
        await self._http1.shutdown(settings.shutdown_hard / 2)  # it waits twice
        log.info("drained")

    async def _wait_idle(self, timeout: float) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (self._idle, self._hasten)]
        try:
            await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hasten.wait(), seconds)


def _draining() -> ServiceUnavailable:
    return ServiceUnavailable("the gateway is draining; another one may take the stream")
