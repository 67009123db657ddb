"""How many containers callers may have launched, for endpoints on a fleet of fakes and for jobs."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from partway.gateway.apis.control.errors import ResourceLimitExceeded
from partway.gateway.apis.control.resources import Resource
from partway.gateway.fleet.endpoint import Attached, Endpoint, Program, Variant
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.settings.settings import Settings
from tests.gateway.apis.control.deployed import a_config, a_variant
from tests.gateway.apis.control.kept_endpoints import CHAT, ApiGateway
from tests.gateway.apis.transform_jobs.transforming import Jobs
from tests.gateway.fleet.fakes import turns

OF_SETTINGS = Endpoint("echo", StreamPolicy(), (Variant(source=CHAT, instances=2),))


def settings(most, *endpoints):
    images = {"echo": CHAT, "chat": Program(("other",))}
    return Settings(images=images, max_containers=most, endpoints=endpoints)


@pytest.fixture
async def started():
    """Starts gateways with so many containers."""
    gateways = []

    async def start(most, *endpoints):
        gateway = await ApiGateway(settings=settings(most, *endpoints)).start()
        gateways.append(gateway)
        return gateway

    yield start
    for each in gateways:
        await each.aclose()


async def refusal(call):
    with pytest.raises(ResourceLimitExceeded) as caught:
        await call
    return caught.value.message


def words(most, there, further):
    return (
        f"The service limit 'Number of containers' is {most}, with current utilization of {there} "
        f"and a request delta of {further}; delete unneeded endpoints, or have the "
        "gateway's operator raise max_containers."
    )


async def test_one_container_too_many_is_refused_and_nothing_is_made(started):
    gateway = await started(3)
    await gateway.create("first", "two")
    assert await refusal(gateway.create("second", "two")) == words(3, 2, 2)
    assert gateway.resources.find("endpoint", "second") is None
    await gateway.create("second", "one")
    await gateway.until("InService", "one", "second")
    assert len(gateway.running()) == 3


async def test_of_two_that_are_made_at_once_one_has_the_last_room(started):
    gateway = await started(3)
    made = await asyncio.gather(
        *(gateway.create(name, "two") for name in ("a", "b")), return_exceptions=True
    )
    assert [type(each) for each in made] == [type(None), ResourceLimitExceeded]
    await turns()
    assert len(gateway.running()) == 2


async def test_an_update_has_room_for_the_new_beside_the_old(started):
    gateway = await started(2)
    await gateway.create()
    await gateway.until("InService", "one")
    assert await refusal(gateway.update("two")) == words(2, 1, 2)
    assert await gateway.state() == ("InService", "one")
    await gateway.update("one")
    await gateway.until("InService", "one")


async def test_more_instances_need_room_for_those_that_are_new(started):
    gateway = await started(3)
    await gateway.create()
    await gateway.until("InService", "one")
    much = {"VariantName": "AllTraffic", "DesiredInstanceCount": 4}
    assert await refusal(gateway.weigh(much)) == words(3, 1, 3)
    await gateway.weigh({**much, "DesiredInstanceCount": 3})
    await gateway.until("InService", "one")
    await gateway.weigh({"VariantName": "AllTraffic", "DesiredWeight": 2.0})
    await gateway.until("InService", "one")
    await gateway.weigh({**much, "DesiredInstanceCount": 1})
    await gateway.until("InService", "one")


async def test_what_drains_counts_until_it_is_gone(started):
    gateway = await started(1)
    await gateway.create()
    await gateway.until("InService", "one")
    lease = gateway.of.router.lease("mine")
    await gateway.call("DeleteEndpoint")
    await turns()
    assert await refusal(gateway.create("other")) == words(1, 1, 1)
    lease.__exit__(None, None, None)
    await turns(200)
    await gateway.create("other")


async def test_an_instance_that_drains_is_none_of_those_that_come_again(started):
    gateway = await started(2)
    await gateway.create("mine", "two")
    await gateway.until("InService", "two")
    leases = [gateway.of.router.lease("mine") for _ in range(2)]
    of_all = {"VariantName": "AllTraffic", "DesiredInstanceCount": 2}
    await gateway.weigh({**of_all, "DesiredInstanceCount": 1})
    await gateway.until("InService", "two")
    assert await refusal(gateway.weigh(of_all)) == words(2, 2, 1)
    for lease in leases:
        lease.__exit__(None, None, None)
    await turns(200)
    await gateway.weigh(of_all)
    await turns()
    assert len(gateway.running()) == 2


async def test_what_has_failed_leaves_its_room(started):
    gateway = await started(1)
    gateway.of.launcher.lasting("there is no such program")
    await gateway.create()
    await gateway.until("Failed", "one")
    await gateway.create("other")


async def test_each_container_of_an_instance_counts(started):
    gateway = await started(3)
    model = {"ModelName": "pair", "Containers": [{"Image": "echo"}, {"Image": "chat"}]}
    config = a_config("pairs", a_variant(model="pair", InitialInstanceCount=2))
    async with gateway.resources.changing():
        for kind, members in (("model", model), ("endpoint-config", config)):
            name = members.get("ModelName") or members["EndpointConfigName"]
            await gateway.resources.put(Resource(kind, name, 1.0, 1.0, members))
    assert await refusal(gateway.create("mine", "pairs")) == words(3, 0, 4)


async def test_endpoints_of_the_settings_count_unless_somebody_else_runs_them(started):
    attached = Variant(source=Attached((Address("127.0.0.1", 9),)))
    other = Endpoint("other", StreamPolicy(), (attached,))
    gateway = await started(2, OF_SETTINGS, other)
    assert await refusal(gateway.create()) == words(2, 2, 1)


async def test_what_a_lower_setting_has_no_room_for_goes_on_and_nothing_comes_to_it(started):
    gateway = await started(2)
    await gateway.create("mine", "two")
    await gateway.until("InService", "two")
    later = await gateway.again(settings(1))
    try:
        await later.until("InService", "two")
        assert await refusal(later.create("other")) == words(1, 2, 1)
        later.keeper.give_way(replace(later.settings, max_containers=3))
        await later.create("other")
    finally:
        await later.aclose()


async def test_what_is_written_down_and_does_not_run_yet_counts():
    gateway = await ApiGateway(settings=settings(2)).start()
    await gateway.create("mine", "two")
    await gateway.until("InService", "two")
    await gateway.aclose()
    later = ApiGateway(gateway.store, gateway.settings)
    await later.resources.load()
    try:
        assert await refusal(later.create("other")) == words(2, 2, 1)
    finally:
        await later.aclose()


async def two_jobs(jobs):
    """Create two jobs that do not end, of two instances each; returns their TransformResources."""
    jobs.give(a="one\n")
    jobs.hold()
    resources = {"InstanceType": "ml.m5.large", "InstanceCount": 2}
    await jobs.create("first", TransformResources=resources)
    await jobs.create("second", TransformResources=resources)
    return resources


async def test_of_transform_jobs_those_count_that_may_run_at_once(tmp_path):
    async with Jobs(tmp_path, at_once=2, max_containers=4) as jobs:
        resources = await two_jobs(jobs)
        await jobs.create("third", TransformResources=resources)
        largest = {**resources, "InstanceCount": 3}
        assert await refusal(jobs.create("fourth", TransformResources=largest)) == words(4, 4, 1)
        assert jobs.resources.find("transform-job", "fourth") is None
        jobs.let_go()
        for name in ("first", "second", "third"):
            await jobs.over(name)
        await jobs.create("fourth", TransformResources=largest)
        await jobs.over("fourth")


async def test_as_many_jobs_run_at_once_as_the_settings_said_at_the_start(tmp_path):
    async with Jobs(tmp_path, at_once=2, max_containers=4) as jobs:
        resources = await two_jobs(jobs)
        jobs.planning.settings = replace(jobs.planning.settings, max_transform_jobs=1)
        largest = {**resources, "InstanceCount": 3}
        assert await refusal(jobs.create("third", TransformResources=largest)) == words(4, 4, 1)
