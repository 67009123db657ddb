"""Endpoint objects as endpoints: their shares, their names, and who has a name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from partway.gateway.discovery.endpoint_objects import endpoint_from
from partway.gateway.fleet.endpoint import Discovered, Endpoint
from partway.gateway.network.dialling import Address
from partway.gateway.settings.settings import Settings
from partway.gateway.settings_reload import Reloading
from partway.gateway.timing.clock import LoopClock
from partway.protocol.errors import InputValidationError
from tests.gateway.discovery.cluster import ENDPOINTS, PATIENT, Cluster, pods_of
from tests.gateway.fleet.waiting import eventually, soon


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


async def test_the_oldest_of_two_objects_has_the_name(cluster, caplog):
    caplog.set_level(logging.WARNING, "partway")
    cluster.service("one")
    cluster.service("two")
    cluster.endpoint("later", number=2, id="Chat", two=100)
    cluster.endpoint("earlier", number=1, id="chat", one=100)
    gateway = await cluster.gateway(endpoints=True)
    await eventually(lambda: shares_of(gateway) == {"one": 100})
    assert [each.name for each in gateway.fleet.describe()] == ["chat"]
    assert "an older object or the settings have the name 'chat'" in caplog.text


def made(**spec):
    return {"metadata": {"name": "chat", "namespace": "models"}, "spec": spec}


@pytest.mark.parametrize("given", [{"id": "own"}, {"userProvidedID": "own"}])
def test_the_name_of_the_spec_counts(given):
    endpoint = endpoint_from(
        made(**given, destinations=[{"serviceRef": {"name": "m"}}]), Settings()
    )
    assert endpoint.name == "own"
    (variant,) = endpoint.variants
    assert (variant.source, variant.weight) == (Discovered("models/m", endpoint="own"), 100)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"id": "-"}, "an endpoint's name must be"),
        ({"destinations": []}, "has these DeployedModels: none; it must have at least one"),
        ({"destinations": [{"serviceRef": {"name": "m"}}] * 2}, "DeployedModels: m, m; it must"),
    ],
)
def test_an_object_that_is_no_endpoint(spec, why):
    with pytest.raises(InputValidationError, match=why):
        endpoint_from(made(**spec), Settings())
