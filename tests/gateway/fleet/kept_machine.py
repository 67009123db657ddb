"""A gateway process that is killed, and the next one's fleet, which runs in the test's process."""

from __future__ import annotations

import ctypes
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.fleet import Fleet
from partway.gateway.fleet.launchers.leftover_containers import (
    LeftoverContainers,
    NoPendingEndpoints,
)
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.fleet.routing.router import Router
from partway.gateway.fleet.status import InstanceStatus
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.timing.clock import LoopClock
from tests.gateway.fleet.kept_fleet import FleetProcess
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.kept_in_memory import KeptInMemory

_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)


@asynccontextmanager
async def subreaper() -> AsyncIterator[None]:
    """Processes whose parent ends become children of this one; in the end all have been reaped."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    before = {each.pid for each in psutil.Process().children()}

    def all_reaped() -> bool:
        adopted = {each.pid for each in psutil.Process().children()} - before
        for pid in adopted:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return not adopted

    assert prctl(_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
        await eventually(all_reaped)
    finally:
        prctl(_CHILD_SUBREAPER, 0, 0, 0, 0)


class Counts:
    """What is open in other processes, by name."""

    def __init__(self) -> None:
        self.elsewhere: Counter[str] = Counter()

    def add(self, name: str, number: int) -> None:
        self.elsewhere[name] += number

    def others(self, name: str) -> int:
        return self.elsewhere[name]

    def total(self, name: str) -> int:
        return self.elsewhere[name]


class NextFleet:
    """The next gateway process's fleet, in this process."""

    def __init__(self, kept: KeptInMemory, data: DataDirectory | None) -> None:
        self.counts = Counts()
        self.router = Router(counts=self.counts)
        self.logs = Path() if data is None else data.logs
        self._provisions = Provisions(LoopClock(), data, kept=kept)
        self.fleet = Fleet(self.router, self._provisions.means, self._provisions.kept_instances)
        self._leftovers = LeftoverContainers(self.fleet, self._provisions)

    async def starts(self, *endpoints: Endpoint) -> None:
        """Start as a gateway does; return when the endpoints have settled."""
        self.fleet.start(endpoints)
        self._leftovers.remove(NoPendingEndpoints())
        await soon(self.fleet.settled(60))

    async def stop(self) -> None:
        self.fleet.hasten()
        self._provisions.hasten()
        await soon(self.fleet.stop())
        await self._leftovers.aclose()
        await soon(self._provisions.aclose())

    def instances(self, name: str = "echo") -> list[InstanceStatus]:
        status = self.fleet.status(name)
        return [each for one in status.variants for each in one.instances] if status else []

    def ports(self, name: str = "echo") -> set[int]:
        return {int(each.container.rpartition(":")[2]) for each in self.instances(name)}


class Machine:
    """Gateway processes one after the other; this one is their supervisor.

    Args:
        folder: their data directory; None for none.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._first: FleetProcess | None = None
        self._opened: DataDirectory | None = None
        self._next: NextFleet | None = None
        self.kept = KeptInMemory()

    def first(self) -> FleetProcess:
        self._first = FleetProcess(self._folder)
        return self._first

    async def kill_first(self) -> None:
        assert self._first is not None
        self.kept = await self._first.kill()
        self._first = None

    def next(self) -> NextFleet:
        if self._folder is not None:
            self._opened = DataDirectory.opened(self._folder).__enter__()
        self._next = NextFleet(self.kept, self._opened)
        return self._next

    async def close(self) -> None:
        if self._first is not None:
            await self.kill_first()
        if self._next is not None:
            await self._next.stop()
        self.kept.close()
        if self._opened is not None:
            self._opened.__exit__(None, None, None)


def kept(of: KeptInMemory, beginning: str) -> dict[str, dict[str, object]]:
    """The records of entries."""
    return {name: json.loads(of.record(name)) for name in of.names if name.startswith(beginning)}


def entries(of: KeptInMemory) -> tuple[int, int]:
    """How many instances and programs are kept."""
    return len(kept(of, "instance/")), len(kept(of, "program/"))


def serving(process: FleetProcess) -> int:
    """How many instances have served, and do not leave."""
    found = kept(process.kept, "instance/").values()
    return sum(bool(each["has_served"] and not each["is_leaving"]) for each in found)
