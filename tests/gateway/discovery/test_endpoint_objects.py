"""Endpoint objects as endpoints: their shares, their names, and who has a name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from partway.gateway.apis.kubernetes.custom_object import ENDPOINT, CustomObject
from partway.gateway.discovery import endpoint_objects
from partway.gateway.discovery.endpoint_objects import EndpointObjects, endpoint_from
from partway.gateway.discovery.limits import LOOK_DELAY
from partway.gateway.fleet.endpoint import Discovered, Endpoint
from partway.gateway.network.dialling import Address
from partway.gateway.settings.settings import Settings
from partway.gateway.settings_reload import Reloading
from partway.gateway.timing.clock import LoopClock
from partway.log_lines import LogLine
from tests.gateway.discovery.cluster import ENDPOINTS, PATIENT, Cluster, pods_of
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.operator.a_cluster import kept, started_cluster


@pytest.fixture
async def cluster(anyio_backend, no_leaks) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as up:
        cluster = Cluster(up)
        cluster.server.all(*ENDPOINTS)
        await cluster.start()
        yield cluster


def of_settings(name: str = "chat") -> Endpoint:
    return Endpoint.attached(name, Address("127.0.0.1", 9), PATIENT)


def shares_of(gateway, name: str = "chat") -> dict[str, float]:
    return {each.name: each.weight for each in gateway.router.variants(name)}


async def test_an_object_is_an_endpoint_with_its_shares(cluster):
    for model in ("one", "two"):
        await cluster.container(model)
        cluster.service(model)
        cluster.slice(model, service=model)
    cluster.endpoint(one=90, two=10)
    gateway = await cluster.gateway(endpoints=True)
    await eventually(lambda: pods_of(gateway) == {"one", "two"})
    assert shares_of(gateway) == {"one": 90, "two": 10}
    cluster.endpoint(one=0, two=100)
    await eventually(lambda: shares_of(gateway) == {"one": 0, "two": 100})
    assert pods_of(gateway) == {"one", "two"}
    cluster.endpoint(two=100)
    await eventually(lambda: pods_of(gateway) == {"two"})
    cluster.server.remove(*ENDPOINTS, "chat")
    await eventually(lambda: not gateway.fleet.describe())


async def test_an_object_reaches_no_model_of_another_endpoint(cluster):
    await cluster.container("secret")
    cluster.service("secret", endpoint="other")
    cluster.slice("secret", service="secret")
    cluster.endpoint(secret=100)
    gateway = await cluster.gateway(endpoints=True)
    await eventually(lambda: gateway.fleet.status("chat"))
    await eventually(lambda: gateway.fleet.status("chat").reason)
    assert "was not made for the endpoint 'chat'" in gateway.fleet.status("chat").reason
    assert not pods_of(gateway)
    cluster.service("secret", endpoint="chat")
    await eventually(lambda: pods_of(gateway) == {"secret"})


async def test_a_gateway_is_ready_once_the_cluster_has_told(cluster):
    cluster.service("one")
    cluster.endpoint(one=100)
    await cluster.server.stop()
    gateway = await cluster.gateway(endpoints=True)
    assert await gateway.fleet.settled(0.1)
    assert not gateway.fleet.is_ready
    told = asyncio.Event()
    gateway.fleet.on_readiness = lambda: gateway.fleet.is_ready and told.set()
    informed = asyncio.create_task(gateway.fleet.informed())
    await asyncio.sleep(0)
    assert not informed.done()
    await cluster.server.start()
    await eventually(told.is_set)
    await soon(informed)
    await cluster.server.stop()
    assert gateway.fleet.is_ready


async def test_the_settings_have_their_names_and_the_log_says_so(cluster, caplog):
    caplog.set_level(logging.WARNING, "partway")
    cluster.service("one")
    cluster.endpoint(one=100)
    cluster.endpoint("other", one=100)
    gateway = await cluster.gateway(of_settings(), endpoints=True)
    await eventually(lambda: gateway.fleet.status("other"))
    assert not shares_of(gateway).keys() & {"one"}
    assert "the settings have the endpoint 'chat', which counts" in caplog.text


async def test_a_reload_takes_a_name_and_gives_it_back(cluster):
    await cluster.container("one")
    cluster.service("one")
    cluster.slice("one", service="one")
    cluster.endpoint(one=100)
    gateway = await cluster.gateway(endpoints=True)
    await eventually(lambda: pods_of(gateway) == {"one"})
    coming = [replace(gateway.settings, endpoints=(of_settings(),)), gateway.settings]
    reloading = Reloading(
        *(gateway.settings, lambda: coming.pop(0), gateway.fleet, LoopClock(), None),
        services=gateway.services,
    )
    reloading.reload()
    await eventually(lambda: shares_of(gateway) == {"AllTraffic": 1})
    cluster.endpoint(one=100)
    reloading.reload()
    await eventually(lambda: pods_of(gateway) == {"one"})
    await reloading.stop()


async def test_traffic_and_status_belong_to_the_same_object(caplog, anyio_backend, no_leaks):
    """The operator refuses what gateways set aside, in the same words."""
    caplog.set_level(logging.WARNING, "partway")
    async with AsyncExitStack() as up:
        played = await up.enter_async_context(started_cluster())
        cluster = Cluster(up, server=played)
        cluster.endpoint("chat", number=2, one=100)
        cluster.endpoint("earlier", number=1, id="chat", two=100)
        cluster.endpoint("earliest", number=0, id="chat", one=60, two=30)
        cluster.endpoint("elsewhere", one=100, namespace="other")
        cluster.endpoint("upper", id="Upper", one=100)
        cluster.endpoint("leaving", number=0, id="other", one=100, deleting=True)
        cluster.endpoint("coming", number=1, id="other", one=100)
        played.put(*ENDPOINTS, {"metadata": {"name": "old"}, "spec": {"destinations": [{}]}})
        await up.enter_async_context(kept(played))
        gateway = await cluster.gateway(endpoints=True)
        await eventually(lambda: {"chat", "other"} == {e.name for e in gateway.fleet.describe()})
        assert shares_of(gateway) == {"two": 100}

        def refused() -> dict[str, str]:
            conditions = {n: played.condition(n, ENDPOINTS) for _, n in played.all(*ENDPOINTS)}
            return {n: c["message"] for n, c in conditions.items() if c.get("reason") == "Refused"}

        await eventually(lambda: len(refused()) == 5)
        assert refused().keys() == {"chat", "earliest", "elsewhere", "upper", "old"}
        words = "the endpoint chat belongs to the Endpoint earlier, which is older"
        assert refused()["chat"] == words
        told = [each.getMessage() for each in caplog.records if "set aside" in each.getMessage()]
        assert sorted(told) == sorted(set_aside(n, why) for n, why in refused().items())


def set_aside(name: str, why: str) -> str:
    line = "an Endpoint object is set aside"
    return str(LogLine(line, namespace="default", object=name, reason=why))


async def test_an_object_that_is_mended_has_its_name(cluster):
    cluster.endpoint("earlier", number=1, id="chat", one=60)
    cluster.endpoint("later", number=2, id="chat", two=100)
    gateway = await cluster.gateway(endpoints=True)
    await eventually(lambda: shares_of(gateway) == {"two": 100})
    cluster.endpoint("earlier", number=1, id="chat", one=100)
    await eventually(lambda: shares_of(gateway) == {"one": 100})


async def test_of_too_many_objects_the_oldest_count(cluster, caplog, monkeypatch):
    monkeypatch.setattr(endpoint_objects, "MAX_ENDPOINT_OBJECTS", 2)
    for number, name in enumerate(("third", "second", "first")):
        cluster.endpoint(name, number=9 - number, one=100)
    gateway = await cluster.gateway(endpoints=True)
    await eventually(lambda: len(gateway.fleet.describe()) == 2)
    assert [each.name for each in gateway.fleet.describe()] == ["first", "second"]
    assert set_aside("third", "a gateway follows at most 2 Endpoint objects") in caplog.text
    cluster.server.remove(*ENDPOINTS, "first")
    await eventually(lambda: [e.name for e in gateway.fleet.describe()] == ["second", "third"])


class AppliedEndpoints:
    """The part of a fleet that Endpoint objects need."""

    def __init__(self) -> None:
        self.applied: list[str] = []

    def status(self, name: str) -> None:
        return None

    def apply(self, endpoint: Endpoint, *, awaited: bool) -> None:
        self.applied.append(endpoint.name)


async def test_a_burst_of_changes_costs_one_look(client, server, clock):
    fleet, listed = AppliedEndpoints(), asyncio.Event()
    cluster = Cluster(AsyncExitStack(), server=server)
    cluster.endpoint("first", one=100)
    objects = EndpointObjects(client, "default", fleet, Settings(), clock, listed.set)
    await soon(listed.wait())
    assert fleet.applied == ["first"]
    await eventually(lambda: server.watching)
    cluster.endpoint("first", two=100)
    cluster.endpoint("first", one=100)
    cluster.endpoint("second", one=100)
    await eventually(lambda: len(objects._valid) == 2)
    assert fleet.applied == ["first"]
    clock.advance(LOOK_DELAY)
    assert fleet.applied == ["first", "second"]
    await objects.aclose()
    assert not clock.armed


async def test_an_unforeseen_error_does_not_keep_the_gateway_unready(
    client, server, clock, caplog, monkeypatch
):
    fleet, listed = AppliedEndpoints(), asyncio.Event()
    Cluster(AsyncExitStack(), server=server).endpoint("first", one=100)
    with monkeypatch.context() as for_now:
        for_now.setattr(fleet, "status", lambda name: 1 / 0)
        objects = EndpointObjects(client, "default", fleet, Settings(), clock, listed.set)
        await soon(listed.wait())
    assert "ZeroDivisionError" in caplog.text
    objects.follow()
    assert fleet.applied == ["first"]
    await objects.aclose()


async def test_other_settings_hold_for_objects_too(client, server, clock):
    fleet, listed = AppliedEndpoints(), asyncio.Event()
    cluster = Cluster(AsyncExitStack(), server=server)
    cluster.endpoint("first", one=100)
    settings = Settings()
    objects = EndpointObjects(client, "default", fleet, settings, clock, listed.set)
    await soon(listed.wait())
    objects.follow()
    assert fleet.applied == ["first"]
    objects.take_settings(replace(settings, policy=PATIENT))
    objects.follow()
    assert fleet.applied == ["first", "first"]
    await objects.aclose()


@pytest.mark.parametrize("given", [{"id": "own"}, {"userProvidedID": "own"}])
def test_the_name_of_the_spec_counts(given):
    spec = {**given, "destinations": [{"serviceRef": {"name": "m"}}]}
    custom = CustomObject(ENDPOINT, "models", "chat", "uid", 7, 1, "", spec)
    endpoint = endpoint_from(custom, Settings())
    assert endpoint.name == "own"
    (variant,) = endpoint.variants
    assert (variant.source, variant.weight) == (Discovered("models/m", endpoint="own"), 100)
