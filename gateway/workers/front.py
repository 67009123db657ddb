"""The front of a gateway with workers: they accept connections, and relay by the parent's table."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Final

from partway.gateway.access.sigv4_authentication import SigV4Authentication
from partway.gateway.admin.kept_data import data_directory
from partway.gateway.gateway import Gateway
from partway.gateway.network.silent_hosts import silent_hosts
from partway.gateway.ports import Listening
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.timing.deadlines import before, set_or_call
from partway.gateway.workers.forwarded_requests import ForwardedRequests, peer_process
from partway.gateway.workers.limits import DRAIN_MARGIN
from partway.gateway.workers.link import WorkerLink
from partway.gateway.workers.messages import (
    TO_PARENT,
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
    ToParent,
    ToWorker,
    UseSignature,
    WorkerHello,
    WorkerListens,
    WorkerMetrics,
)
from partway.gateway.workers.running_workers import running_workers
from partway.gateway.workers.shared_counts import SharedCounts, kept_memory
from partway.gateway.workers.signature_use import signature_answer
from partway.gateway.workers.slot import Slot
from partway.gateway.workers.slot_sockets import sockets_for
from partway.gateway.workers.supervision import Supervision, WorkersError
from partway.gateway.workers.worker_order import WorkerOrder
from partway.gateway.workers.worker_pages import WorkerPages
from partway.gateway.workers.worker_ports import address_of
from partway.gateway.workers.worker_tables import WorkerTables
from partway.log_lines import LogLine, say_failure, say_listening

log = logging.getLogger("partway.workers")

#: The name of the kept entry with the path of a temporary data directory.
_TEMPORARY: Final = "temporary-data"


class WorkersSetup:
    """The means of a gateway's workers, from before the gateway is made.

    Args:
        number: how many workers there are.
        supervision: starts them.

    Attributes:
        rows: how many rows the shared counts have.
        memory: a descriptor of their memory.
        counts: the parent's row of them, for the gateway.
    """

    def __init__(self, number: int, supervision: Supervision) -> None:
        self.supervision: Final = supervision
        self.rows, self.memory = kept_memory(supervision, number + 1)
        self.counts: Final = SharedCounts(self.memory, self.rows, 0)
        self.counts.clear(0)  # an earlier parent's

    def stop_on_orders(
        self, hasten: Callable[[], None], reload: Callable[[], None]
    ) -> asyncio.Event:
        """Obey the supervisor from now on.

        Args:
            hasten: called for each SIGTERM and SIGINT after the first.
            reload: called for each SIGHUP.

        Returns:
            An event that the first SIGTERM or SIGINT sets. The supervisor's end sets it too, and
            hastens.
        """
        stop = asyncio.Event()

        def gone() -> None:
            stop.set()
            hasten()

        self.supervision.follow(partial(set_or_call, stop, hasten), reload, gone)
        return stop

    def data_directory(self, loaded: Settings, warnings: list[LogLine]) -> DataDirectory | None:
        """Own the data directory, which a temporary one is for all gateway processes in turn.

        Args:
            warnings: as for :func:`partway.gateway.admin.kept_data.data_directory`.

        Raises:
            DataDirectoryError: as that function.
        """
        supervisor = os.getppid()
        for entry in self.supervision.take(_TEMPORARY).values():
            return DataDirectory.opened(Path(os.fsdecode(entry.record)), supervisor, keep=False)
        data = data_directory(loaded, warnings, supervisor)
        if data is not None and not data.keeps:
            self.supervision.keep(_TEMPORARY, os.fsencode(data.path))
        return data

    def say_listening(self, url: str, authority: str) -> None:
        """Print a ready line, or log one if an earlier gateway process has printed it."""
        if self.supervision.is_first:
            say_listening(url, authority)
        else:
            log.info(LogLine("the gateway takes changes again", url=url))

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
            listening = await before(stop, started())
        except WorkersError as error:
            say_failure("partway serve", str(error))
            return None
        if listening is not None:
            self.supervision.is_up()
            front.release_absent()
        return listening


class WorkersFront:
    """Starts the workers, tells them where instances are, and answers the requests they forward."""

    def __init__(self, gateway: Gateway, workers: WorkersSetup) -> None:
        self._gateway = gateway
        self._supervision = workers.supervision
        self._workers = workers
        self._counts = workers.counts
        self._requests = ForwardedRequests(gateway.dispatcher, self._link_came, workers.supervision)
        self._listening: Listening | None = None
        self._slots: list[Slot] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._starting: set[Slot] = set()
        self._are_up = asyncio.Event()
        self._is_ending = False
        self._tables = WorkerTables(gateway, self._slots, self._endpoint_ended)
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
        gateway = self._gateway
        self._tables.begin()
        gateway.router.on_cut = lambda instance: self._send(CutInstance(instance))
        gateway.fleet.on_readiness = self._tell_readiness
        gateway.status.page_of_all = self._pages.page
        silent_hosts.on_suspected = self._tell_suspected
        self._slots += await self._made_slots(self._requests.open())
        self._starting = {*self._slots}
        await self._requests.start()
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

    def release_absent(self) -> None:
        """Take endpoints that have ended out of the workers' tables, once the others are found."""
        self._tables.release_absent()

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
        await self._tables.aclose()
        await self._pages.aclose()

    # --- Slots -----------------------------------------------------------------------------------

    async def _made_slots(self, path: str) -> list[Slot]:
        settings = self._gateway.settings
        sockets = await sockets_for(settings, self._supervision)
        first = sockets[0].ports
        tls_port = address_of(first.tls)[1] if first.tls else None
        self._listening = Listening(*address_of(first.plain), tls_port)
        running = running_workers(self._supervision)
        slots = []
        for row, each in enumerate(sockets, start=1):
            ports = each.ports
            order = WorkerOrder(
                *(settings.of_worker(), row, self._workers.rows, path),
                *(len(ports.plain), len(ports.tls)),
            )
            if row not in running:
                self._counts.clear(row)
            slots.append(
                Slot(
                    *(order, each, self._workers.memory, self._supervision, self),
                    *(self._gateway.clock, running.get(row)),
                )
            )
        return slots

    def _link_came(
        self, hello: WorkerHello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Give a slot the link of its worker; close that of a worker which is not awaited."""
        pid = peer_process(writer)
        for each in self._slots:
            if each.order.row == hello.row and each.came(
                pid, lambda: WorkerLink(reader, writer, TO_PARENT)
            ):
                return
        writer.close()

    def started(self, slot: Slot) -> None:
        self._tables.started(slot)
        slot.send(SetReadiness(self._is_ready))
        slot.send(Listen())

    def resumed(self, slot: Slot) -> None:
        self._tables.resumed(slot)
        slot.send(SetReadiness(self._is_ready))
        self._has_begun(slot)

    def _has_begun(self, slot: Slot) -> None:
        self._starting.discard(slot)
        if not self._starting:
            self._are_up.set()

    def ended(self, slot: Slot, unapplied: Collection[str]) -> None:
        self._counts.clear(slot.order.row)
        self._pages.ended(slot.order.row)
        self._tables.ended(slot, unapplied)
        for load in [*self._gateway.router.loads.values()]:
            load.check_idle()
        if self._is_ending and not slot.has_drained:
            log.error(LogLine("a worker has ended without its drain", worker=slot.order.row))
            self._gateway.end_has_failed = True

    def said(self, slot: Slot, message: ToParent) -> None:
        match message:
            case WorkerListens():
                self._has_begun(slot)
            case Applied(number):
                self._tables.no_longer_chosen(slot.applied(number))
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

    @property
    def _is_ready(self) -> bool:
        """Whether the endpoints have come up, for an earlier parent or for this one."""
        return self._gateway.fleet.is_ready or not self._supervision.is_first

    def _tell_suspected(self, host: str, port: int) -> None:
        self._send(HostSuspected(host, port))

    def _tell_readiness(self) -> None:
        self._send(SetReadiness(self._is_ready))

    def _endpoint_ended(self, known: Collection[str]) -> None:
        self._send(KeepOnly(tuple(known)))
        self._pages.keep_only(known)
