"""partway.gateway.operator.gateway_pods: the ready pods of one Service."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.operator.gateway_pods import GatewayPods
from tests.gateway.fleet.waiting import eventually
from tests.gateway.operator.a_cluster import SLICES, labels_of_slice
from tests.gateway.streams.fakes import FakeClock


@pytest.fixture
async def gateways(cluster) -> AsyncIterator[GatewayPods]:
    server = ApiServer(ClusterSettings(cluster.url, "default"), FakeClock())
    gateways = GatewayPods(server, "gateways", SLICES[0], FakeClock())
    gateways.start()
    yield gateways
    await gateways.aclose()
    await server.aclose()


def slice_of(service: str, **pods: dict[str, bool]):
    return {
        "metadata": {"name": f"{service}-1", "labels": labels_of_slice(service)},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8090, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": [f"10.0.0.{number}"],
                "conditions": conditions,
                "targetRef": {"kind": "Pod", "name": pod, "uid": f"uid-of-{pod}"},
            }
            for number, (pod, conditions) in enumerate(pods.items(), 1)
        ],
    }


async def test_the_ready_pods_of_the_service_count(cluster, gateways):
    assert not gateways.ready()
    cluster.put(*SLICES, slice_of("others", x={}))
    cluster.put(*SLICES, slice_of("gateways", a={}, b={"ready": False}, c={"terminating": True}))
    await eventually(lambda: gateways.ready().keys() == {"a"})
    one = gateways.ready("http")["a"]
    assert (one.key, one.host, one.port) == ("uid-of-a", "10.0.0.1", 8090)
    cluster.put(*SLICES, slice_of("gateways", a={"ready": False}, b={}))
    await eventually(lambda: gateways.ready().keys() == {"b"})


async def test_slices_that_another_writes_name_no_gateway(cluster, gateways):
    given = slice_of("gateways", x={})
    labels = {"kubernetes.io/service-name": "gateways"}
    cluster.put(*SLICES, {**given, "metadata": {"name": "foreign", "labels": labels}})
    cluster.put(*SLICES, slice_of("gateways", a={}))
    await eventually(lambda: gateways.ready().keys() == {"a"})


async def test_a_service_of_another_namespace(cluster):
    server = ApiServer(ClusterSettings(cluster.url, "default"), FakeClock())
    gateways = GatewayPods(server, "edge/gateways", SLICES[0], FakeClock())
    try:
        assert gateways.slices.collection.path.endswith("/namespaces/edge/endpointslices")
    finally:
        await server.aclose()
