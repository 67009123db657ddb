"""Reports of pods that a gateway cannot reach, at an API server in memory."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from partway.gateway.client import PartwayError, connect
from partway.gateway.discovery.pod_reports import PodReports
from partway.gateway.fleet.discovered.source import FoundInstance
from partway.gateway.fleet.health import ping
from partway.gateway.network.dialling import Address, Silent
from tests.gateway.cluster.fake_api_server import failure
from tests.gateway.discovery.cluster import Cluster, pods_of, url_of
from tests.gateway.fleet.waiting import eventually

REPORTS = ("partway.dev/v1", "unreachablepods")


def pod(number: int, key: str = "") -> FoundInstance:
    host = f"10.0.0.{number}"
    return FoundInstance(key or f"uid-{number}", f"chat-{number}", Address(host, 8080))


@pytest.fixture
async def reports(client, clock) -> AsyncIterator[PodReports]:
    reports = PodReports(client, "gateway-1", clock, lambda: 1_790_000_000.0)
    yield reports
    await reports.aclose()


async def test_a_report_belongs_to_its_pod_and_is_withdrawn(reports, server):
    reports.tell("default", pod(1), "no route to host")
    await eventually(lambda: server.all(*REPORTS))
    (report,) = server.all(*REPORTS).values()
    assert report["kind"] == "UnreachablePod"
    assert report["metadata"]["name"] == "chat-1.gateway-1"
    assert report["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "chat-1", "uid": "uid-1"}
    ]
    assert report["spec"] == {
        "pod": "chat-1", "podUID": "uid-1", "gateway": "gateway-1", "since": "2026-09-21T14:13:20Z",
    }  # fmt: skip
    reports.tell("default", pod(1), "")
    await eventually(lambda: not server.all(*REPORTS))


async def test_the_gateways_end_withdraws_its_reports(reports, server):
    for number in (1, 2):
        reports.tell("default", pod(number), "no route to host")
    await eventually(lambda: len(server.all(*REPORTS)) == 2)
    await reports.aclose()
    assert not server.all(*REPORTS)


async def test_an_address_without_a_pod_is_not_reported(reports, server):
    reports.tell("default", pod(1, key="10.0.0.1"), "no route to host")
    reports.tell("default", pod(2), "no route to host")
    await eventually(lambda: server.all(*REPORTS))
    assert [name for _, name in server.all(*REPORTS)] == ["chat-2.gateway-1"]


async def test_a_report_is_sent_again_when_the_server_is_back(reports, server, clock):
    server.fault = lambda asked: failure(503, "ServiceUnavailable")
    reports.tell("default", pod(1), "no route to host")
    await eventually(lambda: clock.armed)
    server.fault = lambda asked: None

    def is_there() -> bool:
        for timer in clock.armed[:1]:
            clock.advance_to(timer.due)
        return bool(server.all(*REPORTS))

    await eventually(is_there)


async def test_a_refused_report_is_logged_once_and_the_next_one_is_sent(reports, server, caplog):
    server.fault = lambda asked: (
        failure(403, "Forbidden", "it is forbidden") if asked.method == "POST" else None
    )
    reports.tell("default", pod(1), "no route to host")
    await eventually(lambda: "it is forbidden" in caplog.text)
    server.fault = lambda asked: None
    reports.tell("default", pod(2), "no route to host")
    await eventually(lambda: server.all(*REPORTS))
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
