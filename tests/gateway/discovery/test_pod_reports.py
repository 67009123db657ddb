"""Reports of pods that a gateway cannot reach, at an API server in memory."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from partway.gateway.client import PartwayError, connect
from partway.gateway.discovery import pod_reports
from partway.gateway.discovery.pod_reports import PodReports
from partway.gateway.fleet.discovered.source import FoundInstance
from partway.gateway.fleet.health import ping
from partway.gateway.network.dialling import Address, Silent
from tests.gateway.cluster.fake_api_server import FakeApiServer, JsonObject, failure
from tests.gateway.discovery.cluster import Cluster, pods_of, url_of
from tests.gateway.fleet.waiting import eventually
from tests.gateway.streams.fakes import FakeClock

REPORTS = ("partway.dev/v1", "unreachablepods")
#: Shorter than a request's limit, so that no request's clock is taken for it.
RENEWAL = 5.0

ONE, OTHER = "one endpoint", "another endpoint"


def pod(number: int, key: str = "") -> FoundInstance:
    host = f"10.0.0.{number}"
    return FoundInstance(key or f"uid-{number}", f"chat-{number}", Address(host, 8080))


async def until_due(clock: FakeClock, server: FakeApiServer) -> None:
    """Let time pass to the next renewal, once no request is under way."""
    await eventually(
        lambda: (
            server.answered == len(server.asked)
            and [each for each in clock.armed if each.due <= clock.now + RENEWAL] == clock.armed
            and len(clock.armed) == 1
        )
    )
    clock.advance_to(clock.armed[0].due)


def only(server: FakeApiServer) -> JsonObject:
    (report,) = server.all(*REPORTS).values()
    return report


@pytest.fixture
async def reports(client, clock, monkeypatch) -> AsyncIterator[PodReports]:
    monkeypatch.setattr(pod_reports, "REPORT_RENEWAL", RENEWAL)
    reports = PodReports(client, "gateway-1", clock, lambda: 1_789_999_000 + clock.now)
    yield reports
    await reports.aclose()


async def test_a_report_belongs_to_its_pod_and_is_withdrawn(reports, server):
    reports.tell(ONE, "default", pod(1), "no route to host")
    await eventually(lambda: server.all(*REPORTS))
    (report,) = server.all(*REPORTS).values()
    assert report["kind"] == "UnreachablePod"
    assert report["metadata"]["name"] == "chat-1.gateway-1"
    assert report["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "chat-1", "uid": "uid-1"}
    ]
    assert report["spec"] == {
        "pod": "chat-1", "podUID": "uid-1", "gateway": "gateway-1", "since": "2026-09-21T14:13:20Z",
        "renewed": "2026-09-21T14:13:20.000000Z",
    }  # fmt: skip
    reports.tell(ONE, "default", pod(1), "")
    await eventually(lambda: not server.all(*REPORTS))


async def test_a_report_is_renewed_and_made_again_where_it_is_gone(reports, server, clock):
    reports.tell(ONE, "default", pod(1), "no route to host")
    await eventually(lambda: server.all(*REPORTS))
    await until_due(clock, server)
    await eventually(lambda: only(server)["spec"]["renewed"] == "2026-09-21T14:13:25.000000Z")
    assert only(server)["spec"]["since"] == "2026-09-21T14:13:20Z"
    server.remove(*REPORTS, "chat-1.gateway-1")
    await until_due(clock, server)
    await eventually(lambda: server.all(*REPORTS))
    reports.tell(ONE, "default", pod(1), "")
    await eventually(lambda: not server.all(*REPORTS))


async def test_what_an_earlier_process_of_the_gateway_left_is_taken_over(reports, server):
    left = {"metadata": {"name": "chat-1.gateway-1"}, "spec": {"podUID": "earlier"}}
    server.put(*REPORTS, left)
    reports.tell(ONE, "default", pod(1), "no route to host")
    await eventually(lambda: only(server)["spec"]["podUID"] == "uid-1")
    assert only(server)["metadata"]["ownerReferences"][0]["uid"] == "uid-1"


async def test_a_report_stays_as_long_as_one_cannot_reach_the_pod(reports, server):
    reports.tell(ONE, "default", pod(1), "no route to host")
    reports.tell(OTHER, "default", pod(1), "no route to host")
    reports.tell(OTHER, "default", pod(2), "no route to host")
    await eventually(lambda: len(server.all(*REPORTS)) == 2)
    reports.tell(ONE, "default", pod(1), "")
    reports.tell(OTHER, "default", pod(2), "")
    await eventually(lambda: len(server.all(*REPORTS)) == 1)
    assert only(server)["spec"]["pod"] == "chat-1"
    reports.tell(OTHER, "default", pod(1), "")
    await eventually(lambda: not server.all(*REPORTS))


async def test_a_gateway_that_cannot_reach_very_many_reports_none(
    reports, server, monkeypatch, caplog
):
    monkeypatch.setattr(pod_reports, "MAX_REPORTS", 3)
    for number in range(3):
        reports.tell(ONE, "default", pod(number), "no route to host")
    await eventually(lambda: len(server.all(*REPORTS)) == 3)
    reports.tell(ONE, "default", pod(3), "no route to host")
    await eventually(lambda: not server.all(*REPORTS))
    assert caplog.text.count("cannot reach so many pods that it reports none") == 1
    reports.tell(ONE, "default", pod(0), "")
    await eventually(lambda: len(server.all(*REPORTS)) == 3)


async def test_the_gateways_end_withdraws_its_reports(reports, server):
    for number in (1, 2):
        reports.tell(ONE, "default", pod(number), "no route to host")
    await eventually(lambda: len(server.all(*REPORTS)) == 2)
    await reports.aclose()
    assert not server.all(*REPORTS)


async def test_an_address_without_a_pod_is_not_reported(reports, server):
    reports.tell(ONE, "default", pod(1, key="10.0.0.1"), "no route to host")
    reports.tell(ONE, "default", pod(2), "no route to host")
    await eventually(lambda: server.all(*REPORTS))
    assert [name for _, name in server.all(*REPORTS)] == ["chat-2.gateway-1"]


async def test_a_report_is_sent_again_when_the_server_is_back(reports, server, clock):
    server.fault = lambda asked: failure(503, "ServiceUnavailable")
    reports.tell(ONE, "default", pod(1), "no route to host")
    await eventually(lambda: clock.armed)
    server.fault = lambda asked: None

    def is_there() -> bool:
        for timer in clock.armed[:1]:
            clock.advance_to(timer.due)
        return bool(server.all(*REPORTS))

    await eventually(is_there)


async def test_after_an_unforeseen_error_a_report_is_sent_again(
    reports, client, server, clock, caplog, monkeypatch
):
    async def odd(*_: object) -> None:
        raise RuntimeError("odd")

    with monkeypatch.context() as for_now:
        for_now.setattr(client, "patch", odd)
        reports.tell(ONE, "default", pod(1), "no route to host")
        await eventually(lambda: "RuntimeError: odd" in caplog.text and clock.armed)
    clock.advance_to(clock.armed[0].due)
    await eventually(lambda: server.all(*REPORTS))


async def test_a_refused_report_is_logged_once_and_tried_again(reports, server, clock, caplog):
    server.fault = lambda asked: (
        failure(403, "Forbidden", "it is forbidden") if asked.method == "POST" else None
    )
    reports.tell(ONE, "default", pod(1), "no route to host")
    await eventually(lambda: "it is forbidden" in caplog.text)
    await until_due(clock, server)
    await eventually(lambda: str(server.asked[-1]).startswith("POST") and len(server.asked) == 4)
    server.fault = lambda asked: None
    reports.tell(ONE, "default", pod(2), "no route to host")
    await eventually(lambda: server.all(*REPORTS))
    assert only(server)["spec"]["pod"] == "chat-2"
    await until_due(clock, server)
    await eventually(lambda: len(server.all(*REPORTS)) == 2)
    assert caplog.text.count("it is forbidden") == 1


async def test_a_gateway_reports_a_pod_whose_host_is_silent(anyio_backend, no_leaks, monkeypatch):
    async def silent(*_, **__):
        raise Silent("No route to host")

    monkeypatch.setattr(ping, "ask_by_socket", silent)
    async with AsyncExitStack() as up:
        cluster = Cluster(up)
        await cluster.start()
        container = await cluster.container("first")
        cluster.service()
        cluster.slice("first")
        gateway = await cluster.gateway()
        await eventually(lambda: pods_of(gateway) == {"first"})
        await container.aclose()
        with pytest.raises(PartwayError):
            async with connect(url_of(gateway), "chat"):
                pass
        await eventually(lambda: cluster.server.all(*REPORTS))
        assert pods_of(gateway) == set()
        assert [name for _, name in cluster.server.all(*REPORTS)] == [
            f"first.{socket.gethostname()}"
        ]
