"""One worker's slot: its sockets, the process that accepts there now, and the next one."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.routing.router import RoutedVariant
from partway.gateway.timing.clock import Clock, Timer
from partway.gateway.timing.deadlines import set_or_over
from partway.gateway.workers.limits import (
    CHECK_PAUSE,
    CHECK_TIMEOUT,
    END_TIMEOUT,
    KILL_TIMEOUT,
    PROVEN_AFTER,
    RELINK_TIMEOUT,
    RESTART_LONGEST,
    RESTART_SHORTEST,
    START_TIMEOUT,
)
from partway.gateway.workers.link import LinkBroken, MessageTooLong, WorkerLink
from partway.gateway.workers.messages import (
    TO_PARENT,
    Drain,
    Drained,
    Retire,
    Table,
    ToParent,
    ToWorker,
    Welcome,
    WorkerCheck,
    WorkerChecked,
    WorkerHas,
    WorkerHasAll,
    WorkerListens,
    WorkerRefuses,
)
from partway.gateway.workers.running_workers import RunningWorker, forget_worker, keep_worker
from partway.gateway.workers.slot_sockets import SlotSockets
from partway.gateway.workers.supervision import Supervision, WorkersError
from partway.gateway.workers.worker_order import WorkerOrder
from partway.log_lines import LogLine

log = logging.getLogger("partway.workers")

#: An endpoint as a worker knows it.
Known: TypeAlias = tuple[tuple[RoutedVariant, ...], PredictionPolicy]


def instances_of(known: Known | None) -> frozenset[str]:
    """Return the ids of the instances of an endpoint."""
    variants = () if known is None else known[0]
    return frozenset(each.id for variant in variants for each in variant.instances)


class Parent(Protocol):
    """The owner of the slots."""

    def started(self, slot: Slot) -> None:
        """Send the worker everything that it must know, and then let it listen."""

    def resumed(self, slot: Slot) -> None:
        """Send a worker that knows :attr:`Slot.tables` what has changed."""

    def said(self, slot: Slot, message: ToParent) -> None:
        """Act on a message."""

    def ended(self, slot: Slot, unapplied: Collection[str]) -> None:
        """Forget a worker's counts; ``unapplied`` are instances that it could still choose."""


class Slot:
    """A worker, and another one whenever it ends.

    Args:
        running: a worker that has outlived its parent, and will dial this one.
        is_last: whether no worker follows it.

    Attributes:
        link: the link with the running worker; None between two.
        pid: its process.
        tables: the endpoints as the worker knows them once it has applied all messages.
        is_last: whether no worker follows the one that runs.
        has_drained: whether a worker has drained here, which is then the last one.
    """

    def __init__(
        self,
        order: WorkerOrder,
        sockets: SlotSockets,
        counts: int,
        supervision: Supervision,
        parent: Parent,
        clock: Clock,
        running: RunningWorker | None = None,
        *,
        is_last: bool = False,
    ) -> None:
        self.order: Final = order
        self.link: WorkerLink[ToParent] | None = None
        self.pid = 0 if running is None else running.pid
        self.tables: dict[str, Known] = {}
        self.is_last = is_last
        self.has_drained = False
        self._sockets = sockets
        self._counts = counts
        self._supervision = supervision
        self._parent = parent
        self._clock = clock
        self._running = running
        self._handle: int | None = None
        #: Set when the worker has dialled, or has ended.
        self._has_come = asyncio.Event()
        #: Set once the running worker is to end, and no further one to start.
        self._last = asyncio.Event()
        #: Tells a worker that it is to end.
        self._farewell: ToWorker = Drain()
        self._has_listened = False
        #: Why the running worker ends, as far as it is known.
        self._reason = ""
        #: Of the start, the next check, or its answer.
        self._timer: Timer | None = None
        #: Tables that the worker has not applied: the instances that each removes, by its number.
        self._unapplied: dict[int, Collection[str]] = {}

    # --- Its life --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run workers until :meth:`drain` or :meth:`stop` was called, and close the sockets then.

        Raises:
            WorkersError: the first worker has ended before it accepted connections, or no further
                one can be started.
        """
        wait = RESTART_SHORTEST
        try:
            while not self._last.is_set():
                began = self._clock.time()
                await self._run_one()
                if self._last.is_set() or self.is_last:
                    if self.is_last and not self.has_drained:
                        line = "a worker has ended before its clients have"
                        log.error(LogLine(line, worker=self.order.row, reason=self._reason))
                    return
                if not self._has_listened:
                    raise WorkersError(
                        f"a worker has ended before it accepted connections: {self._reason}"
                    )
                if self._clock.time() - began > PROVEN_AFTER:
                    wait = RESTART_SHORTEST
                line = "a worker has ended; another one starts"
                log.error(LogLine(line, worker=self.order.row, reason=self._reason))
                await set_or_over(self._last, self._clock, wait)
                wait = min(2 * wait, RESTART_LONGEST)
        finally:
            self.close()

    def drain(self) -> None:
        """Have the worker drain, and start no other one."""
        self._last.set()
        self._farewell = Drain()
        self.send(self._farewell)

    def retire(self) -> None:
        """Have the worker end once its clients have gone, and start no other one."""
        self._last.set()
        self._farewell = Retire()
        self.send(self._farewell)

    def stop(self) -> None:
        """Kill the worker, and start no other one."""
        self._last.set()
        self.kill("the gateway ends")

    def kill(self, reason: str) -> None:
        """End the process at once."""
        if self._handle is not None:
            log.warning(
                LogLine("a worker is killed", worker=self.order.row, pid=self.pid, reason=reason)
            )
            self._reason = self._reason or reason
            self._signal()

    def close(self) -> None:
        """Close the sockets: the system gives them no connection any more."""
        self._sockets.close()

    async def _run_one(self) -> None:
        """Run one worker to its end."""
        self._reason = ""
        running, self._running = self._running, None
        try:
            if running is None:
                await self._start()
            else:
                await self._await_link(running)
            await self._talk(has_served=running is not None)
        except (OSError, LinkBroken) as error:  # no process or no descriptor can be had now
            self._reason = self._reason or str(error)
        finally:
            await self._end()
        self._reason = self._reason or "its process has ended; the log may say why"

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                ports = self._sockets.ports
                sockets = [each.fileno() for each in (*ports.plain, *ports.tls)]
                descriptors = [theirs.fileno(), self._counts, *sockets]
                self.pid, self._handle = self._supervision.fork(self.order, descriptors)
            self.link = await WorkerLink.over(ours, TO_PARENT)
        except BaseException:
            ours.close()
            raise
        order = self.order
        worker = RunningWorker(self.pid, self._handle, order.slot, order.generation)
        keep_worker(self._supervision, order.row, worker)

    async def _await_link(self, running: RunningWorker) -> None:
        """Wait for the link of a worker that has outlived its parent.

        Raises:
            LinkBroken: it does not come in time; or the worker has ended.
        """
        self._has_listened = True
        self._handle = running.handle
        loop = asyncio.get_running_loop()
        loop.add_reader(running.handle, self._has_come.set)
        try:
            await set_or_over(self._has_come, self._clock, RELINK_TIMEOUT)
        finally:
            loop.remove_reader(running.handle)
        if self.link is None:
            raise LinkBroken("it has not come back to the new gateway process")

    def came(self, pid: int, link: Callable[[], WorkerLink[ToParent]]) -> bool:
        """Take the new link of the worker that is awaited, a process; return whether it is."""
        if self._has_come.is_set() or self.link is not None or pid != self.pid:
            return False
        self.link = link()
        self._has_come.set()
        return True

    async def _talk(self, *, has_served: bool) -> None:
        """Tell the worker everything, and take its messages until its end."""
        assert self.link is not None, "it has been started"
        if has_served:
            self._set_timer(CHECK_TIMEOUT, self._late, "it does not say what it knows")
            self.send(Welcome())
        else:
            self._set_timer(START_TIMEOUT, self._late, "it does not listen in time")
            self._parent.started(self)
        if self._last.is_set():
            self.send(self._farewell)
        async for message in self.link.messages():
            self._take(message)
            if isinstance(message, WorkerRefuses | Drained):
                return  # the worker waits for the link's end

    async def _end(self) -> None:
        """See that the process is dead, and only then let the parent forget what it has counted."""
        self._cancel_timer()
        if self.link is not None:
            self.link.abort()
            self.link = None
        if self._handle is not None:
            await self._dead(self._handle)
            os.close(self._handle)
            self._handle = None
            forget_worker(self._supervision, self.order.row)
        unapplied = [each for removed in self._unapplied.values() for each in removed]
        self._unapplied.clear()
        self.tables.clear()
        self._parent.ended(self, unapplied)

    async def _dead(self, handle: int) -> None:
        """Wait for the end of the process, within a time; kill it if it has not drained."""
        loop, dead = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(handle, dead.set)
        try:
            if self.has_drained:
                await set_or_over(dead, self._clock, END_TIMEOUT)
            if not dead.is_set():
                self._signal()
                await set_or_over(dead, self._clock, KILL_TIMEOUT)
        finally:
            loop.remove_reader(handle)
        if not dead.is_set():
            log.error(LogLine("a killed worker does not end", worker=self.order.row, pid=self.pid))

    def _signal(self) -> None:
        if self._handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    # --- Messages --------------------------------------------------------------------------------

    def tell(self, number: int, endpoint: str, known: Known | None) -> Collection[str]:
        """Tell the worker of an endpoint, unless it knows; None if the endpoint is gone.

        Args:
            number: of the message.

        Returns:
            The instances that the worker may choose until it has applied the message, and not
            after that.
        """
        earlier = self.tables.get(endpoint)
        if known == earlier:
            return ()
        variants, prediction = known or (None, PredictionPolicy())
        if not self.send(Table(number, endpoint, variants, prediction)):
            return ()
        if known is None:
            del self.tables[endpoint]
        else:
            self.tables[endpoint] = known
        removed = self._unapplied[number] = instances_of(earlier) - instances_of(known)
        return removed

    def send(self, message: ToWorker) -> bool:
        """Send a message to the worker; return whether it will come."""
        if self.link is None:
            return False
        try:
            self.link.send(message)
        except MessageTooLong:
            line = "a worker is not told of a change"
            log.exception(LogLine(line, worker=self.order.row))
            return False
        except LinkBroken as error:
            self.kill(str(error))
        return True

    def applied(self, number: int) -> Collection[str]:
        """Return the instances that the worker no longer chooses, now that it has a table."""
        return self._unapplied.pop(number)

    def _take(self, message: ToParent) -> None:
        match message:
            case WorkerHas(endpoint, variants, prediction):
                self.tables[endpoint] = variants, prediction
                return
            case WorkerHasAll():
                self._set_timer(CHECK_PAUSE, self._check)
                self._parent.resumed(self)
                return
            case WorkerListens():
                self._has_listened = True
                self._set_timer(CHECK_PAUSE, self._check)
            case WorkerChecked():
                self._set_timer(CHECK_PAUSE, self._check)
            case WorkerRefuses(reason):
                self._reason = reason
            case Drained():
                self.has_drained = True
                self._last.set()
                self._cancel_timer()
                self.close()
        self._parent.said(self, message)

    def _check(self) -> None:
        self._set_timer(CHECK_TIMEOUT, self._late, "it answers nothing")
        self.send(WorkerCheck())

    def _late(self, what: str) -> None:
        self._timer = None
        self.kill(what)

    def _set_timer(self, seconds: float, act: Callable[..., object], *arguments: str) -> None:
        self._cancel_timer()
        self._timer = self._clock.call_later(seconds, act, *arguments)

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
