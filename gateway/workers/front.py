"""The front of a gateway with workers: they accept connections, and relay by the parent's table."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from partway.gateway.access.sigv4_authentication import SigV4Authentication
from partway.gateway.gateway import Gateway
from partway.gateway.network.listening import sockets_of_slots
from partway.gateway.ports import Listening
from partway.gateway.workers.forwarded_requests import ForwardedRequests
from partway.gateway.workers.limits import METRICS_TIMEOUT, ORDER_TIMEOUT
from partway.gateway.workers.messages import (
    Applied,
    CutInstance,
    Drain,
    GiveMetrics,
    Hasten,
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
from partway.gateway.workers.nursery import Nursery
from partway.gateway.workers.shared_counts import SharedCounts, shared_memory
from partway.gateway.workers.signature_use import signature_answer
from partway.gateway.workers.slot import Slot, WorkerOrder
from partway.gateway.workers.worker_ports import PortSockets, address_of
from partway.log_lines import LogLine

log = logging.getLogger("partway.workers")


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

    async def start(self, gateway: Gateway) -> Listening:
        """Start a gateway behind the workers; return its addresses.

        Raises:
            Exception: as :meth:`.WorkersFront.open`, and as :meth:`.Gateway.start_behind`.
        """
        front = WorkersFront(gateway, self)
        await gateway.start_behind(front)
        return front.listening


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
        self._numbers = itertools.count(1)
        #: The instances of each endpoint, as the workers know them.
        self._instances: dict[str, frozenset[str]] = {}
        self._pages: dict[tuple[Slot, int], asyncio.Future[str]] = {}

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
            NurseryGone: no worker can be started.
        """
        path = await self._requests.start()
        gateway = self._gateway
        for endpoint, variants in gateway.router.table.items():
            self._instances[endpoint] = frozenset(
                each.id for variant in variants for each in variant.instances
            )
            self._look_after(self._instances[endpoint])
        gateway.router.on_update = self._updated
        gateway.fleet.on_readiness = self._tell_readiness
        gateway.status.further_pages = self._metrics
        self._slots = await self._made_slots(path)
        self._starting = {*self._slots}
        self._tasks = [asyncio.create_task(each.run(), name="worker") for each in self._slots]
        up = asyncio.create_task(self._are_up.wait())
        try:
            await asyncio.wait((up, *self._tasks), return_when=asyncio.FIRST_COMPLETED)
        finally:
            up.cancel()
        for task in self._tasks:
            if task.done():
                task.result()
            task.add_done_callback(self._lost)

    def _lost(self, task: asyncio.Task[None]) -> None:
        """Say that a slot has no worker any more; the others go on."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(LogLine("a worker cannot be started: restart the gateway", reason=str(error)))

    def announce_end(self) -> None:
        """Have the workers end as the gateway does."""
        self._send(Drain())

    async def drain(self) -> None:
        """Return once all workers have ended."""
        settings = self._gateway.settings
        longest = settings.shutdown_grace + settings.shutdown_spread + settings.shutdown_hard
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=longest + ORDER_TIMEOUT)

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
            tls = await _sockets(settings.host, settings.tls_port, number)
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
        for endpoint in self._instances:
            slot.send(self._table(endpoint))
        slot.send(SetReadiness(gateway.fleet.is_ready))
        slot.send(Listen())

    def ended(self, slot: Slot, unapplied: Collection[str]) -> None:
        self._counts.clear(slot.order.row)
        self._no_longer_chosen(unapplied)
        router = self._gateway.router
        for instances in self._instances.values():
            for each in instances:
                router.check_idle(each)
        for (owner, _), page in self._pages.items():
            if owner is slot and not page.done():
                page.cancel()

    def said(self, slot: Slot, message: ToParent) -> None:
        router = self._gateway.router
        match message:
            case WorkerListens():
                self._starting.discard(slot)
                if not self._starting:
                    self._are_up.set()
            case Applied(number):
                self._no_longer_chosen(slot.applied(number))
            case InstanceIdle(instance):
                router.check_idle(instance)
            case InstanceUnreachable(instance):
                router.unreachable(instance)
            case UseSignature():
                authenticator, now = self._gateway.authenticator, self._gateway.wall_clock()
                assert isinstance(authenticator, SigV4Authentication), "as in the worker"
                slot.send(signature_answer(authenticator.used, message, now))
            case WorkerMetrics(number, page):
                future = self._pages.get((slot, number))
                if future is not None and not future.done():
                    future.set_result(page)

    def _send(self, message: ToWorker) -> None:
        for each in self._slots:
            each.send(message)

    # --- Tables ----------------------------------------------------------------------------------

    def _table(self, endpoint: str) -> Table:
        gateway = self._gateway
        variants = gateway.router.find(endpoint)
        return Table(next(self._numbers), endpoint, variants, gateway.prediction_of(endpoint))

    def _updated(self, endpoint: str) -> None:
        """Tell the workers of an endpoint's change."""
        router = self._gateway.router
        variants = router.find(endpoint)
        before = self._instances.pop(endpoint, frozenset[str]())
        if variants is not None:
            self._instances[endpoint] = frozenset(
                each.id for variant in variants for each in variant.instances
            )
            self._look_after(self._instances[endpoint] - before)
        removed = before - self._instances.get(endpoint, frozenset())
        for slot in self._slots:
            if slot.send(self._table(endpoint), removed):
                for each in removed:
                    router.load(each).choosers += 1
        if variants is None:
            self._send(KeepOnly(tuple(self._instances)))

    def _look_after(self, instances: Collection[str]) -> None:
        for each in instances:
            self._gateway.router.load(each).on_cut = partial(self._send, CutInstance(each))

    def _no_longer_chosen(self, instances: Collection[str]) -> None:
        for each in instances:
            self._gateway.router.load(each).choosers -= 1
            self._gateway.router.check_idle(each)

    def _tell_readiness(self) -> None:
        self._send(SetReadiness(self._gateway.fleet.is_ready))

    # --- Metrics ---------------------------------------------------------------------------------

    async def _metrics(self) -> Mapping[str, str]:
        """Return the metrics of each worker by its number; without those that do not answer."""
        number = next(self._numbers)
        loop = asyncio.get_running_loop()
        asked = {
            slot: loop.create_future() for slot in self._slots if slot.send(GiveMetrics(number))
        }
        self._pages |= {(slot, number): future for slot, future in asked.items()}
        try:
            if asked:
                await asyncio.wait(asked.values(), timeout=METRICS_TIMEOUT)
        finally:
            for slot in asked:
                del self._pages[slot, number]
        return {
            str(slot.order.row): future.result()
            for slot, future in asked.items()
            if future.done() and not future.cancelled()
        }


async def _sockets(host: str, port: int, number: int) -> list[list[socket.socket]]:
    try:
        return await sockets_of_slots(host, port, number)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
