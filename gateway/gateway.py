"""The gateway: its core, the services that install themselves into it, its start and its end.

The core is what streams need: HTTP, access, streams and the fleet, behind ports of its own or
behind another's server. Every API beside streams is a folder of :mod:`partway.gateway.apis`, and is
imported if the settings name it.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from partway.gateway.access.authentication import Authenticator, NoAuthentication
from partway.gateway.apis.manifests import MANIFESTS
from partway.gateway.apis.switched_off import routes_of_switched_off
from partway.gateway.arns import Arns
from partway.gateway.fleet.fleet import Fleet
from partway.gateway.fleet.launchers.leftover_containers import (
    LeftoverContainers,
    NoPendingEndpoints,
    PendingEndpoints,
)
from partway.gateway.fleet.metrics import FleetMetrics
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.fleet.routing.router import Router
from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.http.dispatcher import Dispatcher
from partway.gateway.http.log_throttle import RepeatedLines
from partway.gateway.http.peers import TrustedProxies
from partway.gateway.http.routes import Route
from partway.gateway.limits import SETTLING_TIMEOUT
from partway.gateway.metrics.process_metrics import ProcessMetrics
from partway.gateway.ports import Listening, Ports
from partway.gateway.quota import Quota, QuotaLimits
from partway.gateway.service import Service, call_each, has_failed
from partway.gateway.settings.settings import Settings
from partway.gateway.status_routes import Status
from partway.gateway.storage.disk_recovery import NEEDS_DISK, DiskRecovery, DiskStep
from partway.gateway.storage.file_threads import on_thread
from partway.gateway.storage.store.memory import MemoryStore
from partway.gateway.storage.store.store import Store
from partway.gateway.streams.bidirectional import BidirectionalStream
from partway.gateway.streams.container_leg import Dialler, dial_container
from partway.gateway.streams.registry import Streams
from partway.gateway.timing.clock import LoopClock

if TYPE_CHECKING:
    from partway.gateway.admin.operations import AdministeredFleet, AnswerOfDeployments
    from partway.gateway.storage.data_directory import DataDirectory

log = logging.getLogger("partway.gateway")

_S = TypeVar("_S", bound=Service)


class Front(Protocol):
    """What brings exchanges to a gateway's dispatcher.

    The gateway calls the methods once each, in the order of this class.
    """

    async def open(self) -> None:
        """Bring exchanges from now on."""

    def announce_end(self) -> None:
        """Tell clients to open nothing more: the gateway drains."""

    def close(self) -> None:
        """Bring nothing new; what is under way goes on."""

    async def shutdown(self, timeout: float) -> None:
        """End what is still under way, within so many seconds."""


class Gateway:
    """One gateway process.

    Owns its front and the fleet from :meth:`start` to the end of :meth:`drain`, and every stream in
    between.

    Attributes:
        settings: all settings of the gateway.
        store: where services write down what is made while the gateway runs.
        data: the folder of what it keeps; None to keep nothing.
        kept_out: what no caller may name of this machine.
        clock: measures times.
        wall_clock: returns epoch seconds.
        arns: makes names.
        authenticator: says who asks, and what they may.
        streams: that are open; their metrics' registry is the gateway's.
        router: chooses instances.
        fleet: what runs.
        model_data_refusal: says why the maker of a model may not read a place of model data, and
            nothing if it may; the service that knows makers puts it here.
        endpoints: all that there are, for the gateway's user; the fleet, unless a service knows
            more of them.
        answer_deployments: answers requests of the gateway's operator for deployments; None if no
            service makes any.
        pending_endpoints: endpoints that are to run and are not in the fleet yet; the service that
            knows any puts itself here.
        printing: functions that say how further instances are that print, as logs know them.
        process_metrics: of the process, the version, the limits and the certificate.
        disk_recovery: repeats what the disk has refused at the start.
        status: whether the gateway takes requests.
        routes: what is answered; the first that fits a request answers it.
        end_has_failed: whether a service has failed on the way down.
        dispatcher: answers the exchanges that the front brings.
        ports: the front of a gateway that listens itself; None before its start.

    Args:
        settings: all settings of the gateway.
        tls: the TLS context of the TLS port; None without such a port, or where
            :meth:`listen_with_tls` opens it later.
        wall_clock: returns epoch seconds, for signatures.
        further_routes: routes besides the gateway's own, which go before those of services.
        dialler: opens every stream's connection with its container.
        data: where logs of instances and model data are kept; None to keep none.
        store: the caller closes it after :meth:`drain`. None to keep all in memory alone.
        kept_out: what no caller may name of this machine, beside what the settings name and
            ``data``.

    Raises:
        AuthenticatorError: the file of principals cannot be read, or is malformed.
    """

    def __init__(
        self,
        settings: Settings,
        tls: ssl.SSLContext | None = None,
        wall_clock: Callable[[], float] = time.time,
        further_routes: tuple[Route, ...] = (),
        dialler: Dialler = dial_container,
        data: DataDirectory | None = None,
        store: Store | None = None,
        kept_out: Iterable[Path] = (),
    ) -> None:
        self.settings = settings
        self.store = MemoryStore() if store is None else store
        self.data = data
        self.kept_out = (*kept_out, *_own_files(settings, data))
        self.clock = LoopClock()
        self.wall_clock = wall_clock
        self.arns = Arns(settings.region, settings.account)
        self.authenticator = _authenticator(settings, self.arns, wall_clock)
        self.streams = Streams(settings.max_streams, per_principal=settings.streams_per_principal)
        metrics = self.streams.metrics
        self.model_data_refusal: Callable[[str, str], str] = lambda *_: (
            "there are no principals here"
        )
        self._provisions = Provisions(
            self.clock,
            data,
            settings.model_data_quota,
            lambda *launched: self._fleet_metrics.launched(*launched),
            lambda maker, location: self.model_data_refusal(maker, location),
        )
        self.means: Final = self._provisions.means
        self.router = Router(wall_clock=wall_clock)
        self.fleet = Fleet(self.router, self.means)
        self.fleet.on_end = self._forget_others
        self._fleet_metrics = FleetMetrics(self.fleet.describe, metrics.registry)
        self._leftovers = LeftoverContainers(self.fleet, self._provisions)
        self.endpoints: AdministeredFleet = self.fleet
        self.answer_deployments: AnswerOfDeployments | None = None
        self.pending_endpoints: PendingEndpoints = NoPendingEndpoints()
        self.printing: list[Callable[[], Iterable[EndpointStatus]]] = []
        self.process_metrics = ProcessMetrics(metrics.registry, settings.limits)
        self.disk_recovery = DiskRecovery(Path() if data is None else data.path, self.clock)
        self.status = Status(self.streams, lambda: self.fleet.is_ready)
        self._services: dict[Callable[[Gateway], Service], Service] = {}
        off = self._install_apis()
        self.routes: tuple[Route, ...] = (
            *self.status.routes,
            *BidirectionalStream(self.router, self.streams, wall_clock, dialler, self.arns).routes,
            *further_routes,
            *off,
            *(route for each in self._services.values() for route in each.routes),
        )
        self.end_has_failed = False
        self.dispatcher = Dispatcher(
            self.routes,
            self.authenticator,
            self.arns,
            settings.allow_origins,
            metrics.refused,
            TrustedProxies(settings.trusted_proxies),
            Quota(QuotaLimits(settings.max_gathered_bytes, settings.gathered_bytes_of_one)),
        )
        self._tls = tls
        self.ports: Ports | None = None
        self._front: Front
        self._repeated = RepeatedLines(self.clock)

    def _install_apis(self) -> tuple[Route, ...]:
        """Import the APIs that are served, and return the routes of all others."""
        apis = self.settings.apis
        for manifest in MANIFESTS:
            if manifest.name in apis:
                importlib.import_module(manifest.module).install(self)
        off = (each for each in reversed(MANIFESTS) if each.name not in apis)
        return tuple(route for each in off for route in routes_of_switched_off(each))

    # --- Services --------------------------------------------------------------------------------

    def service(self, make: Callable[[Gateway], _S]) -> _S:
        """The service that a function or a class makes; it is made when it is first asked for.

        While it is made it asks for those that it needs, which are started before it.
        """
        if make not in self._services:
            made = make(self)
            self._services[make] = made
        return cast("_S", self._services[make])

    @property
    def services(self) -> Collection[Service]:
        """All of them, each behind those that it needs."""
        return self._services.values()

    def described(self) -> Iterable[EndpointStatus]:
        """All whose instances print, as logs know them."""
        yield from self.endpoints.describe()
        for describe in self.printing:
            yield from describe()

    def _forget_others(self, endpoints: Collection[str]) -> None:
        self.streams.metrics.keep_only(endpoints)
        self._fleet_metrics.keep_only(endpoints)
        call_each(self.services, lambda each: each.keep_only(endpoints))

    # --- The way up ------------------------------------------------------------------------------

    async def start(self) -> Listening:
        """Listen on the addresses of the settings, and begin to launch what the endpoints need.

        Raises:
            OSError: an address cannot be listened on; the error's ``filename`` is host and port.
            StoreError: as :meth:`start_behind`.
            DataDirectoryError: as :meth:`start_behind`.
        """
        metrics = self.streams.metrics
        self.ports = Ports(self.settings, self.dispatcher, metrics, self.clock, self._tls)
        await self.start_behind(self.ports)
        return self.ports.listening

    async def start_behind(self, front: Front) -> None:
        """Take exchanges from a front, and begin to launch what the endpoints need.

        Containers that somebody else runs are in service from here on, what is launched when it
        answers its pings.

        Raises:
            Exception: what the front's ``open`` raises.
            StoreError: what was written down cannot be read.
            DataDirectoryError: another gateway has taken the data directory.
        """
        self._front = front
        endpoints = self.settings.endpoints
        try:
            await self._attempt_disk_steps()
            self.fleet.start(each for each in endpoints if each.is_attached)
            await self.fleet.settled(SETTLING_TIMEOUT)
            # The others begin once the front is open; until then it is not ready.
            self.fleet.is_ready = all(each.is_attached for each in endpoints)
            for service in self.services:
                await service.start()
            await front.open()
        except BaseException:
            await self._undo_start()
            raise
        self._repeated.open()
        self.fleet.start(each for each in endpoints if not each.is_attached)
        call_each(self.services, lambda each: each.on_listening())
        self._leftovers.remove(self.pending_endpoints)

    async def _attempt_disk_steps(self) -> None:
        if self.data is not None:
            await self.disk_recovery.attempt(DiskStep(NEEDS_DISK, self._complete_data))
        for service in self.services:
            for step in service.disk_steps():
                await self.disk_recovery.attempt(step)

    async def _undo_start(self) -> None:
        """End all that a start has begun before it failed."""
        try:
            for service in self.services:
                await self._end(service, service.drain(0))
            await self._stop_fleet()
        finally:
            await self._close_services()

    async def _complete_data(self) -> None:
        assert self.data is not None, "else there is no such step"
        data = self.data
        if data.refusal is not None:
            await on_thread(self.clock, lambda _: data.complete())

    async def listen_with_tls(self, context: ssl.SSLContext) -> int:
        """Listen on the TLS port of the settings, and return its number.

        Raises:
            OSError: as :meth:`start`.
        """
        assert self.ports is not None, "the gateway listens"
        return await self.ports.open_tls(context)

    # --- The way down ----------------------------------------------------------------------------

    def hasten(self) -> None:
        """Cut the drain short: a second signal."""
        self.streams.hasten()
        call_each(self.services, lambda each: each.hasten())
        self.fleet.hasten()

    async def drain(self) -> None:
        """Stop: not ready, nothing new, what is open finishes or is ended, then all is closed.

        Until then connections are still accepted, so that who asks is told 503 and goes elsewhere;
        HTTP/2 connections are told GOAWAY at once. Streams and requests have ``shutdown_grace``
        seconds to end by themselves; then requests are broken off, and streams are ended over
        ``shutdown_spread``. All this takes no longer than these two and ``shutdown_hard`` together.
        Then every instance that was launched is stopped, within its ``stop_timeout``.
        """
        try:
            await self._drain()
        finally:
            self._repeated.close()
        log.info("drained")

    async def _drain(self) -> None:
        settings = self.settings
        self.fleet.take_no_changes()
        await self.disk_recovery.aclose()
        for service in self.services:
            await self._end(service, service.close_to_new())
        self._front.announce_end()
        async with asyncio.TaskGroup() as draining:
            draining.create_task(
                self.streams.drain(settings.shutdown_grace, settings.shutdown_spread)
            )
            for service in self.services:
                draining.create_task(self._end(service, service.drain(settings.shutdown_grace)))
        self._front.close()
        try:
            async with asyncio.TaskGroup() as ending:
                ending.create_task(self._front.shutdown(settings.shutdown_hard))
                ending.create_task(self._stop_fleet())
        finally:
            await self._close_services()

    async def _stop_fleet(self) -> None:
        try:
            stopping = (self._end(each, each.stop()) for each in self.services)
            await asyncio.gather(*stopping, self.fleet.stop())
        finally:
            await self._leftovers.aclose()
            await self._provisions.aclose()

    async def _close_services(self) -> None:
        for service in reversed(self._services.values()):
            await self._end(service, service.aclose())

    async def _end(self, service: Service, work: Awaitable[None]) -> None:
        """Await a part of a service's end; after a fault everything else ends all the same."""
        try:
            await work
        except Exception:  # anything, since nothing of the gateway may be left behind
            self.end_has_failed = True
            log.exception(has_failed(service))


def _own_files(settings: Settings, data: DataDirectory | None) -> Iterable[Path]:
    """What the gateway reads and keeps that holds secrets."""
    files = (settings.principals, settings.tls_key, None if data is None else data.path)
    return [each for each in files if each is not None]


def _authenticator(
    settings: Settings, arns: Arns, wall_clock: Callable[[], float]
) -> Authenticator:
    if settings.auth == "none":
        return NoAuthentication()
    from partway.gateway.access.principals import Principals
    from partway.gateway.access.sigv4_authentication import SigV4Authentication

    assert settings.principals is not None, "the settings have been checked"
    return SigV4Authentication(Principals(settings.principals, wall_clock), arns, wall_clock)
