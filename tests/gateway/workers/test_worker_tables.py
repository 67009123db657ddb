"""partway.gateway.workers.worker_tables: what workers of an earlier parent are told, and when."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.routing.router import Router
from partway.gateway.fleet.status import EndpointState
from partway.gateway.workers.messages import Table
from partway.gateway.workers.worker_tables import WorkerTables
from tests.gateway.fleet.fakes import turns
from tests.gateway.workers.test_front import FakeSlot, variants_of


class Pending:
    """Endpoints of the store or of a cluster, which are found when a test says so."""

    def __init__(self) -> None:
        self.found = asyncio.Event()

    async def has_found(self, _: float) -> None:
        await self.found.wait()


class Scene:
    """The tables of a new parent, whose fleet is as a test says."""

    def __init__(self) -> None:
        self.states = {}
        self.router = Router()
        self.pending = Pending()
        self.cluster = Pending()
        self.cluster.found.set()
        self.ended = asyncio.Queue()
        self.slots = [FakeSlot(1), FakeSlot(2)]
        gateway = SimpleNamespace(
            router=self.router,
            fleet=SimpleNamespace(status=self._status, informed=self.cluster.found.wait),
            prediction_of=lambda _: PredictionPolicy(),
            pending_endpoints=self.pending,
        )
        self.tables = WorkerTables(gateway, self.slots, self.ended.put_nowait)

    def _status(self, name: str):
        state = self.states.get(name)
        return None if state is None else SimpleNamespace(state=state)

    def known(self, endpoint: str, *instances: str) -> None:
        """Both workers come, and know an endpoint."""
        for slot in self.slots:
            slot.link = "a link"
            slot.tables[endpoint] = variants_of(*instances), PredictionPolicy()
            self.tables.resumed(slot)

    def becomes(self, endpoint: str, state: EndpointState | None, *instances: str) -> None:
        """The fleet has an endpoint so."""
        self.states[endpoint] = state
        self.router.update(endpoint, None if state is None else variants_of(*instances))
        self.tables.changed(endpoint)

    def told(self, slot: FakeSlot) -> list[Table]:
        return [each for each in slot.sent if isinstance(each, Table)]

    def chosen(self, *instances: str) -> list[int]:
        return [self.router.choosers[each] for each in instances]


@pytest.fixture
async def scene(anyio_backend):
    scene = Scene()
    yield scene
    await scene.tables.aclose()


async def test_an_endpoint_stays_as_it_is_until_the_fleets_has_come_up(scene):
    scene.known("e", "a", "b")
    scene.becomes("e", EndpointState.CREATING)
    scene.becomes("e", EndpointState.CREATING, "a")
    assert [scene.told(each) for each in scene.slots] == [[], []]
    assert scene.chosen("a", "b") == [2, 2]
    scene.becomes("e", EndpointState.IN_SERVICE, "a", "c")
    assert [len(scene.told(each)) for each in scene.slots] == [1, 1]
    assert scene.chosen("a", "b", "c") == [0, 2, 0]
    for slot in scene.slots:
        scene.tables.no_longer_chosen(slot.applied(slot.last_number))
    assert scene.chosen("b") == [0]
    assert not scene.router.choosers, "nothing is left behind"


async def test_an_endpoint_that_has_failed_is_told(scene):
    scene.known("e", "a")
    scene.becomes("e", EndpointState.FAILED)
    (table,) = scene.told(scene.slots[0])
    assert table.variants == variants_of()


async def test_an_endpoint_that_has_come_up_before_is_told_at_once(scene):
    scene.becomes("e", EndpointState.IN_SERVICE, "a")
    scene.known("e", "a")
    assert [len(scene.told(each)) for each in scene.slots] == [1, 1], "before they came"
    scene.slots[0].tables["e"] = variants_of("old"), PredictionPolicy()
    scene.tables.resumed(scene.slots[0])
    assert scene.told(scene.slots[0])[-1].variants == variants_of("a")
    assert scene.chosen("old") == [1]


async def test_an_endpoint_that_is_not_stored_any_more_goes_once_all_are_found(scene):
    scene.known("e", "a")
    scene.tables.release_absent()
    await asyncio.sleep(0)
    assert scene.told(scene.slots[0]) == []
    scene.pending.found.set()
    assert [*await scene.ended.get()] == []
    assert scene.told(scene.slots[1])[-1].variants is None


async def test_an_endpoint_that_the_cluster_may_have_stays_until_the_cluster_has_told(scene):
    scene.cluster.found.clear()
    scene.known("e", "a")
    scene.tables.release_absent()
    scene.pending.found.set()
    await turns()
    assert scene.told(scene.slots[0]) == []
    scene.cluster.found.set()
    assert [*await scene.ended.get()] == []


async def test_a_worker_that_starts_meanwhile_knows_the_endpoint_too(scene):
    scene.known("e", "a")
    new = FakeSlot(3)
    scene.slots.append(new)
    scene.tables.started(new)
    assert scene.told(new)[-1].variants == variants_of("a")
    late = FakeSlot(4)
    late.link = "a link"
    scene.slots.append(late)
    first = scene.slots[0]
    first.tables["f"] = variants_of("x"), PredictionPolicy()
    scene.tables.resumed(first)
    assert scene.told(late)[-1].variants == variants_of("x")


async def test_a_worker_that_ends_chooses_nothing(scene):
    idle = []
    scene.known("e", "a")
    scene.router.load("a").on_idle = lambda: idle.append("a")
    scene.tables.ended(scene.slots[0], ())
    assert idle == []
    scene.tables.ended(scene.slots[1], ())
    assert idle == ["a"]
