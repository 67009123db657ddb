"""partway.gateway.operator.busy_pods: pods with open streams are marked, and no others."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from partway.gateway.cluster.answers import Collection
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.cluster.endpoint_slices import ServiceInstance
from partway.gateway.cluster.watched_collection import WatchedCollection
from partway.gateway.fleet.discovered.source import short_id
from partway.gateway.operator import busy_pods
from partway.gateway.operator.busy_pods import BusyPods
from partway.gateway.operator.deletion_costs import COST
from partway.gateway.operator.gateway_pages import GatewayRefuses, GatewaySilent
from partway.gateway.operator.gateway_pods import GatewayPods
from partway.gateway.operator.limits import COST_FALLS_AFTER, LAST_STREAMS_COUNT, STREAMS_INTERVAL
from partway.gateway.operator.open_streams import GatewayStreams
from partway.gateway.timing.clock import LoopClock
from tests.gateway.cluster.fake_api_server import Asked, failure
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.operator.a_cluster import PODS, SLICES, PlayedCluster
from tests.gateway.operator.test_deletion_costs import EVICT, KARPENTER
from tests.gateway.operator.test_gateway_pods import slice_of
from tests.gateway.streams.fakes import FakeClock

READY, DRAINS = {"ready": True}, {"ready": False, "terminating": True}
STARTS = {"ready": False}


class PlayedGateways:
    """What gateways answer, by name; a gateway that has nothing to say is silent."""

    def __init__(self) -> None:
        self.streams: dict[str, dict[str, int]] = {}
        self.error: type[GatewaySilent] = GatewaySilent
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def read(self, gateway: ServiceInstance) -> GatewayStreams:
        if self.meanwhile:
            await self.meanwhile()
        told = self.streams.get(gateway.name)
        if told is None:
            raise self.error("no answer")
        by_instance = {short_id(name, f"uid-of-{name}"): count for name, count in told.items()}
        return GatewayStreams(sum(told.values()), by_instance)

    async def aclose(self) -> None:
        pass


class Busy:
    """The annotator of a cluster's pods, on a clock that stands still between its rounds.

    Only its pauses are on that clock.
    """

    def __init__(self, cluster: PlayedCluster, service: str = "gateways") -> None:
        self.cluster, self.clock, self.gateways = cluster, FakeClock(), PlayedGateways()
        self.server = ApiServer(ClusterSettings(cluster.url, "default"), LoopClock())
        pods = Collection(*PODS, "default", "partway.dev/model")
        self.pods = WatchedCollection(self.server, pods, LoopClock(), lambda *_: None)
        self.followed = GatewayPods(self.server, service, SLICES[0], LoopClock())
        self.busy = BusyPods(self.server, self.pods, self.followed, self.gateways, self.clock)

    def have(self, *names: str, **metadata: object) -> None:
        labels = {"partway.dev/model": "one"}
        for name in names:
            given = {"name": name, "uid": f"uid-of-{name}", "labels": labels, **metadata}
            self.cluster.put(*PODS, {"metadata": given})

    def annotations(self, name: str) -> dict[str, str]:
        return self.cluster.find(*PODS, name)["metadata"].get("annotations") or {}

    def costs(self) -> dict[str, str]:
        """The costs of all model pods that have one."""
        pods = [each["metadata"] for each in self.cluster.all(*PODS).values()]
        models = {each["name"]: each.get("annotations") or {} for each in pods if "labels" in each}
        return {name: said[COST] for name, said in models.items() if COST in said}

    def patched(self) -> list[str]:
        """The pods that were changed, since the last call."""
        asked = self.cluster.asked
        patched = [each.path.rpartition("/")[2] for each in asked if each.method == "PATCH"]
        asked.clear()
        return patched

    async def have_gateways(self, **conditions: dict[str, bool]) -> None:
        for name in conditions:
            if self.cluster.find(*PODS, name) is None:
                self.cluster.put(*PODS, {"metadata": {"name": name, "uid": f"uid-of-{name}"}})
        made = self.cluster.put(*SLICES, slice_of("gateways", **conditions))
        version = made["metadata"]["resourceVersion"]
        copy = self.followed.slices.objects
        await eventually(
            lambda: version in {each["metadata"]["resourceVersion"] for each in copy.values()}
        )

    async def start(self) -> None:
        self.pods.start()
        self.followed.start()
        await soon(self.pods.listed.wait())

    async def aclose(self) -> None:
        await self.busy.aclose()
        await self.followed.aclose()
        await self.pods.aclose()
        await self.server.aclose()

    async def until_read(self) -> None:
        """Wait until a round is over."""
        await eventually(lambda: self.clock.armed)

    async def rounds(self, seconds: float = STREAMS_INTERVAL) -> None:
        """Have the rounds of so many seconds."""
        for _ in range(round(seconds / STREAMS_INTERVAL)):
            self.clock.advance(STREAMS_INTERVAL)
            await self.until_read()


@pytest.fixture
async def busy(cluster: PlayedCluster) -> AsyncIterator[Busy]:
    busy = Busy(cluster)
    await busy.start()
    yield busy
    await busy.aclose()


async def test_pods_with_streams_are_marked_and_let_go_later(busy):
    busy.have("a", "b", "idle")
    busy.gateways.streams = {"g": {"a": 3, "b": 1}, "h": {"a": 2}, "i": {"a": 4}}
    await busy.have_gateways(g=READY, h=STARTS, i=DRAINS)
    await eventually(lambda: len(busy.pods.objects) == 3)
    busy.cluster.hold_events = True  # the answers to writes tell enough
    busy.busy.start()
    await busy.until_read()
    assert busy.annotations("a") == {COST: "8", EVICT: "false", KARPENTER: "true"}
    assert busy.annotations("b") == {COST: "1", EVICT: "false", KARPENTER: "true"}
    assert busy.annotations("idle") == {}
    assert "idle" not in busy.patched()
    busy.gateways.streams = {"g": {"a": 7}, "h": {}, "i": {}}
    await busy.rounds(COST_FALLS_AFTER)
    assert busy.patched() == [], "one stream more or less, and a fall that is new"
    await busy.rounds()
    assert set(busy.patched()) == {"b", "h"}
    assert (busy.annotations("b"), busy.costs()) == ({}, {"a": "8"})


async def test_a_gateway_that_is_silent_makes_all_pods_busy_after_a_while(busy, caplog):
    caplog.set_level(logging.INFO, "partway")
    busy.have("a", "idle")
    busy.have("leaves", deletionTimestamp="2026-11-30T04:00:00Z")
    await busy.have_gateways(g=READY)
    busy.gateways.streams = {"g": {"a": 2}}
    await eventually(lambda: len(busy.pods.objects) == 3)
    busy.busy.start()
    await busy.until_read()
    busy.gateways.streams = {}
    await busy.rounds(LAST_STREAMS_COUNT)
    assert (busy.costs(), busy.busy.unknown) == ({"a": "2"}, frozenset())
    await busy.rounds()
    assert (busy.costs(), busy.busy.unknown) == ({"a": "2", "idle": "1"}, {"g"})
    assert "the streams of a gateway are unknown" in caplog.text
    busy.gateways.streams = {"g": {}}
    await busy.rounds()
    assert "a gateway tells its streams again gateway=g" in caplog.text
    busy.gateways.streams = {}
    await busy.rounds(LAST_STREAMS_COUNT + STREAMS_INTERVAL)
    assert busy.busy.unknown == {"g"}
    await busy.have_gateways(h=READY)
    busy.gateways.streams = {"h": {}}
    await busy.rounds(COST_FALLS_AFTER + STREAMS_INTERVAL)
    assert (busy.costs(), busy.busy.unknown) == ({}, frozenset())
    assert "a gateway is gone, so it has no streams gateway=g" in caplog.text


async def test_a_gateway_without_a_process_has_no_streams(busy):
    busy.have("a")
    await busy.have_gateways(g=STARTS)
    busy.gateways.error = GatewayRefuses
    busy.busy.start()
    await busy.until_read()
    await busy.rounds(LAST_STREAMS_COUNT + STREAMS_INTERVAL)
    assert busy.busy.unknown == frozenset()
    await busy.have_gateways(g=DRAINS)  # it should answer
    await busy.rounds(LAST_STREAMS_COUNT + STREAMS_INTERVAL)
    assert busy.busy.unknown == {"g"}


async def test_gateways_beyond_the_limit_count_as_silent(busy, caplog, monkeypatch):
    monkeypatch.setattr(busy_pods, "MAX_GATEWAYS", 1)
    busy.have("a")
    busy.gateways.streams = {"g": {}, "h": {}}
    await busy.have_gateways(g=READY, h=READY)
    await eventually(lambda: busy.pods.objects)
    busy.busy.start()
    await busy.until_read()
    await busy.rounds(LAST_STREAMS_COUNT + STREAMS_INTERVAL)
    assert (busy.costs(), busy.busy.unknown) == ({"a": "1"}, {"h"})
    assert "there are 2 gateways; the operator reads 1" in caplog.text


async def test_gateways_pods_have_costs_alone(busy):
    for name in ("g", "h"):
        pod = {"metadata": {"name": name, "uid": f"uid-of-{name}", "annotations": {"own": "x"}}}
        busy.cluster.put(*PODS, pod)
    busy.gateways.streams = {"g": {"a": 3, "of-others": 6}, "h": {"a": 1}}
    await busy.have_gateways(g=READY, h=DRAINS)
    busy.busy.start()
    await busy.until_read()
    assert busy.annotations("g") == {"own": "x", COST: "8"}
    assert busy.annotations("h") == {"own": "x"}, "nobody chooses it any more"
    assert busy.patched() == ["g"]
    busy.gateways.streams = {"g": {}, "h": {}}
    await busy.rounds(COST_FALLS_AFTER + 2 * STREAMS_INTERVAL)
    assert busy.patched() == ["g"]
    assert busy.annotations("g") == {"own": "x"}


async def test_gateways_of_another_namespace_are_read_and_not_marked(cluster):
    busy = Busy(cluster, "edge/gateways")
    await busy.start()
    try:
        busy.have("a")
        given = slice_of("gateways", g=READY)
        cluster.put(*SLICES, {**given, "metadata": {**given["metadata"], "namespace": "edge"}})
        busy.gateways.streams = {"g": {"a": 1}}
        await eventually(lambda: busy.pods.objects and busy.followed.slices.objects)
        busy.busy.start()
        await busy.until_read()
        assert busy.patched() == ["a"]
    finally:
        await busy.aclose()


async def test_few_are_written_at_a_time_and_first_streams_first(busy, monkeypatch):
    monkeypatch.setattr(busy_pods, "ANNOTATED_AT_ONCE", 2)
    busy.have("more", annotations={COST: "1", EVICT: "false", KARPENTER: "true"})
    busy.have("new-1", "new-2", "new-3")
    busy.gateways.streams = {"g": {"more": 64, "new-1": 1, "new-2": 2, "new-3": 2}}
    await busy.have_gateways(g=STARTS)
    await eventually(lambda: len(busy.pods.objects) == 4)
    busy.busy.start()
    await busy.until_read()
    rounds = [set(busy.patched())]
    for _ in range(2):
        await busy.rounds()
        rounds.append(set(busy.patched()))
    assert rounds == [{"g", "new-2"}, {"new-1", "new-3"}, {"more"}] or rounds == [
        {"g", "new-3"}, {"new-1", "new-2"}, {"more"},
    ]  # fmt: skip


async def test_a_round_whose_writes_take_long_ends_and_the_next_one_has_fresh_figures(busy):
    busy.have("a", "b", "c")
    busy.gateways.streams = {"g": {"a": 4, "b": 2, "c": 1}}
    await busy.have_gateways(g=DRAINS)
    await eventually(lambda: len(busy.pods.objects) == 3)

    def slow(asked: Asked) -> None:
        if asked.method == "PATCH":
            busy.clock.advance(STREAMS_INTERVAL / 2)
            busy.gateways.streams = {"g": {"a": 4, "b": 2, "c": 8}}

    busy.cluster.fault = slow
    busy.busy.start()
    await eventually(lambda: busy.costs() == {"a": "4", "b": "2"} and busy.clock.armed)
    busy.clock.advance(0)
    await eventually(lambda: "c" in busy.costs())
    assert busy.costs() == {"a": "4", "b": "2", "c": "8"}


async def test_slow_reads_leave_time_for_all_writes(busy):
    busy.have("a")
    busy.gateways.streams = {"g": {"a": 2, "new": 1}}
    await busy.have_gateways(g=DRAINS)
    await eventually(lambda: busy.pods.objects)

    async def slow() -> None:
        busy.have("new")  # a pod may come while gateways are read
        await eventually(lambda: len(busy.pods.objects) == 2)
        busy.clock.advance(STREAMS_INTERVAL)

    busy.gateways.meanwhile = slow
    busy.busy.start()
    await busy.until_read()
    assert busy.costs() == {"a": "2", "new": "1"}


async def test_a_pod_whose_change_fails_holds_up_no_other(busy, caplog):
    busy.have("a", "b", "c")
    busy.gateways.streams = {"g": {"a": 4, "b": 2, "c": 1}}
    await busy.have_gateways(g=DRAINS)
    await eventually(lambda: len(busy.pods.objects) == 3)
    statuses = {"a": 500, "b": 403}

    def fault(asked: Asked) -> web.Response | None:
        status = statuses.get(asked.path.rpartition("/")[2])
        return failure(status, "No") if status and asked.method == "PATCH" else None

    busy.cluster.fault = fault
    busy.busy.start()
    await busy.until_read()
    assert busy.patched() == ["a"], "the API server may be away"
    await busy.rounds()
    assert busy.patched() == ["b", "c", "a"]
    await busy.rounds()
    assert caplog.text.count("the annotations of a pod could not be changed") == 2
    busy.cluster.fault = lambda asked: None
    await busy.rounds()
    assert busy.costs() == {"a": "4", "b": "2", "c": "1"}


async def test_a_gateway_whose_port_is_not_known_is_silent(busy, caplog):
    busy.have("a")
    given = slice_of("gateways", g=READY)
    busy.cluster.put(*SLICES, {**given, "ports": [*given["ports"], {"name": "x", "port": 1}]})
    await eventually(lambda: busy.pods.objects and busy.followed.slices.objects)
    busy.busy.start()
    await busy.until_read()
    await busy.rounds(LAST_STREAMS_COUNT + STREAMS_INTERVAL)
    assert (busy.costs(), busy.busy.unknown) == ({"a": "1"}, {"g"})
    assert "service_port must name one" in caplog.text


async def test_no_gateway_has_no_streams_and_that_is_said_once(busy, caplog):
    caplog.set_level(logging.INFO, "partway")
    busy.have("a")
    empty = {**slice_of("gateways"), "endpoints": None, "ports": None}
    busy.cluster.put(*SLICES, empty)
    await eventually(lambda: busy.pods.objects and busy.followed.slices.objects)
    busy.busy.start()
    await busy.until_read()
    await busy.rounds(LAST_STREAMS_COUNT + STREAMS_INTERVAL)
    assert (busy.costs(), busy.busy.unknown) == ({}, frozenset())
    assert caplog.text.count("gateways are not found by --gateways") == 1
    assert "the Service 'gateways' has no pod" in caplog.text
    busy.cluster.remove(*SLICES, empty["metadata"]["name"])
    await eventually(lambda: not busy.followed.slices.objects)
    await busy.rounds()
    assert "has made no slice of the Service 'gateways'; it must be there" in caplog.text
    assert caplog.text.count("gateways are not found by --gateways") == 2
    busy.gateways.streams = {"g": {}}
    await busy.have_gateways(g=READY)
    await busy.rounds()
    assert caplog.text.count("gateways are found by --gateways") == 1
