"""A worker: the relaying core, with the parent's table and without a fleet."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator
from functools import partial

from prometheus_client.exposition import generate_latest

from partway.gateway.access.sigv4_authentication import SigV4Authentication
from partway.gateway.apis.manifest import Manifest
from partway.gateway.apis.manifests import MANIFESTS
from partway.gateway.apis.switched_off import routes_of_switched_off
from partway.gateway.core import Core
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.http.peers import TrustedProxies
from partway.gateway.http.routes import Route
from partway.gateway.network.silent_hosts import silent_hosts
from partway.gateway.quota import NamedCounts
from partway.gateway.settings.settings import Settings
from partway.gateway.status_routes import METRICS
from partway.gateway.timing.deadlines import before, pause
from partway.gateway.workers.forwarding import ParentForwarding
from partway.gateway.workers.limits import RETIRED_LOOK
from partway.gateway.workers.link import MessageTooLong, WorkerLink
from partway.gateway.workers.messages import (
    Applied,
    CutInstance,
    Drain,
    Drained,
    GatewayState,
    GiveMetrics,
    Hasten,
    HostSuspected,
    InstanceIdle,
    InstanceUnreachable,
    KeepOnly,
    Listen,
    Retire,
    SignatureAnswer,
    Table,
    ToWorker,
    Welcome,
    WorkerCheck,
    WorkerChecked,
    WorkerHas,
    WorkerHasAll,
    WorkerListens,
    WorkerMetrics,
)
from partway.gateway.workers.parent_link import ParentLink
from partway.gateway.workers.signature_use import SignaturesOfParent
from partway.gateway.workers.worker_ports import PortSockets, WorkerPorts
from partway.log_lines import LogLine

log = logging.getLogger("partway.workers")


class GatewayWorker(Core):
    """One process that accepts connections and relays.

    Args:
        requests: the path of the parent's socket, for forwarded requests and for new links.
        link: the link with the first parent.
        row: this worker's row of the shared counts.
    """

    def __init__(
        self,
        settings: Settings,
        counts: NamedCounts,
        requests: str,
        link: WorkerLink[ToWorker],
        row: int,
    ) -> None:
        super().__init__(settings, lambda: self._is_ready, self._prediction_of, counts=counts)
        self._is_ready = False
        self._predictions: dict[str, PredictionPolicy] = {}
        self._link = ParentLink(link, requests, row, self.clock)
        self._is_alone = asyncio.Event()
        self._draining: asyncio.Task[None] | None = None
        #: The last message, once the drain is over: to each parent until one ends the link.
        self._last_word: Drained | None = None
        self._retiring: asyncio.Task[None] | None = None
        proxies = TrustedProxies(settings.trusted_proxies)
        self._forwarding = ParentForwarding(requests, self._link.check_up, counts, proxies)
        self._signatures = SignaturesOfParent(self._link.send, self._link.check_up)
        if isinstance(self.authenticator, SigV4Authentication):
            self.authenticator.use_signature = self._signatures.use
        relayed = {each.name for each in MANIFESTS if each.relays}
        self._compose(settings.apis & relayed, self._routes_of_parent)

    def _status_routes(self) -> tuple[Route, ...]:
        own = (each for each in self.status.routes if each.path is not METRICS)
        return (*own, self._forwarding.reserved_route(METRICS))

    def _routes_of_parent(self, manifest: Manifest) -> Iterator[Route]:
        if manifest.name not in self.settings.apis:
            return routes_of_switched_off(manifest)
        return self._forwarding.routes_of(manifest)

    def _prediction_of(self, endpoint: str) -> PredictionPolicy:
        return self._predictions.get(endpoint, PredictionPolicy())

    # --- Its life --------------------------------------------------------------------------------

    async def run(self, sockets: PortSockets, tls: ssl.SSLContext | None) -> None:
        """Obey each parent in turn, until one has ended this worker or the supervisor has ended.

        Raises:
            LinkBroken: something else than messages has come from the parent.
        """
        ports = WorkerPorts(self, sockets, tls)
        silent_hosts.on_suspected = lambda *place: self._link.send(HostSuspected(*place))
        while True:
            async for message in self._link.messages():
                match message:
                    case Listen():
                        await self._open(ports)
                        self._link.send(WorkerListens())
                    case Drain():
                        self._drained()
                    case Retire():
                        self._retire(ports)
                    case _:
                        self._obey(message)
            if self._front is None or self._last_word is not None or self._is_alone.is_set():
                break
            log.warning("the gateway process has ended; the worker serves on and waits for another")
            await before(self._is_alone, self._link.redial())
        await self._drained()
        self._link.close()

    def supervisor_ended(self) -> None:
        """End at once: nobody starts another parent."""
        self._is_alone.set()
        self._drained()
        self.hasten()

    def _drained(self) -> asyncio.Task[None]:
        """Begin the drain unless it has begun; return its task."""
        if self._draining is None:
            if self._retiring is not None:
                self._retiring.cancel()
            self._draining = asyncio.create_task(self._end_orderly(), name="drain")
        return self._draining

    def _retire(self, ports: WorkerPorts) -> None:
        if self._retiring is None and self._draining is None:
            self._retiring = asyncio.create_task(self._retired(ports), name="retirement")

    async def _retired(self, ports: WorkerPorts) -> None:
        """Drain once the last connection is over, or the longest stream's time."""
        ports.retire()
        ends_at = self.clock.time() + self.settings.policy.lifetime
        # First the loop takes in the connections that it has just accepted.
        await pause(self.clock, RETIRED_LOOK)
        while ports.open_connections and self.clock.time() < ends_at:
            await pause(self.clock, RETIRED_LOOK)
        self._drained()

    async def _end_orderly(self) -> None:
        has_failed = True
        try:
            if self._front is not None:  # else it has not begun
                await self.drain()
            has_failed = self.end_has_failed
        finally:
            self._last_word = Drained(has_failed)
            self._link.send(self._last_word)

    # --- Orders ----------------------------------------------------------------------------------

    def _obey(self, message: ToWorker) -> None:
        match message:
            case Table():
                self._apply(message)
            case Welcome():
                self._tell_all()
            case GatewayState(is_ready, gateways):
                self._is_ready = is_ready
                self.gateways.count(gateways)
            case CutInstance(instance, is_lost):
                if (load := self.router.loads.get(instance)) is not None:
                    load.cut(is_lost=is_lost)
            case KeepOnly(endpoints):
                self.keep_only(endpoints)
            case Hasten():
                self.hasten()
            case HostSuspected(host, port):
                silent_hosts.ask(host, port)
            case WorkerCheck():
                self._link.send(WorkerChecked())
            case GiveMetrics(number):
                self._give_metrics(number)
            case SignatureAnswer():
                self._signatures.answered(message)

    def _tell_all(self) -> None:
        """Tell a new parent what this worker knows."""
        for endpoint, variants in self.router.table.items():
            self._link.send(WorkerHas(endpoint, variants, self._prediction_of(endpoint)))
        self._link.send(WorkerHasAll())
        if self._last_word is not None:
            self._link.send(self._last_word)

    def _give_metrics(self, number: int) -> None:
        page = generate_latest(self.streams.metrics.registry).decode()
        try:
            self._link.send(WorkerMetrics(number, page))
        except MessageTooLong as error:
            log.warning(LogLine("a worker's metrics are left out", reason=str(error)))
            self._link.send(WorkerMetrics(number, ""))

    def _apply(self, table: Table) -> None:
        endpoint = table.endpoint
        before = self._instances(endpoint)
        self.router.update(endpoint, table.variants)
        if table.variants is None:
            self._predictions.pop(endpoint, None)
        else:
            self._predictions[endpoint] = table.prediction
        after = self._instances(endpoint)
        for each in after - before:
            load = self.router.load(each)
            load.on_emptied = lambda: None
            load.on_unreachable = partial(self._link.send, InstanceUnreachable(each))
        for each in before - after:
            load = self.router.load(each)
            load.on_emptied = partial(self._forget, each)
            if not load.leases:
                self.router.forget(each)
        self._link.send(Applied(table.number))

    def _instances(self, endpoint: str) -> set[str]:
        variants = self.router.variants(endpoint)
        return {instance.id for each in variants for instance in each.instances}

    def _forget(self, instance: str) -> None:
        """Tell the parent that nothing is open here on an instance that has left the table."""
        self.router.forget(instance)
        self._link.send(InstanceIdle(instance))
