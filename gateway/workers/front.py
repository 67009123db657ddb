"""The front of a gateway with workers: they accept connections, and relay by the parent's table."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection
from contextlib import suppress

from partway.gateway.access.sigv4_authentication import SigV4Authentication
from partway.gateway.gateway import Gateway
from partway.gateway.network.silent_hosts import silent_hosts
from partway.gateway.ports import Listening
from partway.gateway.timing.deadlines import pause, time_limit
from partway.gateway.workers.forwarded_requests import ForwardedRequests, peer_process
from partway.gateway.workers.limits import DRAIN_MARGIN, LEAVE_TIMEOUT, REDIAL_PAUSE
from partway.gateway.workers.link import WorkerLink
from partway.gateway.workers.messages import (
    TO_PARENT,
    Applied,
    CutInstance,
    Drained,
    GatewayState,
    GiveMetrics,
    Hasten,
    HoldRequests,
    HostSuspected,
    InstanceIdle,
    InstanceUnreachable,
    KeepOnly,
    Listen,
    ToParent,
    ToWorker,
    UseSignature,
    WorkerHello,
    WorkerListens,
    WorkerMetrics,
)
from partway.gateway.workers.running_workers import RunningWorker, running_workers
from partway.gateway.workers.shared_counts import SharedRows
from partway.gateway.workers.signature_use import signature_answer
from partway.gateway.workers.slot import Slot
from partway.gateway.workers.slot_sockets import SlotSockets, sockets_for
from partway.gateway.workers.supervision import Supervision
from partway.gateway.workers.worker_order import WorkerOrder
from partway.gateway.workers.worker_pages import WorkerPages
from partway.gateway.workers.worker_ports import PortSockets, address_of
from partway.gateway.workers.worker_tables import WorkerTables
from partway.log_lines import LogLine

log = logging.getLogger("partway.workers")


class WorkersFront:
    """Starts the workers, tells them where instances are, and answers the requests they forward."""

    def __init__(self, gateway: Gateway, supervision: Supervision, rows: SharedRows) -> None:
        self._gateway = gateway
        self._supervision = supervision
        self._rows = rows
        self._requests = ForwardedRequests(gateway.dispatcher, self._link_came, supervision)
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

        After an error the workers of an earlier gateway process serve on.

        Raises:
            OSError: an address cannot be listened on; the error's ``filename`` is host and port.
            WorkersError: a worker cannot be started.
        """
        try:
            await self._open()
        except BaseException as error:
            if self._supervision.is_first or not isinstance(error, Exception):
                self.close()
                await self.shutdown(0)
            raise

    async def _open(self) -> None:
        gateway = self._gateway
        self._tables.begin()
        gateway.router.on_cut = lambda *cut: self._send(CutInstance(*cut))
        gateway.fleet.on_readiness = gateway.gateways.on_change = self._tell_state
        gateway.status.page_of_all = self._pages.page
        silent_hosts.on_suspected = self._tell_suspected
        self._slots += await self._made_slots(self._requests.open())
        self._starting = {each for each in self._slots if not each.is_last}
        await self._requests.start()
        running = [(each, asyncio.create_task(each.run(), name="worker")) for each in self._slots]
        self._tasks = [task for _, task in running]
        await self._all_up([task for each, task in running if not each.is_last])
        for each, task in running:
            task.add_done_callback(self._lost)
            if each.is_last:
                each.retire()

    async def _all_up(self, tasks: Collection[asyncio.Task[None]]) -> None:
        """Return once all workers of this code accept connections.

        Args:
            tasks: those of their slots.

        Raises:
            WorkersError: a worker cannot be started.
        """
        up = asyncio.create_task(self._are_up.wait())
        try:
            await asyncio.wait((up, *tasks), return_when=asyncio.FIRST_COMPLETED)
        finally:
            up.cancel()
        for task in tasks:
            if task.done():
                task.result()

    def _lost(self, task: asyncio.Task[None]) -> None:
        """Say that a slot has no worker any more; the others go on."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(LogLine("a worker cannot be started: restart the gateway", reason=str(error)))

    def release_absent(self) -> None:
        """Take endpoints that have ended out of the workers' tables, once the others are found."""
        self._tables.release_absent()

    @property
    def upgrade_refusal(self) -> str:
        """Why no upgrade may begin now; empty if one may."""
        old = [str(each.pid) for each in self._slots if each.is_last]
        if old:
            return (
                "workers of the last upgrade still serve their clients, processes "
                f"{' '.join(old)}; try again when they have ended"
            )
        return ""

    async def hand_over(self) -> None:
        """End this process for one of new code: as suddenly as by SIGKILL, but with no answer lost.

        Requests that come from now on wait for the next process.
        """
        self._send(HoldRequests())
        self._requests.close()
        gateway = self._gateway
        with suppress(TimeoutError):
            async with time_limit(gateway.clock, LEAVE_TIMEOUT):
                await self._requests.answered()
                while any(each.link and each.link.unsent_bytes for each in self._slots):
                    await pause(gateway.clock, REDIAL_PAUSE)
        await gateway.store.aclose()
        self._supervision.hands_over()
        os._exit(0)

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
        """Make the slots, and one for each worker of earlier code, which ends in time."""
        gateway = self._gateway
        running = running_workers(self._supervision)
        generation = self._supervision.generation
        ours = {each.slot: row for row, each in running.items() if each.generation == generation}
        free = [row for row in range(1, self._rows.number) if row not in running]
        for row in free:
            self._rows.own.clear(row)
        number = min(gateway.settings.workers, len(ours) + len(free))
        if number < gateway.settings.workers:
            line = "there are fewer workers than the settings say until the gateway is restarted"
            log.warning(LogLine(line, workers=number))
        sockets = await sockets_for(gateway.settings, self._supervision, number)
        first = sockets[0].ports
        tls_port = address_of(first.tls)[1] if first.tls else None
        self._listening = Listening(*address_of(first.plain), tls_port)
        slots = []
        for slot, each in enumerate(sockets, start=1):
            row = ours[slot] if slot in ours else free.pop(0)
            slots.append(self._slot(row, slot, each, path, running.pop(row, None)))
        none = SlotSockets(self._supervision, PortSockets(()))
        for row, old in running.items():
            slots.append(self._slot(row, old.slot, none, path, old, is_last=True))
        return slots

    def _slot(
        self,
        row: int,
        number: int,
        sockets: SlotSockets,
        path: str,
        running: RunningWorker | None,
        *,
        is_last: bool = False,
    ) -> Slot:
        ports = sockets.ports
        order = WorkerOrder(
            *(self._gateway.settings.of_worker(), row, self._rows.number, path),
            *(len(ports.plain), len(ports.tls), number, self._supervision.generation),
        )
        return Slot(
            *(order, sockets, self._rows.memory, self._supervision, self),
            *(self._gateway.clock, running),
            is_last=is_last,
        )

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
        slot.send(self._state)
        slot.send(Listen())

    def resumed(self, slot: Slot) -> None:
        self._tables.resumed(slot)
        slot.send(self._state)
        self._has_begun(slot)

    def _has_begun(self, slot: Slot) -> None:
        self._starting.discard(slot)
        if not self._starting:
            self._are_up.set()

    def ended(self, slot: Slot, unapplied: Collection[str]) -> None:
        self._rows.own.clear(slot.order.row)
        self._pages.ended(slot.order.row)
        self._tables.ended(slot, unapplied)
        for load in [*self._gateway.router.loads.values()]:
            load.check_idle()
        if slot.is_last:
            self._slots.remove(slot)
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

    @property
    def _state(self) -> GatewayState:
        return GatewayState(self._is_ready, self._gateway.gateways.number)

    def _tell_suspected(self, host: str, port: int) -> None:
        self._send(HostSuspected(host, port))

    def _tell_state(self) -> None:
        self._send(self._state)

    def _endpoint_ended(self, known: Collection[str]) -> None:
        self._send(KeepOnly(tuple(known)))
        self._pages.keep_only(known)
