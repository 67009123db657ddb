"""Discovered endpoints of a gateway, against an API server in memory: streams, and the way back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest

from partway.gateway.client import StreamRefused, connect
from partway.gateway.cluster import server_presence
from partway.gateway.cluster.endpoint_slices import NO_PORT
from partway.gateway.discovery import instance_room, service_sources
from partway.gateway.discovery.limits import LOOK_DELAY
from partway.gateway.discovery.service_sources import ServiceSources
from partway.gateway.fleet.discovered.source import FoundInstances
from partway.gateway.fleet.endpoint import Discovered, Endpoint
from partway.gateway.network.dialling import Address
from partway.gateway.settings_reload import Reloading
from partway.gateway.timing.clock import LoopClock
from tests.gateway.cluster.fake_api_server import failure
from tests.gateway.discovery.cluster import PATIENT, Cluster, discovered, pods_of, url_of
from tests.gateway.fleet.waiting import eventually, soon

#: What a gateway asks for, to learn whether the server answers.
APPS = "/apis/apps"


@pytest.fixture(params=["discovery.k8s.io/v1", "discovery.k8s.io/v1beta1"])
async def cluster(request, anyio_backend, no_leaks) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as up:
        cluster = Cluster(up, request.param)
        await cluster.start()
        yield cluster


async def talk(gateway, said: bytes) -> None:
    async with connect(url_of(gateway), "chat") as stream:
        await stream.send_bytes(said)
        await stream.end_input()


def metric(gateway, name: str) -> float:
    lines = generate_latest(gateway.streams.metrics.registry).decode().splitlines()
    (line,) = [each for each in lines if each.startswith(name)]
    return float(line.rpartition(" ")[2])


async def test_readiness_reaches_clients_and_an_unready_pod_keeps_its_streams(cluster):
    first = await cluster.container("first")
    await cluster.container("second")
    cluster.service()
    cluster.slice("first", ready=True)
    gateway = await cluster.gateway()
    await eventually(lambda: pods_of(gateway) == {"first"})
    async with connect(url_of(gateway), "chat") as stream:
        await stream.send_bytes(b"before")
        assert (await anext(stream)).payload == b"before"
        cluster.slice("second")  # a missing condition means ready
        cluster.slice("first", ready=False, terminating=True)
        await eventually(lambda: pods_of(gateway) == {"second"})
        await stream.send_bytes(b"after")
        assert (await anext(stream)).payload == b"after"
        cluster.remove("first")
        await eventually(lambda: len(gateway.fleet.status("chat").variants[0].instances) == 2)
        await stream.send_bytes(b"gone")
        assert (await anext(stream)).payload == b"gone"
    await eventually(lambda: len(gateway.fleet.status("chat").variants[0].instances) == 1)
    assert first.received


async def test_the_last_table_serves_on_while_the_api_server_is_away(cluster):
    await cluster.container("first")
    await cluster.container("second")
    cluster.service()
    cluster.slice("first")
    gateway = await cluster.gateway()
    await eventually(lambda: pods_of(gateway) == {"first"})
    watching = 'partway_discovery_watching{namespace="default"}'
    await eventually(lambda: metric(gateway, watching) == 1)
    await cluster.server.stop()
    await eventually(lambda: metric(gateway, watching) == 0)
    assert pods_of(gateway) == {"first"}
    trouble = gateway.fleet.status("chat").variants[0].trouble
    assert trouble.startswith("changes of its instances are not heard of, the last ones serve on: ")
    await talk(gateway, b"meanwhile")
    cluster.slice("second")
    await cluster.server.start()
    await eventually(lambda: pods_of(gateway) == {"first", "second"})
    await eventually(lambda: metric(gateway, watching) == 1)
    assert gateway.fleet.status("chat").variants[0].trouble == ""


@pytest.mark.parametrize(("doubt", "left"), [(1000, {"first", "second"}), (0, {"second"})])
async def test_unreadiness_just_after_the_servers_return_is_doubted(
    cluster, monkeypatch, doubt, left
):
    monkeypatch.setattr(service_sources, "UNREADY_DOUBT", doubt)
    for name in ("first", "second", "third"):
        await cluster.container(name)
    cluster.service()
    cluster.slice("first")
    cluster.slice("third")
    gateway = await cluster.gateway()
    await eventually(lambda: pods_of(gateway) == {"first", "third"})
    await cluster.server.stop()
    await eventually(lambda: gateway.fleet.status("chat").variants[0].trouble)
    cluster.slice("first", ready=False)
    cluster.slice("third", ready=False, terminating=True)
    cluster.slice("second")
    await cluster.server.start()
    await eventually(lambda: pods_of(gateway) == left)


async def test_unreadiness_after_a_server_that_hung_is_doubted(cluster, monkeypatch):
    """Its watches stay open, and only a further request says that it does not answer."""
    monkeypatch.setattr(server_presence, "SERVER_LOOK", 0.02)
    await cluster.container("first")
    await cluster.container("second")
    cluster.service()
    cluster.slice("first")
    gateway = await cluster.gateway()
    await eventually(lambda: pods_of(gateway) == {"first"})
    cluster.server.fault = lambda asked: failure(504, "Timeout") if asked.path == APPS else None
    await eventually(lambda: "Timeout" in (gateway.fleet.status("chat").variants[0].trouble or ""))
    cluster.server.fault = lambda asked: None
    await eventually(lambda: not gateway.fleet.status("chat").variants[0].trouble)
    cluster.slice("first", ready=False)
    cluster.slice("second")
    await eventually(lambda: "second" in pods_of(gateway))
    assert pods_of(gateway) == {"first", "second"}


async def test_a_doubt_has_an_end(cluster, monkeypatch):
    monkeypatch.setattr(service_sources, "UNREADY_DOUBT", 0.5)
    await cluster.container("first")
    cluster.service()
    cluster.slice("first")
    gateway = await cluster.gateway()
    await eventually(lambda: pods_of(gateway) == {"first"})
    await cluster.server.stop()
    await eventually(lambda: gateway.fleet.status("chat").variants[0].trouble)
    cluster.slice("first", ready=False)
    await cluster.server.start()
    await eventually(lambda: pods_of(gateway) == set())


async def test_a_missing_service_is_named_until_it_is_there(cluster):
    gateway = await cluster.gateway()
    await eventually(lambda: gateway.fleet.status("chat").state == "Failed")
    reason = gateway.fleet.status("chat").reason
    assert reason == "there is no Service 'chat' in the namespace 'default'"
    with pytest.raises(StreamRefused, match="none of its instances is ready"):
        await talk(gateway, b"")
    await cluster.container("first")
    cluster.slice("first")
    cluster.service()
    await eventually(lambda: pods_of(gateway) == {"first"})
    assert gateway.fleet.status("chat").state == "InService"


async def test_a_service_that_publishes_unready_pods_is_refused_by_name(cluster):
    await cluster.container("first")
    cluster.slice("first")
    cluster.service(publishNotReadyAddresses=True)
    gateway = await cluster.gateway()
    await eventually(lambda: gateway.fleet.status("chat").state == "Failed")
    assert "'chat' has publishNotReadyAddresses: true" in gateway.fleet.status("chat").reason
    cluster.service()
    await eventually(lambda: pods_of(gateway) == {"first"})


async def test_a_refusal_of_the_server_is_shown(cluster):
    words = 'endpointslices is forbidden: User "gateway" cannot list them'
    cluster.server.fault = lambda asked: (
        failure(403, "Forbidden", words) if "endpointslices" in asked.path else None
    )
    gateway = await cluster.gateway()

    def trouble() -> str:
        return gateway.fleet.status("chat").variants[0].trouble

    await eventually(lambda: words in trouble())
    assert trouble().startswith("its instances are not known yet: ")


async def test_several_services_of_a_namespace_share_its_watches(cluster):
    for name in ("chat", "other"):
        await cluster.container(name)
        cluster.service(name)
        cluster.slice(name, service=name)
    gateway = await cluster.gateway(discovered(), discovered("other", "default/other", "http"))
    await eventually(
        lambda: pods_of(gateway) == {"chat"} and pods_of(gateway, "other") == {"other"}
    )
    assert cluster.server.watching == 2


async def test_a_gateway_has_room_for_so_many_instances(cluster, monkeypatch):
    monkeypatch.setattr(instance_room, "MAX_DISCOVERED", 1)
    for name in ("chat", "other"):
        await cluster.container(name)
        cluster.service(name)
        cluster.slice(name, service=name)
    gateway = await cluster.gateway(discovered(), discovered("other", "other"))
    await eventually(lambda: pods_of(gateway) | pods_of(gateway, "other") == {"chat"})
    words = "1 of 1 instances are left out: a gateway follows at most 1"
    await eventually(lambda: gateway.fleet.status("other").variants[0].trouble == words)
    cluster.remove("chat")
    await eventually(lambda: pods_of(gateway, "other") == {"other"})


async def test_a_burst_of_changes_is_told_once(client, server, clock):
    cluster = Cluster(AsyncExitStack(), server=server)
    cluster.service()
    known = asyncio.Event()
    sources = ServiceSources(client, clock, lambda *_: None, known.set)
    told: list[FoundInstances] = []
    sources.follow(Discovered("chat", NO_PORT), told.append)
    await soon(known.wait())
    assert [each.instances for each in told] == [()]
    for name in ("one", "two", "three"):
        server.put(cluster.slices, "endpointslices", slice_of(name))
    await eventually(lambda: len(sources._namespaces["default"]._by_service.get("chat", ())) == 3)
    assert len(told) == 1
    clock.advance(LOOK_DELAY)
    assert [len(each.instances) for each in told] == [0, 3]
    server.put(cluster.slices, "endpointslices", slice_of("four"))
    await eventually(lambda: len(sources._namespaces["default"]._by_service.get("chat", ())) == 4)
    await sources.aclose()
    assert not clock.armed


async def test_a_follower_that_fails_stops_no_other(client, server, clock, caplog):
    Cluster(AsyncExitStack(), server=server).service()
    known = asyncio.Event()
    sources = ServiceSources(client, clock, lambda *_: None, known.set)
    told: list[FoundInstances] = []
    sources.follow(Discovered("chat", NO_PORT), lambda found: 1 / 0)
    sources.follow(Discovered("chat", NO_PORT), told.append)
    await soon(known.wait())
    assert told
    assert "ZeroDivisionError" in caplog.text
    await sources.aclose()


async def test_an_end_of_following_leaves_room(client, server, clock, monkeypatch):
    monkeypatch.setattr(instance_room, "MAX_DISCOVERED", 1)
    cluster = Cluster(AsyncExitStack(), server=server)
    cluster.service()
    server.put(cluster.slices, "endpointslices", slice_of("one"))
    known = asyncio.Event()
    sources = ServiceSources(client, clock, lambda *_: None, known.set)
    first: list[FoundInstances] = []
    second: list[FoundInstances] = []
    following = sources.follow(Discovered("chat", NO_PORT), first.append)
    sources.follow(Discovered("chat", NO_PORT), second.append)
    await soon(known.wait())
    assert (len(first[-1].instances), len(second[-1].instances)) == (1, 0)
    following.stop()
    clock.advance(LOOK_DELAY)
    assert len(second[-1].instances) == 1
    await sources.aclose()


def slice_of(pod: str) -> dict[str, Any]:
    target = {"kind": "Pod", "name": pod, "uid": pod}
    return {
        "metadata": {"name": pod, "labels": {"kubernetes.io/service-name": "chat"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["127.0.0.1"], "targetRef": target}],
    }


async def test_a_reload_brings_the_first_discovered_endpoint_and_takes_it_away(cluster):
    await cluster.container("first")
    cluster.service()
    cluster.slice("first")
    attached = Endpoint.attached("chat", Address("127.0.0.1", 9), PATIENT)
    gateway = await cluster.gateway(attached)
    assert not cluster.server.asked
    found = replace(gateway.settings, endpoints=(discovered(),))
    coming = [found, gateway.settings]
    reloading = Reloading(
        *(gateway.settings, lambda: coming.pop(0), gateway.fleet, LoopClock(), None),
        services=gateway.services,
    )
    reloading.reload()
    await eventually(lambda: pods_of(gateway) == {"first"})
    await talk(gateway, b"hello")
    reloading.reload()
    await eventually(lambda: pods_of(gateway) == {""})
    await reloading.stop()


async def test_shares_are_divided_by_the_gateways_that_are_ready(cluster):
    await cluster.container("chat")
    cluster.service()
    cluster.slice("chat")
    cluster.service("gateways")
    for name in ("one", "two", "three"):
        await cluster.container(name)
        cluster.slice(name, service="gateways")
    gateway = await cluster.gateway(gateways="gateways")
    await eventually(lambda: gateway.gateways.number == 3)
    assert metric(gateway, "partway_live_gateways") == 3
    share = gateway.settings.streams_per_principal
    assert gateway.gateways.part_of(share) == -(-share // 3)
    cluster.slice("one", service="gateways", ready=False)
    await eventually(lambda: gateway.gateways.number == 2)
    cluster.remove("two")
    await eventually(lambda: gateway.gateways.number == 1)
