"""partway.gateway.workers.front: what the parent tells its workers, and takes from them."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.routing.router import RoutedInstance, RoutedVariant, Router
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.network.silent_hosts import SilentHosts
from partway.gateway.quota import LiveGateways
from partway.gateway.timing.clock import LoopClock
from partway.gateway.workers import front
from partway.gateway.workers.front import WorkersFront
from partway.gateway.workers.messages import (
    Applied,
    Drained,
    GatewayState,
    HoldRequests,
    HostSuspected,
    InstanceIdle,
    InstanceUnreachable,
    KeepOnly,
    Table,
)
from partway.gateway.workers.shared_counts import SharedRows
from partway.gateway.workers.slot import instances_of
from partway.gateway.workers.supervision import WorkersError
from partway.gateway.workers.workers_setup import WorkersSetup
from tests.gateway.workers.rows import shared_rows


class FakeSlot:
    """A slot whose worker takes every message, and answers none.

    Attributes:
        sent: the messages.
        unapplied: the instances that each table removes, by its number.
    """

    def __init__(self, row: int) -> None:
        self.order = SimpleNamespace(row=row)
        self.has_drained = False
        self.has_been_stopped = False
        self.link = None
        self.is_last = False
        self.sent = []
        self.tables = {}
        self.unapplied = {}

    def send(self, message):
        self.sent.append(message)
        return True

    def tell(self, number, endpoint, known):
        earlier = self.tables.pop(endpoint, None)
        if known is not None:
            self.tables[endpoint] = known
        if known == earlier:
            return ()
        variants, prediction = known or (None, PredictionPolicy())
        self.send(Table(number, endpoint, variants, prediction))
        self.unapplied[number] = instances_of(earlier) - instances_of(known)
        return self.unapplied[number]

    def applied(self, number):
        return self.unapplied.pop(number)

    def drain(self):
        """Do nothing: the test says when it has ended."""

    def stop(self):
        self.has_been_stopped = True

    close = stop

    @property
    def last_number(self):
        return max(self.unapplied)


def variants_of(*instances: str) -> tuple[RoutedVariant, ...]:
    place = Place("e", Address("h", 1), StreamPolicy(), "A")
    return (RoutedVariant("A", 1.0, tuple(RoutedInstance(each, place) for each in instances)),)


class Scene:
    """A front with two workers, of a gateway that is as large as the front needs."""

    def __init__(self, rows) -> None:
        self.rows = rows
        self.predictions = {}
        self.gateway = SimpleNamespace(
            dispatcher=None,
            streams=SimpleNamespace(metrics=SimpleNamespace(registry=CollectorRegistry())),
            clock=LoopClock(),
            router=Router(counts=rows[0]),
            prediction_of=lambda name: self.predictions.get(name, PredictionPolicy()),
            end_has_failed=False,
            gateways=LiveGateways(),
            fleet=SimpleNamespace(is_ready=True),
        )
        supervision = SimpleNamespace(is_first=True, is_up=lambda: None)
        self.setup = WorkersSetup.__new__(WorkersSetup)
        self.setup.supervision = supervision
        self.setup._rows = SharedRows(3, -1, rows[0])
        self.setup._data = None
        self.front = WorkersFront(self.gateway, supervision, self.setup._rows)
        self.slots = self.front._slots
        self.slots += [FakeSlot(1), FakeSlot(2)]

    def change(self, variants: tuple[RoutedVariant, ...] | None) -> None:
        """Change an endpoint as the fleet does."""
        self.gateway.router.update("e", variants)
        self.front._tables.changed("e")

    @property
    def tables(self) -> list[Table]:
        """The tables that the second worker has been sent."""
        return [each for each in self.slots[1].sent if isinstance(each, Table)]


@pytest.fixture
async def scene(anyio_backend):
    with shared_rows(3) as rows:
        yield Scene(rows)


async def test_a_start_can_be_ended(scene):
    stop, begun = asyncio.Event(), asyncio.Event()

    async def start_behind(_: object, *, undoes_failure: bool) -> None:
        begun.set()
        await asyncio.Event().wait()

    scene.gateway.start_behind = start_behind
    starting = asyncio.create_task(scene.setup.start(scene.gateway, stop))
    await begun.wait()
    stop.set()
    assert await starting is None


async def test_a_start_that_fails_says_why(scene, capsys):
    async def start_behind(_: object, *, undoes_failure: bool) -> None:
        raise WorkersError("there is no room")

    scene.gateway.start_behind = start_behind
    assert await scene.setup.start(scene.gateway, asyncio.Event()) is None
    assert "there is no room" in capsys.readouterr().err


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_later_start_that_fails_leaves_workers_to_the_next_process(
    scene, monkeypatch, caplog, is_first
):
    """They may have streams, and the supervisor starts another gateway process."""

    class Ended(Exception):
        pass

    def end(status: int) -> None:
        raise Ended(status)

    async def no_room(front: WorkersFront) -> None:
        front._slots += scene.slots
        raise WorkersError("there is no room")

    async def start_behind(front: WorkersFront, *, undoes_failure: bool) -> None:
        assert undoes_failure is is_first
        await front.open()

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(WorkersFront, "_open", no_room)
    scene.gateway.start_behind = start_behind
    scene.setup.supervision.is_first = is_first
    scene.setup._hastens = asyncio.Event()
    starting = scene.setup.start(scene.gateway, asyncio.Event())
    if is_first:
        assert await starting is None
    else:
        with pytest.raises(Ended, match="1"):
            await starting
        assert "this gateway process cannot start" in caplog.text
        assert "there is no room" in caplog.text
    assert [each.has_been_stopped for each in scene.slots] == [is_first, is_first]


async def test_a_handover_that_fails_leaves_all_to_the_next_process(scene, monkeypatch, caplog):
    """This one has let its workers' requests wait, so it cannot go on."""

    class Ended(BaseException):
        pass

    def end(status: int) -> None:
        raise Ended(status)

    async def aclose() -> None:
        raise ZeroDivisionError("of the store")

    monkeypatch.setattr(os, "_exit", end)
    scene.gateway.store = SimpleNamespace(aclose=aclose)
    with pytest.raises(Ended, match="1"):
        await scene.setup._hand_over(scene.front)
    assert "the handover has failed" in caplog.text
    assert [each.sent for each in scene.slots] == [[HoldRequests()], [HoldRequests()]]


async def test_a_change_of_the_prediction_policy_alone_is_told(scene):
    scene.change(variants_of("i"))
    scene.change(variants_of("i"))
    assert len(scene.tables) == 1, "nothing has changed"
    scene.predictions["e"] = PredictionPolicy("/other")
    scene.change(variants_of("i"))
    assert [each.prediction.route for each in scene.tables] == [None, "/other"]


async def test_an_endpoint_that_is_gone_is_told(scene):
    scene.change(variants_of("i"))
    scene.change(None)
    assert scene.tables[-1].variants is None
    assert scene.slots[1].sent[-1] == KeepOnly(())


async def test_an_instance_is_idle_when_all_workers_have_the_new_table(scene):
    idle = []
    scene.change(variants_of("i"))
    scene.gateway.router.load("i").on_idle = lambda: idle.append("i")
    scene.change(variants_of("j"))
    for each in scene.slots:
        assert idle == []
        scene.front.said(each, Applied(each.last_number))
    assert idle == ["i"]


async def test_news_of_a_forgotten_instance_makes_no_load(scene):
    scene.change(variants_of("i"))
    scene.change(variants_of("j"))
    scene.gateway.router.forget("i")
    for each in scene.slots:
        scene.front.said(each, Applied(each.last_number))
        scene.front.said(each, InstanceIdle("i"))
        scene.front.said(each, InstanceUnreachable("i"))
        scene.front.ended(each, ["i"])
    assert [*scene.gateway.router.loads] == ["j"]


async def test_workers_hear_how_many_gateways_divide_a_share(scene):
    scene.gateway.gateways.count(3)
    scene.front._tell_state()
    assert [each.sent for each in scene.slots] == [[GatewayState(True, 3)]] * 2


async def test_a_missed_dial_reaches_the_instance(scene):
    told = []
    scene.change(variants_of("i"))
    scene.gateway.router.load("i").on_unreachable = lambda: told.append("i")
    scene.front.said(scene.slots[0], InstanceUnreachable("i"))
    assert told == ["i"]


async def test_all_workers_ask_a_host_that_one_suspects(scene, monkeypatch):
    hosts = SilentHosts()
    hosts.on_suspected = scene.front._tell_suspected
    monkeypatch.setattr(front, "silent_hosts", hosts)
    for each in scene.slots:
        scene.front.said(each, HostSuspected("192.0.2.1", 80))
    for each in scene.slots:
        assert each.sent == [HostSuspected("192.0.2.1", 80)], "told once"


async def test_the_end_of_a_worker_frees_instances_that_drain(scene):
    """These have left the table, and the worker has had streams on them."""
    idle = []
    scene.change(variants_of("i"))
    scene.gateway.router.load("i").on_idle = lambda: idle.append("i")
    scene.rows[1].add("instance i streams", 2)
    scene.change(variants_of("j"))
    for each in scene.slots:
        scene.front.said(each, Applied(each.last_number))
    assert idle == []
    scene.front.ended(scene.slots[0], ())
    assert idle == ["i"]
    assert scene.rows[2].total("instance i streams") == 0


@pytest.mark.parametrize("has_failed", [False, True])
async def test_a_failed_drain_of_a_worker_is_the_gateways(scene, has_failed):
    scene.front.announce_end()
    scene.front.said(scene.slots[0], Drained(has_failed))
    scene.slots[0].has_drained = True
    scene.front.ended(scene.slots[0], ())
    assert scene.gateway.end_has_failed is has_failed


async def test_a_worker_that_ends_without_its_drain_is_a_failure_of_the_end(scene):
    scene.front.ended(scene.slots[0], ())
    assert not scene.gateway.end_has_failed, "it is replaced"
    scene.front.announce_end()
    scene.front.ended(scene.slots[1], ())
    assert scene.gateway.end_has_failed
