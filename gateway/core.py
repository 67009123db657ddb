"""The core of a gateway: HTTP, access, streams, the router, and the services that use them.

It has no fleet: another part tells its router where instances are.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Final, Protocol, TypeVar, cast

from partway.gateway.access.authentication import Authenticator, NoAuthentication
from partway.gateway.apis.manifest import Manifest
from partway.gateway.apis.manifests import MANIFESTS
from partway.gateway.arns import Arns
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.routing.router import Router
from partway.gateway.http.dispatcher import Dispatcher
from partway.gateway.http.log_throttle import RepeatedLines
from partway.gateway.http.peers import TrustedProxies
from partway.gateway.http.routes import Route
from partway.gateway.metrics.process_metrics import ProcessMetrics
from partway.gateway.quota import LiveGateways, NamedCounts, Quota, QuotaLimits
from partway.gateway.service import Service, call_each, has_failed
from partway.gateway.settings.settings import Settings
from partway.gateway.status_routes import Status
from partway.gateway.streams.bidirectional import BidirectionalStream
from partway.gateway.streams.container_leg import Dialler, dial_container
from partway.gateway.streams.registry import Streams
from partway.gateway.timing.clock import LoopClock

log = logging.getLogger("partway.gateway")

_S = TypeVar("_S", bound=Service)


class Front(Protocol):
    """The source of exchanges for a gateway's dispatcher.

    The gateway calls the methods once each, in the order of this class; :meth:`hasten` never, or
    several times.
    """

    async def open(self) -> None:
        """Bring exchanges from now on."""

    def hasten(self) -> None:
        """Cut the drain short: a second signal. It may come at any time from then on."""

    def announce_end(self) -> None:
        """Tell clients to open nothing more: the gateway drains."""

    async def drain(self) -> None:
        """Return once other processes of the gateway have nothing under way."""

    def close(self) -> None:
        """Bring no new exchanges; those under way go on."""

    async def shutdown(self, timeout: float) -> None:
        """End the exchanges still under way, within so many seconds."""


class Core:
    """The relaying part of one process, from :meth:`_compose` to the end of :meth:`drain`.

    Attributes:
        wall_clock: returns epoch seconds.
        authenticator: finds out the sender of a request and the sender's permissions.
        gateways: those among which the shares of principals are divided.
        streams: the open streams; their metrics' registry is the process's.
        router: chooses an instance for each stream and request.
        prediction_of: returns an endpoint's prediction policy, by the endpoint's name.
        process_metrics: metrics of the process, the version, the limits and the certificate.
        status: whether streams and requests are taken.
        routes: the routes; the first one that fits a request answers it.
        end_has_failed: whether a service has failed during the drain.
        dispatcher: answers the exchanges of the front.

    Args:
        is_ready: whether the endpoints have come up, or the wait for them is over.
        wall_clock: returns epoch seconds, for signatures.
        dialler: opens every stream's connection to its container.
        counts: shared with the gateway's other processes; None for the only process.

    Raises:
        AuthenticatorError: the file of principals cannot be read, or is malformed.
    """

    def __init__(
        self,
        settings: Settings,
        is_ready: Callable[[], bool],
        prediction_of: Callable[[str], PredictionPolicy],
        wall_clock: Callable[[], float] = time.time,
        dialler: Dialler = dial_container,
        counts: NamedCounts | None = None,
    ) -> None:
        self.settings = settings
        self.counts = counts
        self.clock = LoopClock()
        self.wall_clock = wall_clock
        self.arns = Arns(settings.region, settings.account)
        self.authenticator = _authenticator(settings, self.arns, wall_clock)
        self.gateways: Final = LiveGateways()
        self.streams = Streams(
            settings.max_streams,
            per_principal=settings.streams_per_principal,
            counts=counts,
            gateways=self.gateways,
        )
        metrics = self.streams.metrics
        self.router: Final = Router(counts=counts)
        self.prediction_of = prediction_of
        self.process_metrics = ProcessMetrics(metrics.registry, settings.limits)
        self.status = Status(self.streams, is_ready)
        self.bidirectional = BidirectionalStream(
            self.router, self.streams, wall_clock, dialler, self.arns
        )
        self.end_has_failed = False
        self._services: dict[Callable[..., Service], Service] = {}
        self._front: Front | None = None
        self._repeated = RepeatedLines(self.clock)

    def _compose(
        self,
        apis: Collection[str],
        of_others: Callable[[Manifest], Iterator[Route]],
        further_routes: tuple[Route, ...] = (),
    ) -> None:
        """Import and install the APIs, and make the routes and their dispatcher.

        Args:
            apis: the names of the APIs to install.
            of_others: makes the routes of an API that is not installed.
            further_routes: routes between the core's own and those of services.
        """
        for manifest in MANIFESTS:
            if manifest.name in apis:
                importlib.import_module(manifest.module).install(self)
        others = (each for each in reversed(MANIFESTS) if each.name not in apis)
        settings = self.settings
        self.routes = (
            *self._status_routes(),
            *self.bidirectional.routes,
            *further_routes,
            *(route for each in others for route in of_others(each)),
            *(route for each in self._services.values() for route in each.routes),
        )
        self.dispatcher = Dispatcher(
            self.routes,
            self.authenticator,
            self.arns,
            settings.allow_origins,
            self.streams.metrics.refused,
            TrustedProxies(settings.trusted_proxies),
            Quota(QuotaLimits(settings.max_gathered_bytes, settings.gathered_bytes_of_one)),
        )

    def _status_routes(self) -> tuple[Route, ...]:
        return self.status.routes

    # --- Services --------------------------------------------------------------------------------

    def service(self, make: Callable[..., _S]) -> _S:
        """Return the service that a function or a class makes, once, on the first call.

        While it is made it asks for the services that it needs, which are started before it.
        """
        if make not in self._services:
            made = make(self)
            self._services[make] = made
        return cast("_S", self._services[make])

    @property
    def services(self) -> Collection[Service]:
        """All services, each after those that it needs."""
        return self._services.values()

    def keep_only(self, endpoints: Collection[str]) -> None:
        """Drop the metrics of all endpoints but these, the only ones left."""
        self.streams.metrics.keep_only(endpoints)
        call_each(self.services, lambda each: each.keep_only(endpoints))

    # --- The start -------------------------------------------------------------------------------

    async def _open(self, front: Front) -> None:
        """Start the services, and take exchanges from a front.

        Raises:
            Exception: an error of the front's ``open``, or of a service's start.
        """
        self._front = front
        for service in self.services:
            await service.start()
        await front.open()
        self._repeated.open()

    # --- The drain -------------------------------------------------------------------------------

    def hasten(self) -> None:
        """Cut the drain short: a second signal."""
        self.streams.hasten()
        call_each(self.services, lambda each: each.hasten())
        if self._front is not None:
            self._front.hasten()

    async def drain(self) -> None:
        """Stop: refuse new work, let open work end or end it, then close everything.

        Connections are still accepted meanwhile, so that clients get a 503 and go elsewhere; HTTP/2
        connections get GOAWAY at once. Streams and requests have ``shutdown_grace`` seconds to end
        by themselves. Then requests are broken off, and streams are ended over ``shutdown_spread``.
        All this takes at most these two and ``shutdown_hard`` together.
        """
        try:
            await self._drain()
        finally:
            self._repeated.close()
        log.info("drained")

    async def _drain(self) -> None:
        settings, front = self.settings, self._front
        assert front is not None, "it has started"
        for service in self.services:
            await self._end(service, service.close_to_new())
        front.announce_end()
        async with asyncio.TaskGroup() as draining:
            draining.create_task(
                self.streams.drain(settings.shutdown_grace, settings.shutdown_spread)
            )
            draining.create_task(front.drain())
            for service in self.services:
                draining.create_task(self._end(service, service.drain(settings.shutdown_grace)))
        front.close()
        try:
            async with asyncio.TaskGroup() as ending:
                ending.create_task(front.shutdown(settings.shutdown_hard))
                ending.create_task(self._stop())
        finally:
            await self._close_services()

    async def _stop(self) -> None:
        """Stop the work that uses instances."""
        await asyncio.gather(*(self._end(each, each.stop()) for each in self.services))

    async def _close_services(self) -> None:
        for service in reversed(self._services.values()):
            await self._end(service, service.aclose())

    async def _end(self, service: Service, work: Awaitable[None]) -> None:
        """Await a part of a service's end; a fault does not stop the rest."""
        try:
            await work
        except Exception:  # anything: no part of the gateway may be left behind
            self.end_has_failed = True
            log.exception(has_failed(service))


def _authenticator(
    settings: Settings, arns: Arns, wall_clock: Callable[[], float]
) -> Authenticator:
    if settings.auth == "none":
        return NoAuthentication()
    from partway.gateway.access.principals import Principals
    from partway.gateway.access.sigv4_authentication import SigV4Authentication

    assert settings.principals is not None, "the settings have been checked"
    return SigV4Authentication(Principals(settings.principals, wall_clock), arns, wall_clock)
