"""What is written down of endpoints, and what the next gateway makes of it, on a fleet of fakes."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading

import pytest

from partway.gateway.apis.asynchronous.inference_config import AsyncConfig
from partway.gateway.apis.asynchronous.limits import PER_INSTANCE
from partway.gateway.apis.control import endpoints, planner
from partway.gateway.apis.control.endpoint_plans import DeploymentPlan, planned
from partway.gateway.apis.control.limits import RESTORE_TIMEOUT, STORE_RETRY_INTERVAL
from partway.gateway.apis.control.resources import kept_of_maker
from partway.gateway.fleet.endpoint import Endpoint, Program, Variant
from partway.gateway.fleet.limits import ENDS_IN_VAIN, STARTS_IN_VAIN
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.storage.limits import MODEL_DATA_LOOK_TIMEOUT, WORK_STOP_TIMEOUT
from tests.gateway.apis.control.kept_endpoints import PATIENCE, ApiGateway
from tests.gateway.fleet.fakes import turns
from tests.gateway.fleet.waiting import soon
from tests.wire.peers import eventually


@pytest.fixture
async def started():
    """Starts gateways that are closed at the test's end."""
    all_of_them = []

    async def start(before=None, **keys):
        gateway = ApiGateway(**keys) if before is None else await before.again(**keys)
        all_of_them.append(gateway)
        return await gateway.start() if before is None else gateway

    yield start
    for gateway in all_of_them:
        await gateway.aclose()


async def states(gateway, name="mine"):
    kept = (await gateway.written(name))["kept"]
    return (
        kept["state"],
        kept["serving"] and kept["serving"]["config"]["EndpointConfigName"],
        kept["coming"] and kept["coming"]["config"]["EndpointConfigName"],
    )


def of_settings(name="mine"):
    return Endpoint(name, StreamPolicy(), (Variant(source=Program(("own",))),))


def with_endpoints(gateway, *endpoints):
    return dataclasses.replace(gateway.settings, endpoints=endpoints)


# --- What is written -----------------------------------------------------------------------------


async def test_how_far_an_endpoint_has_come_is_written_when_it_has(started):
    gateway = await started()
    gateway.of.launcher.held = asyncio.Event()
    await gateway.create()
    assert await states(gateway) == ("Creating", None, "one")
    gateway.of.launcher.held.set()
    await gateway.until("InService", "one")
    assert await states(gateway) == ("InService", "one", None)
    gateway.of.launcher.held.clear()
    await gateway.update("two")
    assert await states(gateway) == ("Updating", "one", "two")
    gateway.of.launcher.held.set()
    await gateway.until("InService", "two")
    assert await states(gateway) == ("InService", "two", None)
    gateway.of.launcher.lasting("no such thing")
    await gateway.update("one")
    await gateway.until("InService", "two")
    assert await states(gateway) == ("InService", "two", None)
    assert (await gateway.written())["kept"]["reason"] == "no such thing"


async def test_what_the_disk_does_not_take_is_said_all_the_same_and_written_later(started, caplog):
    gateway = await started()
    gateway.of.launcher.held = asyncio.Event()
    await gateway.create()
    gateway.store.full = True
    gateway.of.launcher.held.set()
    await gateway.until("InService", "one")
    assert await states(gateway) == ("Creating", None, "one")
    assert "an endpoint's state cannot be stored; trying again endpoint=mine" in caplog.text
    gateway.store.full = False
    gateway.of.clock.advance(STORE_RETRY_INTERVAL)
    assert await states(gateway) == ("InService", "one", None)


async def test_a_fault_in_noting_one_endpoint_is_not_the_end_of_all_notes(
    started, monkeypatch, caplog
):
    gateway = await started()
    put = gateway.resources.put

    async def faulty(resource):
        if resource.name == "faulty" and resource.kept["state"] == "InService":
            raise ZeroDivisionError
        await put(resource)

    monkeypatch.setattr(gateway.resources, "put", faulty)
    await gateway.create("faulty")
    await gateway.create("mine")
    await turns(200)
    assert await states(gateway) == ("InService", "one", None)
    assert "an endpoint's state could not be recorded endpoint=faulty" in caplog.text


# --- The next gateway ----------------------------------------------------------------------------


async def test_one_that_was_being_created_is_created(started):
    gateway = await started()
    gateway.of.launcher.held = asyncio.Event()
    await gateway.create()
    after = await started(gateway)
    said = await after.until("InService", "one")
    assert said["CreationTime"] == (await after.written())["created"]
    assert after.commands() == ["chat"]
    assert await states(after) == ("InService", "one", None)


async def test_one_in_service_is_so_again_with_all_that_was_changed(started):
    gateway = await started()
    await gateway.create(config="both")
    await gateway.until("InService", "both")
    await gateway.weigh({"VariantName": "a", "DesiredInstanceCount": 2, "DesiredWeight": 5.0})
    await turns(200)
    async with gateway.resources.changing():
        for kind, name in (("endpoint-config", "both"), ("model", "echo")):
            await gateway.resources.delete(gateway.resources.find(kind, name))
    after = await started(gateway)
    (a, b) = (await after.until("InService", "both"))["ProductionVariants"]
    assert (a["CurrentInstanceCount"], a["CurrentWeight"]) == (2, 5.0)
    assert (b["CurrentInstanceCount"], b["CurrentWeight"]) == (1, 3.0)


async def test_one_that_comes_up_again_can_be_deleted_and_not_updated(started):
    gateway = await started()
    await gateway.create()
    await gateway.until("InService", "one")
    await gateway.written()
    await gateway.aclose()
    after = ApiGateway(gateway.store)
    after.of.launcher.held = asyncio.Event()
    await after.start()
    assert await after.state() == ("Creating", "one")
    with pytest.raises(Exception, match="Cannot update in-progress endpoint"):
        await after.update("two")
    await after.call("DeleteEndpoint")
    assert await after.written() is None
    await after.aclose()


@pytest.mark.parametrize("fails", [False, True])
async def test_one_that_was_being_updated_serves_as_before_while_the_update_goes_on(started, fails):
    gateway = await started()
    await gateway.create()
    await gateway.until("InService", "one")
    gateway.of.launcher.held = asyncio.Event()
    await gateway.update("two")
    await gateway.aclose()
    after = ApiGateway(gateway.store)
    after.of.launcher.held = asyncio.Event()
    await after.start()
    assert await after.state() == ("Updating", "one")
    assert after.of.router.table["mine"][0].instances == ()
    if fails:
        after.of.launcher.errors.append(None)
        for _ in range(2):
            after.of.launcher.lasting("no such thing")
    after.of.launcher.held.set()
    said = await after.until("InService", "one" if fails else "two")
    assert said.get("FailureReason") == ("no such thing" if fails else None)
    await turns(200)
    assert after.commands() == (["chat"] if fails else ["other", "other"])
    assert await states(after) == ("InService", "one" if fails else "two", None)
    await after.aclose()


async def test_an_update_goes_on_where_what_served_cannot_any_more(started):
    gateway = await started()
    await gateway.create()
    await gateway.until("InService", "one")
    gateway.of.launcher.held = asyncio.Event()
    await gateway.update("two")
    await gateway.aclose()
    after = ApiGateway(gateway.store)
    after.of.launcher.lasting("the old image is gone")
    await after.start()
    await after.until("InService", "two")
    await after.aclose()


async def test_one_that_was_being_deleted_is_gone(started):
    gateway = await started()
    await gateway.create()
    await gateway.until("InService", "one")
    gateway.of.launcher.running[0].stubborn = True
    await gateway.call("DeleteEndpoint")
    assert (await gateway.written())["kept"]["state"] == "Deleting"
    after = await started(gateway)
    assert await after.written() is None
    assert after.running() == []


async def test_one_that_failed_is_not_tried_again(started):
    gateway = await started()
    gateway.of.launcher.lasting("no such thing")
    await gateway.create()
    await gateway.until("Failed", "one")
    await turns(200)
    after = await started(gateway)
    said = await after.describe()
    assert (said["EndpointStatus"], said["FailureReason"]) == ("Failed", "no such thing")
    assert after.running() == []
    await after.call("DeleteEndpoint")
    assert await after.written() is None


async def until_given_up(gateway):
    """End each container that starts, until no more are; returns how many were."""
    async with asyncio.timeout(PATIENCE):
        while (await gateway.describe())["EndpointStatus"] != "Failed":
            for each in gateway.of.launcher.running:
                each.end()
            await gateway.of.advance(1)
    return len(gateway.of.launcher.containers)


async def killed_and_given_up(started):
    """An endpoint that was in service; the next gateway's containers do not come up."""
    gateway = await started()
    await gateway.create()
    await gateway.until("InService", "one")
    await turns(200)
    after = await started(gateway, troubles=["Connection refused"] * STARTS_IN_VAIN)
    assert await until_given_up(after) == STARTS_IN_VAIN
    return after


async def test_what_was_in_service_is_tried_longer_than_what_somebody_waits_for(started):
    """What its containers need may be away when the gateway starts, as after a power cut."""
    after = await killed_and_given_up(started)
    assert await states(after) == ("InService", "one", None)
    await after.keeper.run_again()
    await after.until("InService", "one")


async def test_what_was_in_service_and_was_given_up_may_be_updated(started):
    after = await killed_and_given_up(started)
    await after.update("two")
    await after.until("InService", "two")
    assert await states(after) == ("InService", "two", None)


async def test_an_update_in_vain_of_what_was_given_up_leaves_it_as_it_was(started):
    after = await killed_and_given_up(started)
    after.of.launcher.lasting("no such thing")
    await after.update("two")
    said = await after.until("Failed", "one")
    assert said["FailureReason"] == "no such thing"
    await after.keeper.run_again()
    await after.until("InService", "one")


async def test_what_never_came_into_service_is_given_up_soon_behind_a_restart_too(started):
    gateway = await started()
    gateway.of.launcher.held = asyncio.Event()
    await gateway.create()
    after = await started(gateway, troubles=["Connection refused"] * STARTS_IN_VAIN)
    assert await until_given_up(after) == ENDS_IN_VAIN


@pytest.mark.parametrize("state", ["InService", "Creating", "Updating"])
async def test_what_cannot_be_run_any_more_says_why(started, state, tmp_path):
    """Model data of this machine may be below no root any more."""
    gateway = await started()
    local = dataclasses.replace(gateway.settings, local_roots=(tmp_path,))
    gateway = await started(gateway, settings=local)
    async with gateway.resources.changing():
        model = gateway.resources.find("model", "chat")
        container = {**model.members["PrimaryContainer"], "ModelDataUrl": str(tmp_path)}
        members = {**model.members, "PrimaryContainer": container}
        await gateway.resources.put(dataclasses.replace(model, members=members))
    if state == "Updating":
        await gateway.create()
        await gateway.until("InService", "one")
        gateway.of.launcher.held = asyncio.Event()
        await gateway.update("two")
    else:
        if state == "Creating":
            gateway.of.launcher.held = asyncio.Event()
        await gateway.create(config="two")
        await gateway.until(state, "two")
        await turns(200)
    after = await started(gateway, settings=dataclasses.replace(local, local_roots=()))
    config = "one" if state == "Updating" else "two"
    said = await after.until("InService" if state == "Updating" else "Failed", config)
    assert "local_roots" in said["FailureReason"]
    if state == "Updating":
        return
    assert (await states(after))[0] == state  # nothing of it is written: that may change
    after.keeper.give_way(local)
    await after.keeper.run_again()
    said = await after.until("InService", "two")
    assert "FailureReason" not in said
    assert await states(after) == ("InService", "two", None)


async def hanging(monkeypatch, started, *names):
    """A gateway whose endpoints of these names have their model data on a file system that is away.

    Returns:
        It before it is started, and what brings the file system back.
    """
    gateway = await started()
    for name in (*names, "sound"):
        await gateway.create(name)
        await gateway.until("InService", "one", name)
    await gateway.written()
    await gateway.aclose()
    back = threading.Event()

    def looked_at(name, *rest):
        assert name not in names or back.wait(30), "nobody has brought the file system back"
        return planned(name, *rest)

    monkeypatch.setattr(planner, "planned", looked_at)
    monkeypatch.setattr(DeploymentPlan, "names_files", True)
    return ApiGateway(gateway.store), back


async def test_a_file_system_that_is_away_holds_up_its_own_endpoints_alone(started, monkeypatch):
    """All of those are looked at at once, on threads of their own."""
    names = [f"away{number}" for number in range(12)]
    after, back = await hanging(monkeypatch, started, *names)
    starting = asyncio.create_task(after.start())
    await eventually(lambda: len(after.keeper._found) == 1)
    after.of.clock.advance(RESTORE_TIMEOUT)
    await starting
    await after.until("InService", "one", "sound")
    assert await after.state("away0") == ("Creating", "one")
    assert after.keeper.sought == set(names)
    finding = asyncio.create_task(after.keeper.has_found(RESTORE_TIMEOUT))
    await turns()
    assert not finding.done()
    back.set()
    await finding
    assert not after.keeper.sought
    for name in names:
        await after.until("InService", "one", name)
    await after.aclose()


async def test_an_update_that_continues_is_found_once_its_version_starts(started):
    gateway = await started()
    await gateway.create()
    await gateway.until("InService", "one")
    gateway.of.launcher.troubles.extend(["it loads"] * 9)
    await gateway.update("two")
    await gateway.written()
    after = await started(gateway, troubles=["it loads"])
    finding = asyncio.create_task(after.keeper.has_found(RESTORE_TIMEOUT))
    await turns(200)
    assert not finding.done()
    after.of.launcher.containers[0].trouble = None
    await after.of.advance(1)
    await soon(finding)
    assert len(after.of.launcher.containers) == 3


async def test_what_is_not_found_in_time_is_tried_again_with_the_settings(started, monkeypatch):
    after, back = await hanging(monkeypatch, started, "away")
    starting = asyncio.create_task(after.start())
    await eventually(lambda: len(after.keeper._found) == 1)
    after.of.clock.advance(MODEL_DATA_LOOK_TIMEOUT)
    await turns()
    after.of.clock.advance(WORK_STOP_TIMEOUT)
    await starting
    said = await after.until("Failed", "one", "away")
    assert "mount it again" in said["FailureReason"]
    back.set()
    after.keeper.give_way(after.settings)
    await after.keeper.run_again()
    await after.until("InService", "one", "away")
    await after.aclose()


async def test_one_that_is_deleted_while_it_is_planned_again_stays_deleted(started, monkeypatch):
    gateway = await started()
    await gateway.create()
    await gateway.until("InService", "one")
    await gateway.written()
    after = await started(gateway, settings=with_endpoints(gateway, of_settings()))
    after.keeper.give_way(with_endpoints(gateway))
    after.of.fleet.remove("mine")
    await eventually(lambda: after.of.fleet.status("mine") is None)
    find_out = after.keeper.planning.endpoint_of

    async def meanwhile(name, plan):
        endpoint = await find_out(name, plan)
        await after.call("DeleteEndpoint")
        return endpoint

    monkeypatch.setattr(after.keeper.planning, "endpoint_of", meanwhile)
    await after.keeper.run_again()
    assert await after.written() is None
    assert after.of.fleet.status("mine") is None
    assert after.running() == []


# --- Settings ------------------------------------------------------------------------------------


async def test_settings_go_before_the_api_and_give_back_what_they_took(started, caplog):
    caplog.set_level(logging.INFO, "partway.control")
    gateway = await started()
    await gateway.create()
    await gateway.until("InService", "one")
    await gateway.written()
    taking = with_endpoints(gateway, of_settings())
    after = await started(gateway, settings=taking)
    assert await after.state() == ("InService", "partway-settings")
    assert after.commands() == ["own"]
    assert (
        "the settings define an endpoint of this name: the API's endpoint does not run"
        in caplog.text
    )
    assert await states(after) == ("InService", "one", None)
    without = with_endpoints(gateway)
    after.keeper.give_way(without)
    after.of.fleet.remove("mine")
    await after.keeper.run_again()
    await after.until("InService", "one")
    await turns(200)
    assert after.commands() == ["chat"]


async def test_what_is_said_of_asynchronous_requests(started, monkeypatch):
    """As long as the endpoint is the API's, and there: also before it is in service."""
    gateway = await started()
    async with gateway.resources.changing():
        config = gateway.resources.find("endpoint-config", "two")
        said = {"OutputConfig": {"S3OutputPath": "s3://bucket/ok"}}
        members = {**config.members, "AsyncInferenceConfig": said}
        kept = kept_of_maker("alice")
        await gateway.resources.put(dataclasses.replace(config, members=members, kept=kept))
    async_config_of = gateway.keeper.async_config_of
    assert async_config_of("mine") is None
    gateway.of.launcher.held = asyncio.Event()
    await gateway.create(config="two")
    found = async_config_of("mine")
    assert found == AsyncConfig("s3://bucket/ok", "", "", "", PER_INSTANCE, "alice")
    assert async_config_of("MINE") is None  # as instances are asked for: by the name as it is
    gateway.keeper.give_way(with_endpoints(gateway, of_settings()))
    assert async_config_of("mine") is None
    gateway.keeper.give_way(with_endpoints(gateway))
    assert async_config_of("mine") == found
    await gateway.create("other", "one")
    assert async_config_of("other") is None
    async with gateway.resources.changing():
        model = gateway.resources.find("model", "chat")
        members = {**model.members, "InferenceExecutionConfig": {"Mode": "Direct"}}
        await gateway.resources.put(dataclasses.replace(model, members=members))
    # What was made before that was refused is there still.
    monkeypatch.setattr(endpoints, "check_names_no_containers", lambda _: None)
    await gateway.create("third", "two")
    assert async_config_of("third").names_containers


async def test_settings_that_take_a_name_while_the_gateway_runs(started, caplog):
    gateway = await started()
    await gateway.create()
    await gateway.create("kept")
    await gateway.until("InService", "one")
    await gateway.written()
    own = of_settings("MINE")  # whatever its case
    gateway.keeper.give_way(with_endpoints(gateway, own))
    gateway.of.fleet.apply(own)
    await gateway.keeper.run_again()
    assert caplog.text.count("the API's endpoint does not run endpoint=mine") == 1
    await turns(200)
    assert await gateway.state() == ("InService", "partway-settings")
    assert await gateway.state("kept") == ("InService", "one")
    assert gateway.commands() == ["chat", "own"]
    assert await states(gateway) == ("InService", "one", None)


async def test_settings_that_take_a_name_while_it_is_being_written(started, monkeypatch, caplog):
    gateway = await started()
    own = of_settings()
    put = gateway.resources.put

    async def meanwhile(resource):
        await put(resource)
        gateway.keeper.give_way(with_endpoints(gateway, own))
        gateway.of.fleet.apply(own)

    monkeypatch.setattr(gateway.resources, "put", meanwhile)
    await gateway.create()
    await turns(200)
    assert gateway.commands() == ["own"]
    assert "the API's endpoint does not run endpoint=mine" in caplog.text


async def test_other_images_are_for_what_is_made_from_then_on(started):
    gateway = await started()
    await gateway.create()
    await gateway.until("InService", "one")
    images = {**gateway.settings.images, "echo": Program(("new",))}
    gateway.keeper.give_way(dataclasses.replace(gateway.settings, images=images))
    await gateway.keeper.run_again()
    assert gateway.commands() == ["chat"]
    await gateway.create("other")
    await gateway.until("InService", "one", "other")
    assert gateway.commands() == ["chat", "new"]


# --- The end -------------------------------------------------------------------------------------


async def test_a_stop_writes_nothing_of_itself(started):
    gateway = await started()
    await gateway.create()
    await gateway.until("InService", "one")
    before = await gateway.written()
    await gateway.of.fleet.stop()
    assert await gateway.written() == before
    await gateway.keeper.aclose()


async def test_a_change_that_the_stop_comes_between_is_the_next_gateways(started, monkeypatch):
    gateway = await started()
    await gateway.create()
    await gateway.until("InService", "one")
    await gateway.written()
    put = gateway.resources.put

    async def meanwhile(resource):
        await put(resource)
        gateway.of.fleet.take_no_changes()

    monkeypatch.setattr(gateway.resources, "put", meanwhile)
    await gateway.update("two")
    assert await states(gateway) == ("Updating", "one", "two")
    after = await started(gateway)
    await after.until("InService", "two")
