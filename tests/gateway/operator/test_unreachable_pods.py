"""partway.gateway.operator.unreachable_pods: two gateways, one pod, and few at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from partway.gateway.cluster.answers import Collection
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.cluster.watched_collection import WatchedCollection
from partway.gateway.operator.limits import DELETION_WINDOW, RETRY_INTERVAL
from partway.gateway.operator.unreachable_pods import (
    ReportedPod,
    UnreachablePods,
    agreed,
    most_deletions,
)
from tests.gateway.cluster.fake_api_server import failure
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.operator.a_cluster import PODS, REPORTS, PlayedCluster, names_of
from tests.gateway.streams.fakes import FakeClock


def report(pod: str, gateway: str, uid: str = ""):
    spec = {"pod": pod, "podUID": uid or f"uid-of-{pod}", "gateway": gateway, "since": "then"}
    return {"metadata": {"name": f"{pod}.{gateway}"}, "spec": spec}


def test_who_agrees():
    one = [
        {},
        {"spec": {}},
        report("a", "g"),
        report("b", "g"),
        report("a", "g", "older"),
        report("a", "g"),
    ]
    assert agreed(one) == []
    two = [*one, report("b", "h"), report("a", "h", "older"), report("a", "i", "older")]
    assert agreed(two) == [ReportedPod("a", "older"), ReportedPod("b", "uid-of-b")]


def test_how_many():
    assert [most_deletions(count) for count in (0, 1, 19, 20, 100)] == [1, 1, 1, 2, 10]


class Watched:
    """The deleter of a cluster's unreachable pods, on a clock that stands still."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self.cluster, self.clock = cluster, FakeClock()
        self.server = ApiServer(ClusterSettings(cluster.url, "default"), self.clock)
        pods = Collection(*PODS, "default", "partway.dev/model")
        self.pods = WatchedCollection(self.server, pods, self.clock, lambda *_: None)
        self.unreachable = UnreachablePods(self.server, self.pods, self.clock)

    def have(self, *names: str, **labels: str) -> None:
        for name in names:
            metadata = {"name": name, "uid": f"uid-of-{name}"}
            labels = labels or {"partway.dev/model": "one"}
            self.cluster.put(*PODS, {"metadata": {**metadata, "labels": labels}})

    def report(self, *pods: str, uid: str = "") -> None:
        for pod in pods:
            for gateway in ("g", "h"):
                self.cluster.put(*REPORTS, report(pod, gateway, uid))

    def left(self) -> list[str]:
        return names_of(self.cluster.all(*PODS))

    async def start(self) -> None:
        self.pods.start()
        await soon(self.pods.listed.wait())
        self.unreachable.start()

    async def aclose(self) -> None:
        await self.unreachable.aclose()
        await self.pods.aclose()
        await self.server.aclose()

    async def pass_time(self, seconds: float) -> None:
        """Let time pass once a pause of that length has begun, and no request is under way."""
        await eventually(
            lambda: any(
                abs(each.due - self.clock.now - seconds) < 1e-6 for each in self.clock.armed
            )
        )
        self.clock.advance(seconds)


@pytest.fixture
async def watched(cluster: PlayedCluster) -> AsyncIterator[Watched]:
    watched = Watched(cluster)
    yield watched
    await watched.aclose()


async def test_a_pod_that_two_gateways_report_is_labelled_and_deleted(watched):
    watched.have("a", "b")
    watched.cluster.put(*REPORTS, report("b", "g"))
    watched.report("a")
    await watched.start()
    await eventually(lambda: watched.left() == ["b"])
    patch, delete = [each for each in watched.cluster.asked if each.method != "GET"]
    labels = {"partway.dev/unreachable": "true"}
    assert patch.body == {"metadata": {"uid": "uid-of-a", "labels": labels}}
    assert delete.body["preconditions"] == {"uid": "uid-of-a"}
    watched.cluster.put(*REPORTS, report("b", "h"))
    await watched.pass_time(DELETION_WINDOW)
    await eventually(lambda: watched.left() == [])


async def test_few_are_deleted_at_a_time(watched):
    watched.have("a", "b", "c")
    watched.report("a", "b", "c")
    await watched.start()
    await eventually(lambda: watched.left() == ["b", "c"])
    await watched.pass_time(DELETION_WINDOW)
    await eventually(lambda: watched.left() == ["c"])


async def test_other_pods_are_left_alone(watched):
    watched.have("of-others", app="web")
    watched.have("again", "last")
    watched.report("of-others")
    watched.report("again", uid="an earlier one's")
    watched.report("gone")
    watched.report("last")
    await watched.start()
    await eventually(lambda: watched.left() == ["again", "of-others"])


async def test_a_deletion_that_fails_is_tried_again(watched):
    watched.have("a")
    watched.cluster.fault = lambda asked: (
        failure(500, "InternalError") if asked.method == "DELETE" else None
    )
    watched.report("a")
    await watched.start()
    await eventually(lambda: "DELETE" in {each.method for each in watched.cluster.asked})
    watched.cluster.fault = lambda asked: None
    await watched.pass_time(RETRY_INTERVAL)
    await eventually(lambda: watched.left() == [])
