"""From objects to endpoints of the API, and back: what runs, what is said of it, what outlives."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.settings.settings import Settings
from tests.gateway.apis.kubernetes.served import (
    ENDPOINTS,
    MERGE,
    MODELS,
    a_destination,
    a_model,
    an_endpoint,
    condition_of,
)
from tests.gateway.fleet.fakes import endpoint as settings_endpoint
from tests.gateway.fleet.fakes import turns

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

ONE = f"{MODELS}/my-tf-model"
MINE = f"{ENDPOINTS}/mine"


async def settled(gateway):
    """Let all that waits for nothing go on."""
    await turns(400)


def serves(gateway):
    """How many instances of each variant take requests."""
    return {each.name: len(each.instances) for each in gateway.of.router.variants("mine")}


async def test_what_is_deployed_is_an_endpoint_of_the_api(gateway):
    await gateway.deploy()
    said = await gateway.describe()
    assert (said["EndpointStatus"], said["EndpointConfigName"]) == ("InService", "mine")
    (variant,) = said["ProductionVariants"]
    assert (variant["VariantName"], variant["CurrentWeight"]) == ("my-tf-model", 100.0)
    assert gateway.resources.find("model", "my-tf-model").members == {
        "ModelName": "my-tf-model",
        "PrimaryContainer": {"Image": "echo"},
    }
    assert gateway.variants() == [("my-tf-model", "chat")]


async def test_neither_runs_without_the_other(gateway):
    await gateway.make(a_model())
    said = await gateway.until(ONE, "NoEndpoint")
    assert "apply one" in said
    assert gateway.variants() == []
    await gateway.make(an_endpoint("other", a_destination("none")))
    assert await gateway.until(f"{ENDPOINTS}/other", "DestinationNotFound") == (
        "There is no DeployedModel none with the endpointPath endpoints/other"
    )
    await gateway.make(an_endpoint())
    await gateway.until_ready()


async def test_a_model_comes_up_before_it_gets_traffic_which_then_is_only_weighed(gateway):
    await gateway.deploy()
    await gateway.make(a_model("second", image="chat"))
    await gateway.until(f"{MODELS}/second", "Ready")
    assert serves(gateway) == {"my-tf-model": 1, "second": 1}
    await settled(gateway)
    before = {each.order.instance for each in gateway.of.launcher.running}
    destinations = [a_destination(share=10), a_destination("second", 90)]
    await gateway.ask("PATCH", MINE, {"spec": {"destinations": destinations}}, MERGE)
    await settled(gateway)
    weights = {each.name: each.weight for each in gateway.of.router.variants("mine")}
    assert weights == {"my-tf-model": 10.0, "second": 90.0}
    assert {each.order.instance for each in gateway.of.launcher.running} == before


async def test_why_an_instance_is_not_ready_is_said(gateway):
    why = "/ping was answered with status 502"
    gateway.of.launcher.troubles.append(why)
    await gateway.make(a_model(), an_endpoint())
    await gateway.until(MINE, "Progressing")
    await gateway.of.advance(11)
    await settled(gateway)
    for path, begun in ((MINE, "Instances"), (ONE, "Its instances")):
        said = condition_of(await gateway.get(path))
        assert (said["reason"], said["message"]) == (
            "Progressing",
            f"{begun} are being started: {why}",
        )


async def test_another_image_comes_up_beside_what_serves(gateway):
    await gateway.deploy()
    gateway.of.launcher.held = asyncio.Event()
    change = {"spec": {"modelSpec": {"modelContainerSpec": {"imageURI": "chat"}}}}
    await gateway.ask("PATCH", ONE, change, MERGE)
    await gateway.until(ONE, "Progressing")
    said = await gateway.get(MINE)
    assert condition_of(said)["status"] == "True"
    assert serves(gateway) == {"my-tf-model": 1}
    gateway.of.launcher.held.set()
    await gateway.until(ONE, "Ready")
    said = await gateway.get(ONE)
    assert condition_of(said)["observedGeneration"] == 2
    await settled(gateway)
    assert gateway.variants() == [("my-tf-model", "other")]


async def test_a_change_that_does_not_come_up_is_said_and_tried_once(gateway):
    await gateway.deploy()
    gateway.of.launcher.troubles.extend(["503"] * 100)
    change = {"spec": {"modelSpec": {"modelContainerSpec": {"imageURI": "chat"}}}}
    await gateway.ask("PATCH", ONE, change, MERGE)
    async with asyncio.timeout(30):
        while condition_of(await gateway.get(ONE))["reason"] != "Failed":
            gateway.of.clock.advance(5)
            await turns(20)
    said = condition_of(await gateway.get(MINE))
    assert said["status"] == "True"
    assert said["message"].startswith("Endpoint Ready; ")
    launched = len(gateway.of.launcher.containers)
    await settled(gateway)
    assert len(gateway.of.launcher.containers) == launched


async def test_deleting_deletes_and_is_seen_until_it_has(gateway):
    await gateway.deploy()
    (container,) = gateway.of.launcher.running
    container.stubborn = True
    status, said = await gateway.ask("DELETE", MINE)
    assert (status, said["metadata"]["deletionGracePeriodSeconds"]) == (200, 0)
    status, refused = await gateway.ask("PATCH", MINE, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert (status, refused["reason"]) == (409, "Conflict")
    await settled(gateway)
    assert "deletionTimestamp" in (await gateway.get(MINE))["metadata"]
    container.end()
    await gateway.until_gone(MINE)
    with pytest.raises(ValidationException):
        await gateway.describe()
    assert gateway.resources.find("endpoint-config", "mine") is None
    await gateway.until(ONE, "NoEndpoint")
    await gateway.ask("DELETE", ONE)
    await gateway.until_gone(ONE)
    assert gateway.resources.find("model", "my-tf-model") is None


async def test_a_model_that_is_deleted_leaves_its_endpoint(gateway):
    await gateway.make(
        a_model(),
        a_model("second"),
        an_endpoint("mine", a_destination(share=50), a_destination("second", 50)),
    )
    await gateway.until(f"{MODELS}/second", "Ready")
    await gateway.ask("DELETE", f"{MODELS}/second")
    await gateway.until_gone(f"{MODELS}/second")
    await settled(gateway)
    assert serves(gateway) == {"my-tf-model": 1}
    said = condition_of(await gateway.get(MINE))
    assert said["message"].endswith("no DeployedModel second with the endpointPath endpoints/mine")
    await gateway.ask("DELETE", ONE)
    await gateway.until_gone(ONE)
    await settled(gateway)
    assert gateway.variants() == []
    assert condition_of(await gateway.get(MINE))["reason"] == "DestinationNotFound"


async def test_objects_and_what_they_deploy_outlive_a_restart(gateway):
    await gateway.deploy()
    uid = (await gateway.get(ONE))["metadata"]["uid"]
    after = await gateway.again()
    try:
        await after.until_ready()
        said = await after.get(ONE)
        assert said["metadata"]["uid"] == uid
        assert after.variants() == [("my-tf-model", "chat")]
    finally:
        await after.aclose()


async def test_a_deletion_goes_on_behind_a_restart(gateway):
    await gateway.deploy()
    gateway.of.launcher.running[0].stubborn = True
    await gateway.ask("DELETE", MINE)
    await settled(gateway)
    after = await gateway.again()
    try:
        await after.until_gone(MINE)
        assert after.variants() == []
    finally:
        await after.aclose()


async def test_what_others_have_is_theirs(gateway):
    await gateway.create("taken")
    status, said = await gateway.ask("POST", ENDPOINTS, an_endpoint("taken"))
    assert (status, said["reason"]) == (409, "Conflict")
    assert said["message"].endswith("the endpoint taken was created by the SageMaker API")
    status, said = await gateway.ask("POST", MODELS, a_model("echo"))
    assert status == 409
    assert said["message"].endswith("a model of this name was created by the SageMaker API")
    await gateway.make(a_model(), an_endpoint())
    elsewhere = ENDPOINTS.replace("default", "other")
    status, said = await gateway.ask("POST", elsewhere, an_endpoint("another", id="mine"))
    assert status == 409
    assert said["message"].endswith("the endpoint mine belongs to the Endpoint default/mine")
    status, said = await gateway.ask("PATCH", MINE, {"spec": {"id": "other"}}, MERGE)
    assert (status, said["details"]["causes"][0]["field"]) == (422, "spec.id")


async def test_what_somebody_else_deletes_is_made_again(gateway):
    await gateway.deploy()
    await gateway.call("DeleteEndpoint")
    await settled(gateway)
    await gateway.until_ready()
    assert gateway.variants() == [("my-tf-model", "chat")]


async def test_a_full_store_takes_no_object_and_tells_so(gateway):
    await gateway.deploy()
    gateway.store.full = True
    status, said = await gateway.ask("POST", MODELS, a_model("second"))
    assert (status, said["reason"]) == (500, "InternalError")
    assert (await gateway.ask("GET", f"{MODELS}/second"))[0] == 404
    gateway.store.full = False
    await gateway.make(a_model("second"))


async def test_an_endpoint_of_the_settings_goes_before(gateway):
    await gateway.deploy()
    images = gateway.settings.images
    own = settings_endpoint("mine")
    after = await gateway.again(Settings(images=images, endpoints=(own,)))
    try:
        said = await after.until(MINE, "Refused")
        assert said == "The gateway's settings define the endpoint mine; change it there"
    finally:
        await after.aclose()
