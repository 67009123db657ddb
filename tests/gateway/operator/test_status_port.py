"""partway.gateway.operator.status_port: pages for probes, and clients that would exhaust it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.operator.kept_namespace import PodSettings
from partway.gateway.operator.limits import STATUS_CONNECTIONS
from partway.gateway.operator.operator import Operator
from partway.gateway.operator.status_port import StatusPort
from partway.gateway.operator.unreachable_pods import UnreachablePods
from partway.gateway.timing.clock import LoopClock
from tests.gateway.cluster.fake_api_server import failure
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.operator.a_cluster import (
    MODELS,
    NOW,
    PODS,
    REPORTS,
    SLICES,
    PlayedCluster,
    a_report,
    a_running_pod,
    gateways_slice,
)

LEASES = ("coordination.k8s.io/v1", "leases")


class Running:
    """An operator, and the pages of its port."""

    def __init__(self, cluster: PlayedCluster) -> None:
        settings = ClusterSettings(cluster.url, "default")
        pods = PodSettings(gateways="gateways")
        self.operator = Operator(settings, pods, LoopClock(), lambda: NOW)
        self.port = StatusPort(self.operator)
        self.task = asyncio.create_task(self.operator.run())
        self.url = ""

    async def page(self, path: str) -> tuple[int, str]:
        async with aiohttp.request("GET", self.url + path) as answer:
            return answer.status, await answer.text()

    async def until_page(self, path: str, status: int, text: str) -> None:
        async def wait() -> None:
            while await self.page(path) != (status, text):  # noqa: ASYNC110 (each asks)
                await asyncio.sleep(0)

        await soon(wait())


@asynccontextmanager
async def running(cluster: PlayedCluster) -> AsyncIterator[Running]:
    running = Running(cluster)
    running.url = await running.port.open("127.0.0.1", 0)
    try:
        yield running
    finally:
        running.task.cancel()
        await soon(asyncio.wait((running.task,)))
        await running.port.aclose()


async def test_it_is_ready_once_it_can_act(cluster):
    refused = {"leases", MODELS[1]}

    def fault(asked):
        kind = next((each for each in refused if each in asked.path), None)
        return failure(403, "Forbidden", "no rights") if kind else None

    cluster.fault = fault
    async with running(cluster) as it:
        await eventually(lambda: any("leases" in each.path for each in cluster.asked))
        assert await it.page("/readyz") == (503, "the lease has not been read or made yet\n")
        assert await it.page("/healthz") == (200, "ok\n")
        refused.remove("leases")
        await it.until_page(
            "/readyz", 503, "the objects of the namespace have not been listed yet\n"
        )
        refused.clear()
        await it.until_page("/readyz", 200, "ready\n")
        status, text = await it.page("/metrics")
        assert (status, "partway_operator_leads 1.0" in text) == (200, True)
        assert (await it.page("/else"))[0] == 404


async def test_one_that_waits_for_the_lease_is_ready(cluster):
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 10}
    cluster.put(*LEASES, {"metadata": {"name": "partway-operator"}, "spec": spec})
    async with running(cluster) as it:
        await it.until_page("/readyz", 200, "ready\n")
        assert not it.operator.copies


async def test_one_that_takes_over_from_another_deletes_no_pod_at_first(cluster, caplog):
    given_back = {"holderIdentity": "", "leaseDurationSeconds": 10}
    cluster.put(*LEASES, {"metadata": {"name": "partway-operator"}, "spec": given_back})
    cluster.put(*PODS, a_running_pod("a"))
    cluster.put(*SLICES, gateways_slice("g", "h"))
    async with running(cluster) as it:
        await eventually(
            lambda: any("unreachable" in str(each.collection) for each in it.operator.copies)
        )
        for each in it.operator.copies:
            await soon(each.listed.wait())
        for gateway in ("g", "h"):
            cluster.put(*REPORTS, a_report("a", gateway))
        await eventually(lambda: "none may be deleted yet" in caplog.text)
    assert cluster.all(*PODS)


async def test_a_task_that_ends_ends_the_operator(cluster, monkeypatch):
    """Another one begins at once, since the lease is given back."""

    async def broken(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(UnreachablePods, "_delete_some", broken)
    async with running(cluster) as it:
        with pytest.raises(ZeroDivisionError):
            await soon(it.task)
    assert cluster.find(*LEASES, "partway-operator")["spec"]["holderIdentity"] == ""


async def test_connections_are_limited(cluster):
    """One host that sends halves of heads has no more than a half of the places."""
    async with running(cluster) as it:
        port = int(it.url.rpartition(":")[2])
        halves = [
            await asyncio.open_connection("127.0.0.1", port) for _ in range(STATUS_CONNECTIONS)
        ]
        for _, writer in halves:
            writer.write(b"GET /healthz HTTP/1.1\r\n")
        lost = [asyncio.create_task(reader.read()) for reader, _ in halves]
        await eventually(lambda: sum(each.done() for each in lost) >= STATUS_CONNECTIONS // 2)
        assert await it.page("/healthz") == (200, "ok\n")
        for _, writer in halves:
            writer.close()
        await soon(asyncio.wait(lost))
        for each in lost:
            each.exception()
