"""partway.gateway.workers.slot: how workers start, are watched, and end, with real processes."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from partway.gateway.network.listening import listening_sockets
from partway.gateway.settings.settings import Settings
from partway.gateway.timing.clock import LoopClock
from partway.gateway.workers import slot as module
from partway.gateway.workers.link import WorkerLink
from partway.gateway.workers.messages import (
    TO_PARENT,
    TO_WORKER,
    Applied,
    Drain,
    Drained,
    Listen,
    Message,
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
    encoded,
)
from partway.gateway.workers.running_workers import RunningWorker
from partway.gateway.workers.slot import Slot
from partway.gateway.workers.slot_sockets import SlotSockets
from partway.gateway.workers.supervision import Supervision, SupervisorGone, WorkersError
from partway.gateway.workers.worker_order import WorkerOrder
from partway.gateway.workers.worker_ports import PortSockets
from tests.gateway.workers.supervised import supervision
from tests.gateway.workers.test_messages import TABLE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60


#: An endpoint as a worker knows it.
KNOWN = TABLE.variants, TABLE.prediction


# --- Workers -------------------------------------------------------------------------------------


def received(link: socket.socket) -> Iterator[ToWorker]:
    stream = link.makefile("rb")
    while head := stream.read(4):
        yield TO_WORKER.decode(stream.read(*struct.unpack(">I", head)))


def send(link: socket.socket, message: Message) -> None:
    data = encoded(message)
    link.sendall(struct.pack(">I", len(data)) + data)


def ends_with_its_parent(link: socket.socket) -> None:
    while link.recv(1024):
        pass


def good(link: socket.socket) -> None:
    """A worker without streams."""
    for message in received(link):
        match message:
            case Listen():
                send(link, WorkerListens())
            case Welcome():
                send(link, WorkerHas("e", *KNOWN))
                send(link, WorkerHasAll())
            case WorkerCheck():
                send(link, WorkerChecked())
            case Table(number):
                send(link, Applied(number))
            case Drain() | Retire():
                send(link, Drained(False))


def refuses(link: socket.socket) -> None:
    send(link, WorkerRefuses("the certificate is gone"))
    ends_with_its_parent(link)


def ends_at_once(link: socket.socket) -> None:
    """It has no reason to give."""


def never_listens(link: socket.socket) -> None:
    ends_with_its_parent(link)


def ends_in_its_drain(link: socket.socket) -> None:
    for message in received(link):
        match message:
            case Listen():
                send(link, WorkerListens())
            case Drain():
                return


def hangs(link: socket.socket) -> None:
    for message in received(link):
        if isinstance(message, Listen):
            send(link, WorkerListens())
            ends_with_its_parent(link)


def lingers(link: socket.socket) -> None:
    """It does not end after its drain."""
    good(link)
    time.sleep(2 * PATIENCE)


def ends_when_told(link: socket.socket) -> None:
    """It ends at the first table after it listens."""
    listens = False
    for message in received(link):
        match message:
            case Listen():
                send(link, WorkerListens())
                listens = True
            case Table() if listens:
                return


WORKERS: dict[str, Callable[[socket.socket], None]] = {
    each.__name__: each
    for each in (
        *(good, refuses, ends_at_once, never_listens, ends_in_its_drain, hangs, lingers),
        *(ends_when_told,),
    )
}


def work(order: WorkerOrder, descriptors: Sequence[int]) -> int:
    """Be the worker that the order names, in place of the socket for requests."""
    WORKERS[order.requests](socket.socket(fileno=descriptors[0]))
    return 0


# --- The parent ----------------------------------------------------------------------------------


class Recording:
    """An owner of slots that writes down what it is told.

    Attributes:
        said_all: each message, and "started" and "ended".
        alive_at_end: whether the process was alive when it was forgotten.
        lost: instances that the worker could still choose at its end.
    """

    def __init__(self) -> None:
        self.said_all: asyncio.Queue[object] = asyncio.Queue()
        self.alive_at_end: list[bool] = []
        self.lost: list[str] = []

    def started(self, slot: Slot) -> None:
        slot.send(Listen())
        self.said_all.put_nowait("started")

    def resumed(self, slot: Slot) -> None:
        self.said_all.put_nowait(("resumed", dict(slot.tables)))

    def said(self, slot: Slot, message: ToParent) -> None:
        self.said_all.put_nowait(message)

    def ended(self, slot: Slot, unapplied: Collection[str]) -> None:
        self.alive_at_end.append(is_alive(slot.pid))
        self.lost += unapplied
        self.said_all.put_nowait("ended")

    async def until(self, wanted: object) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self.said_all.get() != wanted:
                pass


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


class FlakySupervision(Supervision):
    """It fails to fork while an error is set."""

    def __init__(self, made: Supervision) -> None:
        super().__init__(made._control, made._news, {}, is_first=True)
        self.error: Exception | None = None
        self.failed = 0

    def fork(self, order: object, descriptors: Sequence[int]) -> tuple[int, int]:
        if self.error is not None:
            self.failed += 1
            raise self.error
        return super().fork(order, descriptors)


class Scene:
    def __init__(self, supervision: FlakySupervision, sockets: list[socket.socket]) -> None:
        self.supervision = supervision
        self.parent = Recording()
        self.sockets = sockets
        self.slot: Slot
        self.running: asyncio.Task[None]

    def begin(
        self,
        worker: Callable[[socket.socket], None],
        running: RunningWorker | None = None,
        *,
        is_last: bool = False,
    ) -> None:
        order = WorkerOrder(Settings(), 1, 2, worker.__name__, 1, 0)
        sockets = SlotSockets(self.supervision, PortSockets(self.sockets))
        counts = self.sockets[0].fileno()  # any descriptor: these workers count nothing
        self.slot = Slot(
            *(order, sockets, counts, self.supervision, self.parent, LoopClock(), running),
            is_last=is_last,
        )
        self.running = asyncio.create_task(self.slot.run())

    async def result(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.running

    @property
    def has_closed(self) -> bool:
        """Whether the system gives the sockets no connection any more."""
        return all(each.fileno() == -1 for each in self.sockets)


@pytest.fixture(scope="module")
def supervised() -> Iterator[Supervision]:
    with supervision(work) as made:
        yield made


@pytest.fixture
async def scene(anyio_backend, supervised, monkeypatch):
    monkeypatch.setattr(module, "RESTART_SHORTEST", 0.01)
    scene = Scene(FlakySupervision(supervised), await listening_sockets("127.0.0.1", 0))
    yield scene
    scene.slot.stop()
    await asyncio.wait((scene.running,))


# --- The start -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("worker", "reason"),
    [
        (refuses, "the certificate is gone"),
        (ends_at_once, "its process has ended"),
        (never_listens, "it does not listen in time"),
    ],
)
async def test_a_first_worker_that_does_not_listen_fails_the_start(
    scene, monkeypatch, worker, reason
):
    if worker is never_listens:
        monkeypatch.setattr(module, "START_TIMEOUT", 0.01)
    scene.begin(worker)
    with pytest.raises(WorkersError, match=f"before it accepted connections: {reason}"):
        await scene.result()
    assert scene.has_closed
    assert scene.parent.alive_at_end == [False]


async def test_a_first_worker_that_cannot_be_forked_fails_the_start(scene):
    scene.supervision.error = OSError(errno.EAGAIN, "no more processes")
    scene.begin(good)
    with pytest.raises(WorkersError, match="no more processes"):
        await scene.result()


# --- The next worker -----------------------------------------------------------------------------


async def test_a_worker_that_ends_has_a_successor(scene):
    scene.begin(ends_when_told)
    await scene.parent.until(WorkerListens())
    scene.slot.tables["e"] = KNOWN
    assert scene.slot.tell(1, "e", None) == {"e-A-1"}
    await scene.parent.until("ended")
    assert scene.parent.lost == ["e-A-1"]
    await scene.parent.until(WorkerListens())
    assert not scene.has_closed


async def test_a_shortage_is_waited_for(scene):
    scene.begin(ends_when_told)
    await scene.parent.until(WorkerListens())
    scene.supervision.error = OSError(errno.EMFILE, "no more descriptors")
    scene.slot.send(TABLE)
    for _ in range(3):
        await scene.parent.until("ended")
    assert scene.supervision.failed >= 2
    scene.supervision.error = None
    await scene.parent.until(WorkerListens())


async def test_without_a_supervisor_the_sockets_are_closed(scene):
    """So the system gives connections to the other workers."""
    scene.begin(ends_when_told)
    await scene.parent.until(WorkerListens())
    scene.supervision.error = SupervisorGone("gone")
    scene.slot.send(TABLE)
    with pytest.raises(SupervisorGone):
        await scene.result()
    assert scene.has_closed


async def test_a_worker_that_hangs_is_replaced(scene, monkeypatch, caplog):
    monkeypatch.setattr(module, "CHECK_PAUSE", 0)
    monkeypatch.setattr(module, "CHECK_TIMEOUT", 0.01)
    scene.begin(hangs)
    await scene.parent.until("ended")
    await scene.parent.until(WorkerListens())
    assert "it answers nothing" in caplog.text
    assert not scene.parent.alive_at_end[0]


async def test_a_worker_is_checked_again_and_again(scene, monkeypatch):
    monkeypatch.setattr(module, "CHECK_PAUSE", 0)
    scene.begin(good)
    for _ in range(3):
        await scene.parent.until(WorkerChecked())
    scene.slot.tables["e"] = KNOWN
    assert scene.slot.tell(7, "e", None) == {"e-A-1"}
    assert scene.slot.tell(8, "e", None) == ()
    await scene.parent.until(Applied(7))
    assert scene.slot.applied(7) == {"e-A-1"}


# --- A worker that has outlived its parent -------------------------------------------------------


class Outliving(NamedTuple):
    """A worker of an earlier parent, and the link that it has made with the next one."""

    running: RunningWorker
    link: socket.socket


def outliving(supervised: Supervision) -> Outliving:
    ours, theirs = socket.socketpair()
    order = WorkerOrder(Settings(), 1, 2, good.__name__, 1, 0)
    with theirs:
        running = RunningWorker(*supervised.fork(order, [theirs.fileno()]), 1, 0)
    return Outliving(running, ours)


async def test_a_worker_that_comes_back_says_what_it_knows(scene, supervised):
    worker = outliving(supervised)
    scene.begin(good, worker.running)
    link = await WorkerLink.over(worker.link, TO_PARENT)
    assert not scene.slot.came(worker.running.pid + 1, lambda: link), "another process"
    assert scene.slot.came(worker.running.pid, lambda: link)
    await scene.parent.until(("resumed", {"e": KNOWN}))
    assert scene.slot.tell(1, "e", KNOWN) == ()
    assert scene.slot.tell(2, "e", None) == {"e-A-1"}
    await scene.parent.until(Applied(2))
    scene.slot.drain()
    await scene.result()


async def test_a_worker_that_does_not_come_back_is_replaced(scene, supervised, monkeypatch):
    monkeypatch.setattr(module, "RELINK_TIMEOUT", 0.01)
    worker = outliving(supervised)
    with worker.link:
        scene.begin(good, worker.running)
        await scene.parent.until("ended")
        assert scene.parent.alive_at_end == [False]
        await scene.parent.until(WorkerListens())


async def test_a_worker_that_has_ended_meanwhile_is_replaced_at_once(scene, supervised):
    worker = outliving(supervised)
    worker.link.close()
    scene.begin(good, worker.running)
    await scene.parent.until("ended")
    await scene.parent.until(WorkerListens())


@pytest.mark.parametrize("comes_first", [True, False])
async def test_a_worker_of_old_code_retires_once_it_is_told(scene, supervised, comes_first):
    worker = outliving(supervised)
    scene.begin(good, worker.running, is_last=True)
    link = await WorkerLink.over(worker.link, TO_PARENT)
    if comes_first:
        assert scene.slot.came(worker.running.pid, lambda: link)
        await scene.parent.until(("resumed", {"e": KNOWN}))
        scene.slot.retire()
    else:
        scene.slot.retire()
        assert scene.slot.came(worker.running.pid, lambda: link)
    await scene.parent.until(Drained(False))
    await scene.result()


async def test_a_worker_of_old_code_has_no_successor(scene, supervised):
    worker = outliving(supervised)
    worker.link.close()
    scene.begin(good, worker.running, is_last=True)
    await scene.result()
    assert scene.parent.alive_at_end == [False]


# --- The end -------------------------------------------------------------------------------------


async def test_a_drain_is_the_last_of_it(scene):
    scene.begin(good)
    await scene.parent.until(WorkerListens())
    scene.slot.drain()
    await scene.result()
    assert scene.slot.has_drained
    assert scene.has_closed
    assert scene.parent.alive_at_end == [False]


async def test_a_drained_worker_that_lingers_is_killed(scene, monkeypatch):
    monkeypatch.setattr(module, "END_TIMEOUT", 0.01)
    scene.begin(lingers)
    await scene.parent.until(WorkerListens())
    scene.slot.drain()
    await scene.parent.until(Drained(False))
    assert scene.has_closed
    await scene.result()
    assert scene.parent.alive_at_end == [False]


async def test_a_worker_that_ends_in_its_drain_has_no_successor(scene):
    scene.begin(ends_in_its_drain)
    await scene.parent.until(WorkerListens())
    scene.slot.drain()
    await scene.result()
    assert not scene.slot.has_drained
    assert scene.has_closed
    assert scene.parent.alive_at_end == [False]


async def test_a_drain_between_two_workers_starts_none(scene, monkeypatch):
    monkeypatch.setattr(module, "RESTART_SHORTEST", PATIENCE)
    scene.begin(ends_when_told)
    await scene.parent.until(WorkerListens())
    scene.slot.send(TABLE)
    await scene.parent.until("ended")
    scene.slot.drain()
    await scene.result()
    assert scene.has_closed


async def test_a_drain_before_the_first_worker_starts_none(scene):
    scene.begin(good)
    scene.slot.drain()
    await scene.result()
    assert scene.parent.alive_at_end == []
