"""One worker's slot: its sockets, the process that accepts there now, and the next one."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from partway.gateway.settings.settings import Settings
from partway.gateway.timing.clock import Clock, Timer
from partway.gateway.timing.deadlines import set_or_over
from partway.gateway.workers.limits import (
    ORDER_TIMEOUT,
    PROVEN_AFTER,
    RESTART_LONGEST,
    RESTART_SHORTEST,
    START_TIMEOUT,
)
from partway.gateway.workers.link import LinkBroken, WorkerLink
from partway.gateway.workers.messages import (
    TO_PARENT,
    Drained,
    Table,
    ToParent,
    ToWorker,
    WorkerListens,
)
from partway.gateway.workers.nursery import Nursery
from partway.gateway.workers.worker_ports import PortSockets
from partway.log_lines import LogLine

log = logging.getLogger("partway.workers")


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """The start of a worker.

    Attributes:
        row: its row of the shared counts, from 1; row 0 is the parent's.
        rows: how many rows there are.
        requests: the path of the parent's socket for forwarded requests.
        plain: how many of the descriptors are sockets of the port.
        tls: how many of them are sockets of the TLS port.
    """

    settings: Settings
    row: int
    rows: int
    requests: str
    plain: int
    tls: int


class Descriptors:
    """The descriptors that go with an order: the link, the counts, and the sockets."""

    def __init__(self, order: WorkerOrder, descriptors: Sequence[int]) -> None:
        link, self.counts, *sockets = descriptors
        self.link = socket.socket(fileno=link)
        listening = [socket.socket(fileno=each) for each in sockets]
        self.sockets = PortSockets(listening[: order.plain], listening[order.plain :])


class Parent(Protocol):
    """The owner of the slots."""

    def started(self, slot: Slot) -> None:
        """Send the worker everything that it must know, and then let it listen."""

    def said(self, slot: Slot, message: ToParent) -> None:
        """Act on a message."""

    def ended(self, slot: Slot, unapplied: Collection[str]) -> None:
        """Forget a worker's counts; ``unapplied`` are instances that it could still choose."""


class Slot:
    """A worker, and another one whenever it ends.

    Attributes:
        link: the link with the running worker; None between two.
        pid: its process.
    """

    def __init__(
        self,
        order: WorkerOrder,
        sockets: PortSockets,
        counts: int,
        nursery: Nursery,
        parent: Parent,
        clock: Clock,
    ) -> None:
        self.order: Final = order
        self.link: WorkerLink[ToParent] | None = None
        self.pid = 0
        self._sockets = sockets
        self._counts = counts
        self._nursery = nursery
        self._parent = parent
        self._clock = clock
        self._handle: int | None = None
        self._stopped = asyncio.Event()
        self._deadline: Timer | None = None
        #: Tables that the worker has not applied: the timer of each, and the instances it removes.
        self._unapplied: dict[int, tuple[Timer, Collection[str]]] = {}

    # --- Its life --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run workers until one has drained, or :meth:`stop` was called.

        Raises:
            NurseryGone: no worker can be started any more.
        """
        wait = RESTART_SHORTEST
        while True:
            began = self._clock.time()
            try:
                await self._run_one()
            finally:
                self._end()
            if self._stopped.is_set():
                return
            if self._clock.time() - began > PROVEN_AFTER:
                wait = RESTART_SHORTEST
            log.error(LogLine("a worker has ended; another one starts", worker=self.order.row))
            await set_or_over(self._stopped, self._clock, wait)
            if self._stopped.is_set():
                return
            wait = min(2 * wait, RESTART_LONGEST)

    def stop(self) -> None:
        """Kill the worker, and start no other one."""
        self._stopped.set()
        self.kill("the gateway ends")

    def kill(self, reason: str) -> None:
        """End the process at once."""
        if self._handle is not None:
            log.warning(
                LogLine("a worker is killed", worker=self.order.row, pid=self.pid, reason=reason)
            )
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def close(self) -> None:
        """Close the sockets: nothing accepts there any more."""
        for each in (*self._sockets.plain, *self._sockets.tls):
            each.close()

    async def _run_one(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            sockets = [each.fileno() for each in (*self._sockets.plain, *self._sockets.tls)]
            self.pid = self._nursery.fork(self.order, [theirs.fileno(), self._counts, *sockets])
        with suppress(ProcessLookupError):
            self._handle = os.pidfd_open(self.pid)
        self.link = await WorkerLink.over(ours, TO_PARENT)
        self._deadline = self._clock.call_later(START_TIMEOUT, self._late, "does not listen")
        self._parent.started(self)
        try:
            async for message in self.link.messages():
                self._take(message)
        except LinkBroken as error:
            log.warning(LogLine("a worker's link is broken", reason=str(error)))

    def _end(self) -> None:
        if not self._stopped.is_set():
            self.kill("its link has ended")
        if self.link is not None:
            self.link.abort()
            self.link = None
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        if self._deadline is not None:
            self._deadline.cancel()
        unapplied = [each for _, removed in self._unapplied.values() for each in removed]
        for timer, _ in self._unapplied.values():
            timer.cancel()
        self._unapplied.clear()
        self._parent.ended(self, unapplied)

    # --- Messages --------------------------------------------------------------------------------

    def send(self, message: ToWorker, removed: Collection[str] = ()) -> bool:
        """Send a message to the worker; return whether there is one.

        Args:
            removed: for a table, the instances that the worker may choose until it has applied it.
        """
        if self.link is None:
            return False
        if isinstance(message, Table):
            timer = self._clock.call_later(ORDER_TIMEOUT, self._late, "does not apply a change")
            self._unapplied[message.number] = timer, removed
        try:
            self.link.send(message)
        except LinkBroken as error:
            self.kill(str(error))
        return True

    def applied(self, number: int) -> Collection[str]:
        """Return the instances that the worker no longer chooses, now that it has a table."""
        timer, removed = self._unapplied.pop(number)
        timer.cancel()
        return removed

    def _take(self, message: ToParent) -> None:
        match message:
            case WorkerListens():
                assert self._deadline is not None, "it has been started"
                self._deadline.cancel()
            case Drained():
                self._stopped.set()
        self._parent.said(self, message)

    def _late(self, what: str) -> None:
        self.kill(f"it {what} in time")
