"""The gateway: the core with a fleet, a store, and all APIs; its start and its end.

Each further API is a folder of :mod:`partway.gateway.apis`, and is imported if the settings name
it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from partway.gateway.apis.switched_off import routes_of_switched_off
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.core import Core, Front
from partway.gateway.fleet.fleet import Fleet
from partway.gateway.fleet.launchers.leftover_containers import (
    LeftoverContainers,
    NoPendingEndpoints,
    PendingEndpoints,
)
from partway.gateway.fleet.metrics import FleetMetrics
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.http.routes import Route
from partway.gateway.limits import SETTLING_TIMEOUT
from partway.gateway.ports import Listening, Ports
from partway.gateway.quota import NamedCounts
from partway.gateway.service import call_each
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.disk_recovery import NEEDS_DISK, DiskRecovery, DiskStep
from partway.gateway.storage.file_threads import on_thread
from partway.gateway.storage.store.memory import MemoryStore
from partway.gateway.storage.store.store import Store
from partway.gateway.streams.container_leg import Dialler, dial_container

if TYPE_CHECKING:
    from partway.gateway.admin.operations import AdministeredFleet, AnswerOfDeployments
    from partway.gateway.discovery.discovery import Discovery
    from partway.gateway.kept_state import KeptState
    from partway.gateway.storage.data_directory import DataDirectory


class Gateway(Core):
    """One gateway process.

    It owns its front and the fleet from :meth:`start` to the end of :meth:`drain`, and every stream
    in between.

    Attributes:
        store: keeps the objects that are made while the gateway runs.
        data: the folder of its data; None to keep nothing.
        kept_out: paths of this machine that callers must not name.
        model_data_refusal: says why the maker of a model may not read model data at a place; empty
            if it may. The service that knows makers sets it.
        endpoints: all endpoints, for the gateway's user: the fleet, unless a service knows more.
        answer_deployments: answers the operator's requests for deployments; None if no service
            makes any.
        pending_endpoints: endpoints that will run and are not in the fleet yet; set by the service
            that knows them.
        printing: functions that return the status of further instances with logs.
        disk_recovery: repeats steps that the disk has refused at the start.
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
        counts: shared with workers; None without any.
        kept: the state that outlives this process; None if everything ends with it.

    Raises:
        AuthenticatorError: the file of principals cannot be read, or is malformed.
        SettingsError: the settings want workers, and this process has none.
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
        counts: NamedCounts | None = None,
        kept: KeptState | None = None,
    ) -> None:
        if settings.workers > 1 and counts is None:
            raise SettingsError("workers must be 1: this gateway has one process alone")
        super().__init__(
            settings,
            lambda: self.fleet.is_ready,
            lambda name: self.fleet.prediction(name),
            wall_clock,
            dialler,
            counts,
        )
        self.store = MemoryStore() if store is None else store
        self.data = data
        self.kept_out = (*kept_out, *_own_files(settings, data))
        registry = self.streams.metrics.registry
        self.model_data_refusal: Callable[[str, str], str] = lambda *_: (
            "there are no principals here"
        )
        self._provisions = Provisions(
            self.clock,
            data,
            settings.model_data_quota,
            lambda *launched: self._fleet_metrics.launched(*launched),
            lambda maker, location: self.model_data_refusal(maker, location),
            kept,
        )
        self.means: Final = self._provisions.means
        self.fleet = Fleet(self.router, self.means, self._provisions.kept_instances)
        self.fleet.on_end = self.keep_only
        self.fleet.find_sources = lambda: self.service(_discovery).sources
        self._fleet_metrics = FleetMetrics(self.fleet.describe, registry)
        self._leftovers = LeftoverContainers(self.fleet, self._provisions)
        self.endpoints: AdministeredFleet = self.fleet
        self.answer_deployments: AnswerOfDeployments | None = None
        self.pending_endpoints: PendingEndpoints = NoPendingEndpoints()
        self.printing: list[Callable[[], Iterable[EndpointStatus]]] = []
        self.disk_recovery = DiskRecovery(Path() if data is None else data.path, self.clock)
        cluster = settings.cluster
        if any(each.is_discovered for each in settings.endpoints) or (
            cluster is not None and cluster.is_followed
        ):
            self.service(_discovery)
        self._compose(settings.apis, routes_of_switched_off, further_routes)
        self._tls = tls
        self.ports: Ports | None = None

    def described(self) -> Iterable[EndpointStatus]:
        """Yield the status of all endpoints whose instances have logs."""
        yield from self.endpoints.describe()
        for describe in self.printing:
            yield from describe()

    def keep_only(self, endpoints: Collection[str]) -> None:
        super().keep_only(endpoints)
        self._fleet_metrics.keep_only(endpoints)

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

    async def start_behind(self, front: Front, *, undoes_failure: bool = True) -> None:
        """Take exchanges from a front, and begin to launch the endpoints' containers.

        Attached containers are in service from here on, launched ones when they answer their pings.

        Args:
            undoes_failure: whether all that was started ends before an error is raised. It always
                does if the start is cancelled.

        Raises:
            Exception: an error of the front's ``open``.
            StoreError: the store cannot be read.
            DataDirectoryError: another gateway has taken the data directory.
        """
        endpoints = self.settings.endpoints
        try:
            await self._attempt_disk_steps()
            self.fleet.start(each for each in endpoints if each.is_attached)
            await self.fleet.settled(SETTLING_TIMEOUT)
            # The others begin once the front is open; until then the gateway is not ready.
            self.fleet.is_ready = all(each.is_attached for each in endpoints)
            await self._open(front)
        except BaseException as error:
            if undoes_failure or not isinstance(error, Exception):
                await self._undo_start()
            raise
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
            await self._stop()
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
        super().hasten()
        self.fleet.hasten()
        self._provisions.hasten()

    async def _drain(self) -> None:
        """Drain as the core does; every launched instance stops within its ``stop_timeout``."""
        self.fleet.take_no_changes()
        await self.disk_recovery.aclose()
        await super()._drain()

    async def _stop(self) -> None:
        try:
            await asyncio.gather(super()._stop(), self.fleet.stop())
        finally:
            await self._leftovers.aclose()
            await self._provisions.aclose()


def _discovery(gateway: Gateway) -> Discovery:
    from partway.gateway.discovery.discovery import Discovery

    registry = gateway.streams.metrics.registry
    parts = (gateway.settings, gateway.fleet, gateway.gateways, registry)
    return Discovery(*parts, gateway.clock, gateway.wall_clock)


def _own_files(settings: Settings, data: DataDirectory | None) -> Iterable[Path]:
    """Return the paths with secrets that the gateway reads or keeps."""
    files = (settings.principals, settings.tls_key, None if data is None else data.path)
    return [each for each in files if each is not None]
