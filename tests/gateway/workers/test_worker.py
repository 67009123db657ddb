"""partway.gateway.workers.worker: what a worker answers its parent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest

from partway.gateway.network.silent_hosts import SilentHosts
from partway.gateway.settings.settings import Settings
from partway.gateway.workers import link as link_module
from partway.gateway.workers import worker
from partway.gateway.workers.link import WorkerLink
from partway.gateway.workers.messages import (
    TO_PARENT,
    TO_WORKER,
    Applied,
    CutInstance,
    Drain,
    Drained,
    GatewayState,
    GiveMetrics,
    HostSuspected,
    Listen,
    Retire,
    ToParent,
    Welcome,
    WorkerCheck,
    WorkerChecked,
    WorkerHas,
    WorkerHasAll,
    WorkerHello,
    WorkerListens,
    WorkerMetrics,
)
from partway.gateway.workers.parent_link import ParentUnavailable
from partway.gateway.workers.worker import GatewayWorker
from partway.gateway.workers.worker_ports import PortSockets, WorkerPorts
from tests.gateway.workers.rows import shared_rows
from tests.gateway.workers.test_messages import TABLE

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60

#: Everything that a worker says to a later parent.
FROM_WORKER = msgspec.msgpack.Decoder(
    ToParent | WorkerHello, dec_hook=lambda kind, value: kind(value)
)


class Scene:
    """A worker without sockets, and its parent's side of the link.

    Attributes:
        path: where the worker dials its parent.
        hosts: the worker's connections to containers.
    """

    def __init__(
        self, parent: WorkerLink, worker: GatewayWorker, path: str, hosts: SilentHosts
    ) -> None:
        self.path = path
        self.parent = parent
        self.worker = worker
        self.hosts = hosts
        self.messages = parent.messages()
        self.running = asyncio.create_task(worker.run(PortSockets(()), None))

    async def answer(self, *orders) -> object:
        """Send orders, and return the next message of the worker."""
        for each in orders:
            self.parent.send(each)
        return await anext(self.messages)


@pytest.fixture
async def scene(anyio_backend, tmp_path, monkeypatch):
    hosts = SilentHosts()
    monkeypatch.setattr(worker, "silent_hosts", hosts)
    ours, theirs = socket.socketpair()
    parent = await WorkerLink.over(ours, TO_PARENT)
    link = await WorkerLink.over(theirs, TO_WORKER)
    with shared_rows(2) as rows:
        settings = Settings(apis=frozenset(), shutdown_grace=0.0)
        path = str(tmp_path / "parent")
        scene = Scene(parent, GatewayWorker(settings, rows[1], path, link, 1), path, hosts)
        yield scene
        scene.worker.supervisor_ended()
        scene.parent.abort()
        with suppress(ExceptionGroup):  # of a drain that a test has made fail
            await scene.running
        link.abort()
        await asyncio.sleep(0)  # the transport closes its socket


async def test_it_says_that_it_listens_and_is_there(scene):
    assert await scene.answer(Listen()) == WorkerListens()
    assert await scene.answer(WorkerCheck()) == WorkerChecked()


async def test_an_instance_that_it_has_forgotten_is_not_cut(scene):
    assert await scene.answer(CutInstance("gone"), WorkerCheck()) == WorkerChecked()
    assert scene.worker.router.loads == {}


@pytest.mark.parametrize("is_lost", [False, True])
async def test_streams_on_an_instance_that_is_cut_end_as_it_is_told(scene, is_lost):
    assert TABLE.variants is not None
    instance, told = TABLE.variants[0].instances[0].id, []
    assert await scene.answer(TABLE) == Applied(TABLE.number)
    with scene.worker.router.lease(TABLE.endpoint, TABLE.variants[0].name) as lease:
        lease.ends_by(lambda: told.append(False), lambda: told.append(True))
        assert await scene.answer(CutInstance(instance, is_lost), WorkerCheck()) == WorkerChecked()
    assert told == [is_lost]


async def test_hosts_are_suspected_by_all_processes(scene):
    suspected, told = HostSuspected("192.0.2.1", 80), HostSuspected("192.0.2.2", 80)
    assert await scene.answer(told, WorkerCheck()) == WorkerChecked()
    scene.hosts.suspect(told.host, told.port)  # it is being asked
    scene.hosts.suspect(suspected.host, suspected.port)
    assert await scene.answer() == suspected


async def test_metrics_that_are_too_long_are_left_out(scene, monkeypatch):
    assert len((await scene.answer(GiveMetrics(1))).page) > 1000
    monkeypatch.setattr(link_module, "MAX_MESSAGE", 1000)
    assert await scene.answer(GiveMetrics(2)) == WorkerMetrics(2, "")


async def test_a_drain_ends_it(scene):
    assert await scene.answer(Listen()) == WorkerListens()
    assert await scene.answer(Drain()) == Drained(False)
    scene.parent.abort()
    await scene.running


async def test_a_connection_that_was_just_accepted_outlives_the_retirement(scene, monkeypatch):
    connections = 0
    monkeypatch.setattr(WorkerPorts, "open_connections", property(lambda _: connections))
    assert await scene.answer(Listen()) == WorkerListens()
    scene.parent.send(Retire())
    assert await scene.answer(WorkerCheck()) == WorkerChecked()
    connections = 1  # the loop makes its protocol only now
    assert await scene.answer(WorkerCheck()) == WorkerChecked()
    assert not scene.worker.streams.draining
    connections = 0
    assert await scene.answer() == Drained(False)


async def test_a_drain_that_fails_is_told(scene, monkeypatch):
    async def fails(*_: object) -> None:
        raise RuntimeError("a fault")

    assert await scene.answer(Listen()) == WorkerListens()
    monkeypatch.setattr(scene.worker.streams, "drain", fails)
    assert await scene.answer(Drain()) == Drained(True)
    scene.parent.abort()
    with pytest.raises(ExceptionGroup):
        await scene.running


async def test_the_parents_end_before_it_listens_ends_it(scene):
    scene.parent.abort()
    await scene.running


# --- Several parents -----------------------------------------------------------------------------


@asynccontextmanager
async def next_parent(scene: Scene) -> AsyncIterator[Scene]:
    """End the parent, and answer the worker's hello as the next one."""
    dialled: asyncio.Queue[WorkerLink] = asyncio.Queue()
    server = await asyncio.start_unix_server(
        lambda *both: dialled.put_nowait(WorkerLink(*both, FROM_WORKER)), scene.path
    )
    scene.parent.abort()
    async with asyncio.timeout(PATIENCE):
        scene.parent = await dialled.get()
    scene.messages = scene.parent.messages()
    assert await anext(scene.messages) == WorkerHello(1)
    yield scene
    server.close()


async def test_it_serves_on_with_its_table_and_says_it_to_the_next_parent(scene):
    assert await scene.answer(Listen()) == WorkerListens()
    assert await scene.answer(TABLE) == Applied(TABLE.number)
    async with next_parent(scene):
        assert scene.worker.router.table == {"e": TABLE.variants}
        with pytest.raises(ParentUnavailable) as refused:
            scene.worker._link.check_up()
        assert refused.value.headers["Retry-After"] == "1"
        said = await scene.answer(Welcome())
        assert said == WorkerHas("e", TABLE.variants, TABLE.prediction)
        assert await anext(scene.messages) == WorkerHasAll()
        scene.worker._link.check_up()
        assert await scene.answer(Drain()) == Drained(False)
        scene.parent.abort()
        await scene.running


async def test_the_supervisors_end_between_two_parents_ends_it(scene):
    assert await scene.answer(Listen()) == WorkerListens()
    scene.parent.abort()
    scene.worker.supervisor_ended()
    await scene.running


async def test_a_drain_is_over_for_the_next_parent_too(scene):
    """The parent's end neither ends the drain nor hides its outcome."""
    assert await scene.answer(Listen()) == WorkerListens()
    scene.parent.send(Drain())
    async with next_parent(scene):
        assert await scene.answer(Welcome()) == WorkerHasAll()
        assert await scene.answer() == Drained(False)
        scene.parent.abort()
        await scene.running


async def test_it_divides_shares_by_the_gateways_that_its_parent_counts(scene):
    await scene.answer(GatewayState(True, 3), WorkerCheck())
    assert scene.worker.gateways.part_of(300) == 100
