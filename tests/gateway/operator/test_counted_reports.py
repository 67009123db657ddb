"""partway.gateway.operator.counted_reports: fresh ones of ready gateways, and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.operator import counted_reports
from partway.gateway.operator.counted_reports import CountedReports, ReportedPod, agreed
from partway.gateway.operator.limits import REPORT_LIFETIME
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.operator.a_cluster import REPORTS, PlayedCluster, a_report, names_of
from tests.gateway.streams.fakes import FakeClock

A, B = ReportedPod("a", "uid-of-a"), ReportedPod("b", "uid-of-b")


def test_who_agrees():
    one = [
        {},
        {"spec": {}},
        a_report("a", "g"),
        a_report("b", "g"),
        a_report("a", "g", "older"),
        a_report("a", "g"),
    ]
    assert agreed(one) == []
    two = [*one, a_report("b", "h"), a_report("a", "h", "older"), a_report("a", "i", "older")]
    assert agreed(two) == [ReportedPod("a", "older"), B]


class Counted:
    """The reports of a cluster, on a clock that stands still."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self.cluster, self.clock, self.changes = cluster, FakeClock(), 0
        self.server = ApiServer(ClusterSettings(cluster.url, "default"), self.clock)
        self.reports = CountedReports(self.server, self.clock, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    async def start(self) -> None:
        self.reports.copy.start()
        await soon(self.reports.copy.listed.wait())

    async def put(self, *names: str) -> None:
        """Have reports, each named POD.GATEWAY, new or renewed, and wait until they are seen."""
        wanted = self.changes + len(names)
        for name in names:
            self.cluster.put(*REPORTS, a_report(*name.split(".")))
        await eventually(lambda: self.changes >= wanted)

    def agreed(self, *gateways: str) -> list[ReportedPod]:
        return self.reports.agreed(gateways or ("g", "h", "i"))


@pytest.fixture
async def counted(cluster: PlayedCluster) -> AsyncIterator[Counted]:
    counted = Counted(cluster)
    yield counted
    await counted.reports.copy.aclose()
    await counted.server.aclose()


async def test_only_gateways_that_are_ready_count(counted):
    await counted.start()
    await counted.put("a.g", "a.h", "b.g", "b.nobody", "b.none")
    assert counted.agreed() == [A]
    assert counted.agreed("g", "i") == []
    await counted.put("b.i")
    assert counted.agreed("g", "i") == [B]


async def test_a_report_counts_for_a_while_after_each_change(counted):
    await counted.start()
    await counted.put("a.g", "a.h")
    counted.clock.advance(REPORT_LIFETIME - 1)
    assert counted.agreed() == [A]
    await counted.put("a.g")
    counted.clock.advance(1)
    assert counted.agreed() == []
    assert counted.reports.next_end() == counted.clock.now
    await counted.put("a.h")
    assert counted.agreed() == [A]
    assert counted.reports.next_end() == counted.clock.now + REPORT_LIFETIME - 1


async def test_what_was_there_before_counts_once_it_changes(counted, cluster):
    for gateway in ("g", "h"):
        cluster.put(*REPORTS, a_report("a", gateway))
    await counted.start()
    assert counted.agreed() == []
    await counted.put("a.g")
    assert counted.agreed() == []
    await counted.put("a.h")
    assert counted.agreed() == [A]


async def test_an_old_report_is_removed_unless_it_is_renewed(counted, cluster):
    await counted.start()
    await counted.put("a.g", "a.h")
    counted.clock.advance(REPORT_LIFETIME)
    cluster.hold_events = True
    cluster.put(*REPORTS, a_report("a", "h"))
    await soon(counted.reports.remove_old())
    assert names_of(cluster.all(*REPORTS)) == ["a.h"]
    assert counted.agreed() == [], "they do not count again by a removal"
    cluster.release_events()
    await eventually(lambda: len(counted.reports.copy.objects) == 1)
    await counted.put("b.g", "b.h")
    assert counted.agreed() == [B]


async def test_few_old_ones_are_removed_at_a_time(counted, cluster, monkeypatch):
    monkeypatch.setattr(counted_reports, "REMOVED_AT_ONCE", 1)
    await counted.start()
    await counted.put("a.g", "b.g")
    counted.clock.advance(REPORT_LIFETIME)
    await soon(counted.reports.remove_old())
    assert names_of(cluster.all(*REPORTS)) == ["b.g"]
    assert counted.reports.next_end() == counted.clock.now
