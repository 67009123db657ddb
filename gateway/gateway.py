"""The gateway: its core, the services that install themselves into it, its start and its end.

The core serves streams: HTTP, access, streams and the fleet, behind ports of its own or behind
another server. Each further API is a folder of :mod:`partway.gateway.apis`, and is imported if the
settings name it.
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
    """The source of exchanges for a gateway's dispatcher.

    The gateway calls the methods once each, in the order of this class.
    """

    async def open(self) -> None:
        """Bring exchanges from now on."""

    def announce_end(self) -> None:
        """Tell clients to open nothing more: the gateway drains."""

    def close(self) -> None:
        """Bring no new exchanges; those under way go on."""

    async def shutdown(self, timeout: float) -> None:
        """End the exchanges still under way, within so many seconds."""


class Gateway:
    """One gateway process.

    It owns its front and the fleet from :meth:`start` to the end of :meth:`drain`, and every stream
    in between.

    Attributes:
        store: keeps the objects that are made while the gateway runs.
        data: the folder of its data; None to keep nothing.
        kept_out: paths of this machine that callers must not name.
        wall_clock: returns epoch seconds.
        authenticator: finds out the sender of a request and the sender's permissions.
        streams: the open streams; their metrics' registry is the gateway's.
        model_data_refusal: says why the maker of a model may not read model data at a place; empty
            if it may. The service that knows makers sets it.
        endpoints: all endpoints, for the gateway's user: the fleet, unless a service knows more.
        answer_deployments: answers the operator's requests for deployments; None if no service
            makes any.
        pending_endpoints: endpoints that will run and are not in the fleet yet; set by the service
            that knows them.
        printing: functions that return the status of further instances with logs.
        process_metrics: metrics of the process, the version, the limits and the certificate.
        disk_recovery: repeats steps that the disk has refused at the start.
        status: whether the gateway takes requests.
        routes: the routes; the first one that fits a request answers it.
        end_has_failed: whether a service has failed during the drain.
        dispatcher: answers the exchanges of the front.
        ports: the front of a gateway that listens itself; None before its start.

    Args:
        tls: the TLS context of the TLS port; None without such a port, or if
            :meth:`listen_with_tls` opens it later.
        wall_clock: returns epoch seconds, for signatures.
        further_routes: routes between the gateway's own and those of services.
        dialler: opens every stream's connection to its container.
        data: where logs of instances and model data are kept; None to keep none.
        store: the caller closes it after :meth:`drain`. None to keep everything in memory only.
        kept_out: further paths that callers must not name, besides those in the settings and
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
        self.router = Router()
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
        self.bidirectional = BidirectionalStream(
            self.router, self.streams, wall_clock, dialler, self.arns
        )
        self._services: dict[Callable[[Gateway], Service], Service] = {}
        off = self._install_apis()
        self.routes: tuple[Route, ...] = (
            *self.status.routes,
            *self.bidirectional.routes,
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

    def described(self) -> Iterable[EndpointStatus]:
        """Yield the status of all endpoints whose instances have logs."""
        yield from self.endpoints.describe()
        for describe in self.printing:
            yield from describe()

    def _forget_others(self, endpoints: Collection[str]) -> None:
        self.streams.metrics.keep_only(endpoints)
        self._fleet_metrics.keep_only(endpoints)
        call_each(self.services, lambda each: each.keep_only(endpoints))

    # --- The start -------------------------------------------------------------------------------

    async def start(self) -> Listening:
        """Listen on the addresses of the settings, and begin to launch the endpoints' containers.

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
        """Take exchanges from a front, and begin to launch the endpoints' containers.

        Attached containers are in service from here on, launched ones when they answer their pings.

        Raises:
            Exception: an error of the front's ``open``.
            StoreError: the store cannot be read.
            DataDirectoryError: another gateway has taken the data directory.
        """
        self._front = front
        endpoints = self.settings.endpoints
        try:
            await self._attempt_disk_steps()
            self.fleet.start(each for each in endpoints if each.is_attached)
            await self.fleet.settled(SETTLING_TIMEOUT)
            # The others begin once the front is open; until then the gateway is not ready.
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

    # --- The drain -------------------------------------------------------------------------------

    def hasten(self) -> None:
        """Cut the drain short: a second signal."""
        self.streams.hasten()
        call_each(self.services, lambda each: each.hasten())
        self.fleet.hasten()

    async def drain(self) -> None:
        """Stop: refuse new work, let open work end or end it, then close everything.

        Connections are still accepted meanwhile, so that clients get a 503 and go elsewhere; HTTP/2
        connections get GOAWAY at once. Streams and requests have ``shutdown_grace`` seconds to end
        by themselves. Then requests are broken off, and streams are ended over ``shutdown_spread``.
        All this takes at most these two and ``shutdown_hard`` together. Then every launched
        instance is stopped, within its ``stop_timeout``.
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
        """Await a part of a service's end; a fault does not stop the rest."""
        try:
            await work
        except Exception:  # anything: no part of the gateway may be left behind
            self.end_has_failed = True
            log.exception(has_failed(service))


def _own_files(settings: Settings, data: DataDirectory | None) -> Iterable[Path]:
    """Return the paths with secrets that the gateway reads or keeps."""
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
