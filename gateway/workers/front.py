"""The front of a gateway with workers: they accept connections, and relay by the parent's table."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
from collections.abc import Collection
from functools import partial
from typing import Final, TypeAlias

from partway.gateway.access.sigv4_authentication import SigV4Authentication
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.routing.router import RoutedVariant
from partway.gateway.gateway import Gateway
from partway.gateway.network.listening import close_all, sockets_of_slots
from partway.gateway.network.silent_hosts import silent_hosts
from partway.gateway.ports import Listening
from partway.gateway.timing.deadlines import before
from partway.gateway.workers.forwarded_requests import ForwardedRequests
from partway.gateway.workers.limits import DRAIN_MARGIN
from partway.gateway.workers.messages import (
    Applied,
    CutInstance,
    Drained,
    GiveMetrics,
    Hasten,
    HostSuspected,
    InstanceIdle,
    InstanceUnreachable,
    KeepOnly,
    Listen,
    SetReadiness,
    Table,
    ToParent,
    ToWorker,
    UseSignature,
    WorkerListens,
    WorkerMetrics,
)
from partway.gateway.workers.nursery import Nursery, WorkersError
from partway.gateway.workers.shared_counts import SharedCounts, shared_memory
from partway.gateway.workers.signature_use import signature_answer
from partway.gateway.workers.slot import Slot, WorkerOrder
from partway.gateway.workers.worker_pages import WorkerPages
from partway.gateway.workers.worker_ports import PortSockets, address_of
from partway.log_lines import LogLine, say_failure

log = logging.getLogger("partway.workers")

#: An endpoint as the workers know it.
_Known: TypeAlias = tuple[tuple[RoutedVariant, ...], PredictionPolicy]


class WorkersSetup:
    """The means of a gateway's workers, from before the gateway is made.

    Args:
        number: how many workers there are.
        nursery: forks them.

    Attributes:
        counts: the parent's row of the shared counts, for the gateway.
    """

    def __init__(self, number: int, nursery: Nursery) -> None:
        self.nursery: Final = nursery
        self.memory: Final = shared_memory(number + 1)
        self.counts: Final = SharedCounts(self.memory, number + 1, 0)

    async def start(self, gateway: Gateway, stop: asyncio.Event) -> Listening | None:
        """Start a gateway behind the workers.

        Args:
            stop: ends the start.

        Returns:
            The addresses; None if the start was ended, or if the workers cannot be started, which
            is said on standard error.

        Raises:
            Exception: as :meth:`.WorkersFront.open`, and as :meth:`.Gateway.start_behind`.
        """
        front = WorkersFront(gateway, self)

        async def started() -> Listening:
            await gateway.start_behind(front)
            return front.listening

        try:
            return await before(stop, started())
        except WorkersError as error:
            say_failure("partway serve", str(error))
            return None


class WorkersFront:
    """Starts the workers, tells them where instances are, and answers the requests they forward."""

    def __init__(self, gateway: Gateway, workers: WorkersSetup) -> None:
        self._gateway = gateway
        self._nursery = workers.nursery
        self._memory = workers.memory
        self._counts = workers.counts
        self._requests = ForwardedRequests(gateway.dispatcher)
        self._listening: Listening | None = None
        self._slots: list[Slot] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._starting: set[Slot] = set()
        self._are_up = asyncio.Event()
        self._is_ending = False
        self._numbers = itertools.count(1)
        #: The endpoints in the workers' tables.
        self._known: dict[str, _Known] = {}
        self._pages = WorkerPages(gateway.streams.metrics.registry, self._ask, gateway.clock)

    @property
    def listening(self) -> Listening:
        """The addresses, once the ports are open."""
        assert self._listening is not None, "they are open"
        return self._listening

    # --- Front -----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Listen, and return once all workers accept connections.

        Raises:
            OSError: an address cannot be listened on; the error's ``filename`` is host and port.
            WorkersError: a worker cannot be started.
        """
        try:
            await self._open()
        except BaseException:
            self.close()
            await self.shutdown(0)
            raise

    async def _open(self) -> None:
        path = await self._requests.start()
        gateway = self._gateway
        for endpoint, variants in gateway.router.table.items():
            self._known[endpoint] = variants, gateway.prediction_of(endpoint)
            self._look_after(_instances_of(self._known[endpoint]))
        gateway.fleet.on_routed = self._changed
        gateway.fleet.on_readiness = self._tell_readiness
        gateway.status.page_of_all = self._pages.page
        silent_hosts.on_suspected = self._tell_suspected
        self._slots = await self._made_slots(path)
        self._starting = {*self._slots}
        self._tasks = [asyncio.create_task(each.run(), name="worker") for each in self._slots]
        await self._all_up()
        for task in self._tasks:
            task.add_done_callback(self._lost)

    async def _all_up(self) -> None:
        """Return once all workers accept connections.

        Raises:
            WorkersError: a worker cannot be started.
        """
        up = asyncio.create_task(self._are_up.wait())
        try:
            await asyncio.wait((up, *self._tasks), return_when=asyncio.FIRST_COMPLETED)
        finally:
            up.cancel()
        for task in self._tasks:
            if task.done():
                task.result()

    def _lost(self, task: asyncio.Task[None]) -> None:
        """Say that a slot has no worker any more; the others go on."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(LogLine("a worker cannot be started: restart the gateway", reason=str(error)))

    def announce_end(self) -> None:
        """Have the workers end as the gateway does."""
        self._is_ending = True
        for each in self._slots:
            each.drain()

    async def drain(self) -> None:
        """Return once all workers have ended."""
        settings = self._gateway.settings
        longest = settings.shutdown_grace + settings.shutdown_spread + settings.shutdown_hard
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=longest + DRAIN_MARGIN)

    def hasten(self) -> None:
        self._send(Hasten())

    def close(self) -> None:
        for each in self._slots:
            each.close()
        self._requests.close()

    async def shutdown(self, timeout: float) -> None:
        """End the workers that are left, and the requests that they have forwarded."""
        for each in self._slots:
            each.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._requests.shutdown(timeout)
        await self._pages.aclose()
        self._nursery.close()
        os.close(self._memory)

    # --- Slots -----------------------------------------------------------------------------------

    async def _made_slots(self, path: str) -> list[Slot]:
        settings = self._gateway.settings
        number = settings.workers
        plain = await _sockets(settings.host, settings.port, number)
        tls: list[list[socket.socket]] = [[] for _ in plain]
        tls_port = None
        if settings.tls_port is not None:
            try:
                tls = await _sockets(settings.host, settings.tls_port, number)
            except OSError:
                for each in plain:
                    close_all(each)
                raise
            tls_port = address_of(tls[0])[1]
        self._listening = Listening(*address_of(plain[0]), tls_port)
        slots = []
        for row, (ours, encrypted) in enumerate(zip(plain, tls, strict=True), start=1):
            order = WorkerOrder(
                settings.of_worker(), row, number + 1, path, len(ours), len(encrypted)
            )
            sockets = PortSockets(ours, encrypted)
            slots.append(
                Slot(order, sockets, self._memory, self._nursery, self, self._gateway.clock)
            )
        return slots

    def started(self, slot: Slot) -> None:
        gateway = self._gateway
        for endpoint in self._known:
            slot.send(self._table(endpoint))
        slot.send(SetReadiness(gateway.fleet.is_ready))
        slot.send(Listen())

    def ended(self, slot: Slot, unapplied: Collection[str]) -> None:
        self._counts.clear(slot.order.row)
        self._pages.ended(slot.order.row)
        self._no_longer_chosen(unapplied)
        for load in [*self._gateway.router.loads.values()]:
            load.check_idle()
        if self._is_ending and not slot.has_drained:
            log.error(LogLine("a worker has ended without its drain", worker=slot.order.row))
            self._gateway.end_has_failed = True

    def said(self, slot: Slot, message: ToParent) -> None:
        match message:
            case WorkerListens():
                self._starting.discard(slot)
                if not self._starting:
                    self._are_up.set()
            case Applied(number):
                self._no_longer_chosen(slot.applied(number))
            case InstanceIdle(instance):
                if (load := self._gateway.router.loads.get(instance)) is not None:
                    load.check_idle()
            case InstanceUnreachable(instance):
                if (load := self._gateway.router.loads.get(instance)) is not None:
                    load.on_unreachable()
            case HostSuspected(host, port):
                silent_hosts.suspect(host, port)  # which tells all workers
            case UseSignature():
                authenticator, now = self._gateway.authenticator, self._gateway.wall_clock()
                assert isinstance(authenticator, SigV4Authentication), "as in the worker"
                slot.send(signature_answer(authenticator.used, message, now))
            case WorkerMetrics(number, page):
                self._pages.came(slot.order.row, number, page)
            case Drained(has_failed):
                self._gateway.end_has_failed |= has_failed

    def _send(self, message: ToWorker) -> None:
        for each in self._slots:
            each.send(message)

    def _ask(self, message: GiveMetrics) -> set[int]:
        return {each.order.row for each in self._slots if each.send(message)}

    # --- Tables ----------------------------------------------------------------------------------

    def _table(self, endpoint: str) -> Table:
        variants, prediction = self._known.get(endpoint, (None, PredictionPolicy()))
        return Table(next(self._numbers), endpoint, variants, prediction)

    def _changed(self, endpoint: str) -> None:
        """Tell the workers of an endpoint's change, if it is any to them."""
        gateway = self._gateway
        variants = gateway.router.find(endpoint)
        now = None if variants is None else (variants, gateway.prediction_of(endpoint))
        earlier = self._known.pop(endpoint, None)
        if now is not None:
            self._known[endpoint] = now
        if now == earlier:
            return
        removed = _instances_of(earlier) - _instances_of(now)
        self._look_after(_instances_of(now) - _instances_of(earlier))
        for slot in self._slots:
            if slot.send(self._table(endpoint), removed):
                self._may_be_chosen(removed)
        if now is None:
            self._send(KeepOnly(tuple(self._known)))
            self._pages.keep_only(self._known.keys())

    def _look_after(self, instances: Collection[str]) -> None:
        for each in instances:
            self._gateway.router.load(each).on_cut = partial(self._send, CutInstance(each))

    def _may_be_chosen(self, instances: Collection[str]) -> None:
        """Note that one more worker may choose instances that have left the table."""
        for each in instances:
            if (load := self._gateway.router.loads.get(each)) is not None:
                load.choosers += 1

    def _no_longer_chosen(self, instances: Collection[str]) -> None:
        for each in instances:
            if (load := self._gateway.router.loads.get(each)) is not None:
                load.choosers -= 1
                load.check_idle()

    def _tell_suspected(self, host: str, port: int) -> None:
        self._send(HostSuspected(host, port))

    def _tell_readiness(self) -> None:
        self._send(SetReadiness(self._gateway.fleet.is_ready))


def _instances_of(known: _Known | None) -> frozenset[str]:
    """Return the ids of the instances of an endpoint."""
    variants = () if known is None else known[0]
    return frozenset(each.id for variant in variants for each in variant.instances)


async def _sockets(host: str, port: int, number: int) -> list[list[socket.socket]]:
    try:
        return await sockets_of_slots(host, port, number)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
