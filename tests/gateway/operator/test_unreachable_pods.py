"""partway.gateway.operator.unreachable_pods: two gateways, one pod, and few at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from partway.gateway.cluster.answers import Collection
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.cluster.watched_collection import WatchedCollection
from partway.gateway.operator.counted_reports import CountedReports
from partway.gateway.operator.gateway_pods import GatewayPods
from partway.gateway.operator.limits import (
    DELETION_WINDOW,
    LOOK_DELAY,
    REPORT_LIFETIME,
    UNREACHABLE_NODE_TIME,
)
from partway.gateway.operator.recent_deletions import RecentDeletions
from partway.gateway.operator.unreachable_pods import (
    UnreachablePods,
    is_disruption,
)
from tests.gateway.cluster.fake_api_server import JsonObject, failure
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.operator.a_cluster import (
    PODS,
    REPORTS,
    SLICES,
    PlayedCluster,
    a_report,
    gateways_slice,
    names_of,
)
from tests.gateway.streams.fakes import FakeClock, FakeTimer

LABEL = "partway.dev/unreachable"


def a_pod(name: str, model: str = "one", **status: str) -> JsonObject:
    """A running pod that the Deployment of a DeployedModel has made."""
    owner = {"kind": "ReplicaSet", "name": f"{model}-5d4f", "uid": "set", "controller": True}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "labels": {"partway.dev/model": model},
            "ownerReferences": [owner],
        },
        "status": {"phase": "Running", **status},
    }


def test_when_the_network_is_at_fault():
    pairs = [(0, 0), (1, 1), (2, 2), (3, 3), (3, 5), (3, 6), (50, 100), (51, 100)]
    assert [is_disruption(*each) for each in pairs] == [
        False, False, False, True, True, False, False, True,
    ]  # fmt: skip


class StandingClock(FakeClock):
    """Stands still, but for the moment before each look, unless that is to be seen."""

    delays = False

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> FakeTimer:
        timer = super().call_later(delay, callback, *args)
        if delay == LOOK_DELAY and not self.delays:
            asyncio.get_running_loop().call_soon(lambda: timer.cancelled or timer.callback())
        return timer


class Watched:
    """The deleter of a cluster's unreachable pods, on a clock that stands still."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self.cluster, self.clock = cluster, StandingClock()
        self.server = ApiServer(ClusterSettings(cluster.url, "default"), self.clock)
        self.gateways = GatewayPods(self.server, "gateways", SLICES[0], self.clock)
        pods = Collection(*PODS, "default", "partway.dev/model")
        self.pods = WatchedCollection(self.server, pods, self.clock, lambda *_: self.look())
        self.look: Callable[[], object] = lambda: None
        self.unreachable: UnreachablePods | None = None
        self.deletions = RecentDeletions(self.clock)
        cluster.put(*SLICES, gateways_slice("g", "h"))

    def have(self, *pods: JsonObject) -> None:
        for each in pods:
            self.cluster.put(*PODS, each)

    def report(self, *pods: str, uid: str = "") -> None:
        """Have two gateways report pods, or renew their reports."""
        for pod in pods:
            for gateway in ("g", "h"):
                self.cluster.put(*REPORTS, a_report(pod, gateway, uid))

    def left(self) -> list[str]:
        return names_of(self.cluster.all(*PODS))

    async def start(self) -> None:
        made = UnreachablePods(self.server, self.pods, self.gateways, self.deletions, self.clock)
        self.unreachable, self.look = made, made.look
        self.gateways.on_change = made.look
        self.pods.start()
        self.gateways.start()
        await soon(self.pods.listed.wait())
        await soon(self.gateways.slices.listed.wait())
        made.start()
        await soon(made.reports.copy.listed.wait())

    async def stop(self) -> None:
        if self.unreachable is not None:
            await self.unreachable.aclose()
        await self.pods.aclose()
        await self.gateways.aclose()

    async def aclose(self) -> None:
        await self.stop()
        await self.server.aclose()

    async def pass_time(self, seconds: float) -> None:
        """Let time pass once a pause ends then, and no request is under way."""
        due = self.clock.now + seconds
        await eventually(lambda: any(abs(each.due - due) < 1e-6 for each in self.clock.armed))
        self.clock.advance_to(due)

    async def renew(self, *pods: str) -> None:
        """Let a deletion window pass, in which gateways renew their reports."""
        for _ in range(3):
            self.report(*pods)
            await eventually(self.has_seen_all)
            self.clock.advance(DELETION_WINDOW / 3)
        self.report(*pods)

    def has_seen_all(self) -> bool:
        """Whether the copy has the newest version of each report."""
        assert self.unreachable is not None
        newest = {
            name: each["metadata"]["resourceVersion"]
            for (_, name), each in self.cluster.all(*REPORTS).items()
        }
        seen = self.unreachable.reports.copy.objects
        return newest == {
            key.name: each["metadata"]["resourceVersion"] for key, each in seen.items()
        }


@pytest.fixture
async def watched(cluster: PlayedCluster) -> AsyncIterator[Watched]:
    watched = Watched(cluster)
    yield watched
    await watched.aclose()


async def test_a_pod_that_two_gateways_report_is_labelled_and_deleted(watched):
    watched.have(a_pod("a"), a_pod("b"))
    await watched.start()
    watched.cluster.put(*REPORTS, a_report("b", "g"))
    watched.report("a")
    await eventually(lambda: watched.left() == ["b"])
    patch, delete = [each for each in watched.cluster.asked if each.method != "GET"]
    assert patch.body == {"metadata": {"uid": "uid-of-a", "labels": {LABEL: "true"}}}
    assert delete.body["preconditions"] == {"uid": "uid-of-a"}


async def test_a_burst_of_changes_costs_one_look(watched, monkeypatch):
    looks = []

    def agreed(self, gateways):
        looks.append(len(self.copy.objects))
        return []

    monkeypatch.setattr(CountedReports, "agreed", agreed)
    await watched.start()
    await eventually(lambda: looks)
    watched.clock.delays = True
    looks.clear()
    watched.report(*map(str, range(50)))
    await eventually(lambda: len(watched.unreachable.reports.copy.objects) == 100)
    assert len(looks) <= 1
    await watched.pass_time(LOOK_DELAY)
    await eventually(lambda: looks[-1:] == [100])
    assert len(looks) <= 2


async def test_few_are_deleted_at_a_time(watched):
    watched.have(*map(a_pod, "abcd"))
    await watched.start()
    watched.report("a", "b")
    await eventually(lambda: watched.left() == ["b", "c", "d"])
    await watched.renew("b", "c")
    await eventually(lambda: watched.left() == ["c", "d"])


async def test_models_take_turns(watched):
    """Pods of the first model are lost one after the other, and do not keep up the second's."""
    watched.have(*(a_pod(f"a{number}") for number in range(9)), a_pod("b", model="two"))
    await watched.start()
    watched.report("a0")
    await eventually(lambda: "a0" not in watched.left())
    await watched.renew("a1", "b")
    await eventually(lambda: "b" not in watched.left())
    assert "a1" in watched.left()
    await watched.renew("a1", "a2")
    await eventually(lambda: "a1" not in watched.left())


async def test_other_pods_are_left_alone(watched):
    """Each wrong one comes before the last in the order of names, and would be deleted first."""
    ends = {"deletionTimestamp": "2026-11-22T16:31:15Z"}
    leaving, unowned, others = a_pod("leaving"), a_pod("by-hand"), a_pod("a-web-pod")
    leaving["metadata"] |= ends
    del unowned["metadata"]["ownerReferences"]
    others["metadata"]["labels"] = {"app": "web"}
    kept = [others, a_pod("again"), unowned, a_pod("coming", phase="Pending"), leaving]
    further = [a_pod(f"well-{number}") for number in range(6)]
    watched.have(*kept, *further, a_pod("the-last"))
    await watched.start()
    watched.report("again", uid="an earlier one's")
    watched.report("a-web-pod", "by-hand", "coming", "gone", "leaving", "the-last")
    await eventually(lambda: "the-last" not in watched.left())
    await watched.renew("a-web-pod", "by-hand", "coming", "gone", "leaving", "well-0")
    await eventually(lambda: "well-0" not in watched.left())
    names = {each["metadata"]["name"] for each in kept}
    assert names <= {*watched.left()}


async def test_none_is_deleted_while_most_are_reported(watched, caplog):
    caplog.set_level(logging.INFO, "partway")
    watched.have(*map(a_pod, "abcde"))
    watched.cluster.hold_events = True
    await watched.start()
    watched.report("a", "b", "c")
    watched.cluster.release_events()
    await eventually(lambda: "cannot reach most pods" in caplog.text)
    await watched.renew("a", "b", "c")
    assert watched.left() == [*"abcde"]
    assert caplog.text.count("cannot reach most pods") == 1
    for gateway in ("g", "h"):
        watched.cluster.remove(*REPORTS, f"c.{gateway}")
    await eventually(lambda: watched.left() == [*"bcde"])
    assert "gateways reach most pods again" in caplog.text


async def test_a_successor_deletes_none_at_first(watched, caplog):
    watched.have(a_pod("a"), a_pod("b"))
    watched.deletions.follow_another()
    await watched.start()
    watched.report("a")
    await eventually(lambda: "none may be deleted yet" in caplog.text)
    assert watched.left() == ["a", "b"]
    await watched.renew("a")
    assert caplog.text.count("none may be deleted yet") == 1
    await eventually(lambda: watched.left() == ["b"])
    deleted = [each for each in watched.cluster.asked if each.method == "DELETE"]
    assert [each.path.rpartition("/")[2] for each in deleted] == ["a"]


async def test_a_pod_that_is_seen_after_its_reports(watched):
    await watched.start()
    watched.report("a")
    await eventually(lambda: len(watched.unreachable.reports.copy.objects) == 2)
    watched.have(a_pod("a"))
    await eventually(lambda: watched.left() == [])


async def test_a_gateway_that_is_seen_after_its_reports(watched):
    watched.have(a_pod("a"))
    watched.cluster.put(*SLICES, gateways_slice("g"))
    await watched.start()
    watched.report("a")
    await eventually(lambda: len(watched.unreachable.reports.copy.objects) == 2)
    assert watched.left() == ["a"]
    watched.cluster.put(*SLICES, gateways_slice("g", "h"))
    await eventually(lambda: watched.left() == [])


async def test_a_deletion_that_fails_stops_no_other_and_is_tried_again(watched, caplog):
    watched.have(a_pod("a"), a_pod("b", model="two"), *map(a_pod, "cde"))
    watched.cluster.fault = lambda asked: (
        failure(403, "Forbidden")
        if asked.method == "DELETE" and asked.path.endswith("/a")
        else None
    )
    await watched.start()
    watched.report("a", "b")
    await eventually(lambda: "b" not in watched.left())
    watched.cluster.fault = lambda asked: None
    await watched.renew("a")
    await eventually(lambda: "a" not in watched.left())
    assert caplog.text.count("could not be deleted") == 1


async def test_a_deletion_whose_answer_is_lost_counts(watched, caplog):
    watched.have(*map(a_pod, "abcde"))
    watched.cluster.fault = lambda asked: (
        failure(500, "InternalError") if asked.method == "DELETE" else None
    )
    await watched.start()
    watched.report("a", "b")
    await eventually(lambda: "could not be deleted" in caplog.text)
    await eventually(lambda: "none may be deleted yet" in caplog.text)
    assert len([each for each in watched.cluster.asked if each.method == "DELETE"]) == 1


async def test_a_node_is_closed_for_a_while_only(watched):
    lasting, other = a_pod("a"), a_pod("b")
    lasting["metadata"]["labels"][LABEL] = "true"
    lasting["metadata"]["deletionTimestamp"] = "2026-11-22T16:31:15Z"
    watched.have(lasting, other)
    await watched.start()
    await watched.pass_time(UNREACHABLE_NODE_TIME)
    await eventually(lambda: LABEL not in watched.cluster.find(*PODS, "a")["metadata"]["labels"])
    (patch,) = [each for each in watched.cluster.asked if each.method != "GET"]
    assert patch.body == {"metadata": {"uid": "uid-of-a", "labels": {LABEL: None}}}


async def test_old_reports_are_removed(watched):
    watched.have(a_pod("a"), a_pod("b"))
    await watched.start()
    watched.cluster.put(*REPORTS, a_report("a", "g"))
    await eventually(lambda: watched.unreachable.reports.copy.objects)
    await watched.pass_time(REPORT_LIFETIME)
    await eventually(lambda: not watched.cluster.all(*REPORTS))
    watched.cluster.put(*REPORTS, a_report("a", "h"))
    await eventually(lambda: watched.unreachable.reports.copy.objects)
    assert watched.left() == ["a", "b"]
