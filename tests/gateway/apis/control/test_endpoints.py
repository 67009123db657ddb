"""The operations on endpoints: what they answer, refuse and change, on a fleet of fakes."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.access.authentication import ANYBODY, Identity
from partway.gateway.apis.control.errors import (
    NotWrittenDown,
    ResourceLimitExceeded,
    ValidationException,
)
from partway.gateway.apis.control.resources import Resource, kept_of_maker
from partway.gateway.fleet.endpoint import Endpoint, Variant
from partway.gateway.fleet.fleet import FleetStopping
from partway.gateway.fleet.limits import SLOW_START_TOLD_AFTER
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.settings.settings import Settings
from partway.protocol.errors import AccessDenied
from tests.gateway.apis.control.deployed import a_config, a_model, a_variant
from tests.gateway.apis.control.kept_endpoints import CHAT, ApiGateway
from tests.gateway.fleet.fakes import turns

OF_ACCOUNT = "arn:aws:sagemaker:us-east-1:000000000000:"
ARN = f"{OF_ACCOUNT}endpoint/mine"


@pytest.fixture
async def gateway():
    gateway = await ApiGateway().start()
    yield gateway
    await gateway.aclose()


async def refusal(call):
    with pytest.raises(ValidationException) as caught:
        await call
    return caught.value.message


def slow_once(gateway, monkeypatch):
    """Have the next plan wait; returns events for that it does, and that it may go on."""
    planning, asked, answers = gateway.keeper.planning, asyncio.Event(), asyncio.Event()
    at_once = planning.endpoint_of

    async def slowly(name, plan):
        monkeypatch.setattr(planning, "endpoint_of", at_once)
        asked.set()
        await answers.wait()
        return await at_once(name, plan)

    monkeypatch.setattr(planning, "endpoint_of", slowly)
    return asked, answers


# --- Creating ------------------------------------------------------------------------------------


async def test_an_endpoint_is_seen_being_created_before_its_creation_is_answered(gateway):
    gateway.of.launcher.held = asyncio.Event()
    answer = await gateway.call(
        "CreateEndpoint",
        "Mine",
        EndpointConfigName="both",
        Tags=[{"Key": "team", "Value": "a"}],
    )
    assert answer == {"EndpointArn": ARN}
    said = await gateway.describe("Mine")
    assert said["EndpointName"] == "Mine"
    assert said["EndpointStatus"] == "Creating"
    assert said["PendingDeploymentSummary"]["EndpointConfigName"] == "both"
    assert [each["CurrentInstanceCount"] for each in said["ProductionVariants"]] == [0, 0]
    assert gateway.resources.find("endpoint", "mine").tags == {"team": "a"}
    gateway.of.launcher.held.set()
    said = await gateway.until("InService", "both", "Mine")
    assert "PendingDeploymentSummary" not in said
    assert "FailureReason" not in said
    assert [
        (each["VariantName"], each["CurrentInstanceCount"], each["DesiredInstanceCount"])
        for each in said["ProductionVariants"]
    ] == [("a", 1, 1), ("b", 1, 1)]
    assert [each["CurrentWeight"] for each in said["ProductionVariants"]] == [1.0, 3.0]
    assert said["ProductionVariants"][0]["DeployedImages"][0]["SpecifiedImage"] == "echo"


async def test_why_an_instance_is_not_ready_is_its_variant_s_status_message(gateway):
    why = "/ping was answered with status 502"
    gateway.of.launcher.troubles.append(why)
    await gateway.create()
    await turns()
    gateway.now = gateway.of.clock.now + SLOW_START_TOLD_AFTER
    said = await gateway.describe()
    (pending,) = said["PendingDeploymentSummary"]["ProductionVariants"]
    assert pending["VariantStatus"] == [{"Status": "Creating", "StatusMessage": why}]
    assert "VariantStatus" not in said["ProductionVariants"][0]
    gateway.of.launcher.containers[0].trouble = None
    await gateway.of.advance(1)
    said = await gateway.until("InService", "one")
    assert "VariantStatus" not in said["ProductionVariants"][0]


async def test_names_that_are_taken_and_names_that_are_not(gateway):
    await gateway.create()
    taken = f'Cannot create already existing endpoint "{ARN}".'
    assert await refusal(gateway.create()) == taken
    assert await refusal(gateway.create("MINE")) == taken
    other = ARN.replace("mine", "other")
    for operation in ("DescribeEndpoint", "DeleteEndpoint"):
        message = await refusal(gateway.call(operation, "other"))
        assert message == f'Could not find endpoint "{other}".'
    config = ARN.replace("endpoint/mine", "endpoint-config/none")
    message = await refusal(gateway.create("other", "none"))
    assert message == f'Could not find endpoint configuration "{config}".'
    async with gateway.resources.changing():
        await gateway.resources.delete(gateway.resources.find("model", "chat"))
    message = await refusal(gateway.create("other", "two"))
    assert message == f'Could not find model "{ARN.replace("endpoint/mine", "model/chat")}".'


async def test_what_never_comes_into_service_has_failed_and_can_only_be_deleted(gateway):
    gateway.of.launcher.lasting("there is no such program")
    await gateway.create()
    said = await gateway.until("Failed", "one")
    assert said["FailureReason"] == "there is no such program"
    assert await refusal(gateway.update("two")) == f'Cannot update failed endpoint "{ARN}".'
    await gateway.call("DeleteEndpoint")
    await turns(200)
    assert await refusal(gateway.describe()) == f'Could not find endpoint "{ARN}".'


# --- Updating ------------------------------------------------------------------------------------


async def test_requests_that_must_name_a_container_are_no_asynchronous_ones(gateway):
    containers = [{"Image": "echo"}, {"Image": "chat"}]
    model = {"ModelName": "direct", "Containers": containers}
    said = {"OutputConfig": {"S3OutputPath": "s3://bucket/ok"}}
    config = a_config("direct", a_variant(model="direct"), AsyncInferenceConfig=said)
    async with gateway.resources.changing():
        for kind, members in (("model", model), ("endpoint-config", config)):
            members = {**members, "InferenceExecutionConfig": {"Mode": "Direct"}}
            await gateway.resources.put(Resource(kind, "direct", 1.0, 1.0, members))
    assert "the Mode Direct; the Mode must be Serial" in await refusal(
        gateway.create(config="direct")
    )


async def test_an_update_comes_up_beside_what_serves(gateway):
    await gateway.create()
    await gateway.until("InService", "one")
    gateway.of.launcher.held = asyncio.Event()
    await gateway.update("two")
    said = await gateway.describe()
    assert (said["EndpointStatus"], said["EndpointConfigName"]) == ("Updating", "one")
    assert said["PendingDeploymentSummary"]["EndpointConfigName"] == "two"
    assert said["ProductionVariants"][0]["CurrentInstanceCount"] == 1
    gateway.of.launcher.held.set()
    said = await gateway.until("InService", "two")
    assert said["ProductionVariants"][0]["CurrentInstanceCount"] == 2
    await turns(200)
    assert gateway.commands() == ["other", "other"]


async def test_two_changes_at_once(gateway):
    gateway.of.launcher.held = asyncio.Event()
    await gateway.create()
    changes = {
        "an update": lambda: gateway.update("two"),
        "weights": lambda: gateway.weigh({"VariantName": "AllTraffic", "DesiredWeight": 2.0}),
        "a deletion": lambda: gateway.call("DeleteEndpoint"),
    }
    for change in changes.values():
        assert await refusal(change()) == f'Cannot update in-progress endpoint "{ARN}".'
    gateway.of.launcher.held.set()
    await gateway.until("InService", "one")
    gateway.of.launcher.held.clear()
    await gateway.update("two")
    for change in changes.values():
        assert await refusal(change()) == f'Cannot update in-progress endpoint "{ARN}".'
    gateway.of.launcher.held.set()
    await gateway.until("InService", "two")


async def test_updates_that_are_asked_for_at_the_same_time_are_made_one_after_the_other(gateway):
    await gateway.create()
    await gateway.until("InService", "one")
    gateway.of.launcher.held = asyncio.Event()
    both = [gateway.update(config) for config in ("two", "both")]
    first, second = await asyncio.gather(*both, return_exceptions=True)
    assert first is None
    assert isinstance(second, ValidationException)
    gateway.of.launcher.held.set()
    await gateway.until("InService", "two")


async def test_nobody_waits_for_a_file_system_that_another_change_looks_at(gateway, monkeypatch):
    await gateway.create()
    await gateway.until("InService", "one")
    asked, answers = slow_once(gateway, monkeypatch)
    slow = asyncio.create_task(gateway.update("two"))
    await asked.wait()
    await gateway.create("other")
    await gateway.weigh({"VariantName": "AllTraffic", "DesiredWeight": 2.0})
    await gateway.until("InService", "one")
    answers.set()
    await slow
    await gateway.until("InService", "two")


async def test_a_change_of_what_has_changed_meanwhile_is_refused(gateway, monkeypatch):
    """What it was made of is another: it would take back what the other one has done."""
    await gateway.create()
    await gateway.until("InService", "one")
    asked, answers = slow_once(gateway, monkeypatch)
    slow = asyncio.create_task(
        gateway.weigh({"VariantName": "AllTraffic", "DesiredInstanceCount": 2})
    )
    await asked.wait()
    await gateway.weigh({"VariantName": "AllTraffic", "DesiredWeight": 5.0})
    await gateway.until("InService", "one")
    answers.set()
    assert "Cannot update in-progress endpoint" in await refusal(slow)
    (variant,) = (await gateway.describe())["ProductionVariants"]
    assert (variant["CurrentInstanceCount"], variant["CurrentWeight"]) == (1, 5.0)


async def test_an_update_that_fails_leaves_what_served_and_says_why(gateway):
    await gateway.create()
    await gateway.until("InService", "one")
    for _ in range(2):  # of each instance
        gateway.of.launcher.lasting("there is no such image")
    await gateway.update("two")
    said = await gateway.until("InService", "one")
    assert said["FailureReason"] == "there is no such image"
    await turns(200)
    assert gateway.commands() == ["chat"]
    await gateway.update("two")
    said = await gateway.until("InService", "two")
    assert "FailureReason" not in said


async def test_an_update_to_the_same_has_new_instances(gateway):
    await gateway.create()
    await gateway.until("InService", "one")
    (before,) = gateway.of.launcher.running
    await gateway.update("one")
    await turns(200)
    assert await gateway.state() == ("InService", "one")
    (after,) = gateway.of.launcher.running
    assert after is not before


async def test_what_an_endpoint_was_made_of_may_be_deleted(gateway):
    await gateway.create()
    await gateway.until("InService", "one")
    async with gateway.resources.changing():
        for kind, name in (("endpoint-config", "one"), ("model", "echo")):
            await gateway.resources.delete(gateway.resources.find(kind, name))
    await gateway.weigh({"VariantName": "AllTraffic", "DesiredInstanceCount": 3})
    said = await gateway.until("InService", "one")
    assert said["ProductionVariants"][0]["DesiredInstanceCount"] == 3
    gateway.of.launcher.running[0].end()  # and it heals
    await turns(200)
    await gateway.of.advance(1)
    assert len(gateway.running()) == 3


async def test_more_and_fewer_instances(gateway):
    await gateway.create()
    await gateway.until("InService", "one")
    (first,) = gateway.of.launcher.running
    for count in (3, 1):
        await gateway.weigh({"VariantName": "AllTraffic", "DesiredInstanceCount": count})
        await turns(200)
        said = await gateway.describe()
        assert said["EndpointStatus"] == "InService"
        assert said["ProductionVariants"][0]["DesiredInstanceCount"] == count
        assert len(gateway.running()) == count
    assert gateway.of.launcher.running == [first]


async def test_weights(gateway):
    await gateway.create(config="both")
    await gateway.until("InService", "both")
    await gateway.weigh({"VariantName": "b", "DesiredWeight": 0.0})
    await turns(200)
    said = await gateway.describe()
    assert [each["CurrentWeight"] for each in said["ProductionVariants"]] == [1.0, 0.0]
    message = await refusal(gateway.weigh({"VariantName": "a", "DesiredWeight": 0.0}))
    assert "All variants have the weight 0" in message
    message = await refusal(gateway.weigh({"VariantName": "c", "DesiredWeight": 1.0}))
    assert message == f'Could not find variant "c" of endpoint "{ARN}"; it has: a, b.'
    message = await refusal(gateway.weigh({"VariantName": "a", "DesiredInstanceCount": 0}))
    assert "0 instances of the variant 'a'" in message
    assert await gateway.state() == ("InService", "both")


@pytest.mark.parametrize(
    ("members", "count", "weight"),
    [
        ({}, 2, 1.0),
        ({"RetainAllVariantProperties": True}, 3, 5.0),
        (
            {
                "RetainAllVariantProperties": True,
                "ExcludeRetainedVariantProperties": [
                    {"VariantPropertyType": "DesiredInstanceCount"},
                    {"VariantPropertyType": "DataCaptureConfig"},
                ],
            },
            2,
            5.0,
        ),
    ],
)
async def test_what_an_update_retains(gateway, members, count, weight):
    await gateway.create()
    await gateway.until("InService", "one")
    await gateway.weigh(
        {"VariantName": "AllTraffic", "DesiredInstanceCount": 3, "DesiredWeight": 5.0}
    )
    await turns(200)
    await gateway.update("two", **members)
    (said,) = (await gateway.until("InService", "two"))["ProductionVariants"]
    assert (said["DesiredInstanceCount"], said["DesiredWeight"]) == (count, weight)


# --- Deleting ------------------------------------------------------------------------------------


async def test_an_endpoint_is_gone_when_its_instances_are(gateway):
    await gateway.create()
    await gateway.until("InService", "one")
    gateway.of.launcher.running[0].stubborn = True
    assert await gateway.call("DeleteEndpoint") is None
    assert (await gateway.describe())["EndpointStatus"] == "Deleting"
    message = await refusal(gateway.call("DeleteEndpoint"))
    assert message == f'Cannot update in-progress endpoint "{ARN}".'
    assert "already existing" in await refusal(gateway.create())
    gateway.of.launcher.running[0].end()
    await turns(200)
    assert await refusal(gateway.describe()) == f'Could not find endpoint "{ARN}".'
    assert await gateway.written() is None
    await gateway.create()
    await gateway.until("InService", "one")


# --- Endpoints of the settings -------------------------------------------------------------------


async def test_endpoints_of_the_settings_are_seen_and_left_alone():
    own = Endpoint("Mine", StreamPolicy(), (Variant(source=CHAT, instances=2),))
    gateway = await ApiGateway(settings=Settings(endpoints=(own,))).start()
    said = await gateway.describe("mine")
    assert said["EndpointName"] == "Mine"
    assert (said["EndpointStatus"], said["EndpointConfigName"]) == ("InService", "partway-settings")
    assert said["ProductionVariants"] == [
        {
            "VariantName": "AllTraffic",
            "CurrentWeight": 1.0,
            "DesiredWeight": 1.0,
            "CurrentInstanceCount": 2,
            "DesiredInstanceCount": 2,
        }
    ]
    assert "already existing" in await refusal(gateway.create("mine"))
    for change in (
        gateway.update("one"),
        gateway.weigh({"VariantName": "AllTraffic", "DesiredWeight": 2.0}),
        gateway.call("DeleteEndpoint"),
    ):
        assert "the gateway's settings define it, and it must be changed there" in await refusal(
            change
        )
    assert list(gateway.resources.all("endpoint")) == []
    await gateway.aclose()


# --- Who may, and what cannot be written ---------------------------------------------------------


async def test_each_operation_asks_for_leave_first(gateway):
    asked = []

    def may(action, resource):
        asked.append((action.removeprefix("sagemaker:"), resource))
        return False

    nobody = Identity("nobody", may=may)
    for operation in sorted(gateway.api.operations.keys() - {"ListEndpoints"}):
        with pytest.raises(AccessDenied):
            await gateway.call(operation, identity=nobody)
        assert asked.pop() == (operation, ARN)
    with pytest.raises(AccessDenied):
        await gateway.call("ListEndpoints", identity=nobody)
    assert asked.pop() == ("ListEndpoints", "*")
    assert list(gateway.resources.all("endpoint")) == []


async def test_leave_is_asked_for_the_configuration_too(gateway):
    def may(_, resource):
        return "endpoint-config" not in resource

    with pytest.raises(AccessDenied):
        await gateway.call(
            "CreateEndpoint", identity=Identity("one", may=may), EndpointConfigName="one"
        )


async def test_leave_is_asked_for_the_models_too(gateway):
    """A configuration may be another's, and a model another than when its name was written."""
    await gateway.create()
    await gateway.until("InService", "one")
    asked = []

    def may(action, resource):
        asked.append((action, resource))
        return action != "sagemaker:DescribeModel"

    one = Identity("one", may=may)
    for operation, name, config, model in (
        ("CreateEndpoint", "other", "two", "chat"),
        ("UpdateEndpoint", "mine", "two", "chat"),
    ):
        with pytest.raises(AccessDenied):
            await gateway.call(operation, name, identity=one, EndpointConfigName=config)
        assert asked[-1] == ("sagemaker:DescribeModel", f"{OF_ACCOUNT}model/{model}")
    desired = [{"VariantName": "AllTraffic", "DesiredInstanceCount": 2}]
    await gateway.call(
        *("UpdateEndpointWeightsAndCapacities", "mine"),
        identity=one,
        DesiredWeightsAndCapacities=desired,
    )


async def test_the_makers_of_models_are_asked_when_they_are_deployed():
    may = {"alice": True}
    gateway = await ApiGateway(may=lambda name, *_: may.get(name, False)).start()
    async with gateway.resources.changing():
        members = a_model("hers", "echo", ModelDataUrl="s3://b/m.tar.gz")
        kept = kept_of_maker("alice")
        await gateway.resources.put(Resource("model", "hers", 1.0, 1.0, members, kept=kept))
        config = a_config("hers", a_variant(model="hers"))
        await gateway.resources.put(Resource("endpoint-config", "hers", 1.0, 1.0, config))
    await gateway.create(config="hers")
    await gateway.until("InService", "hers")
    await gateway.create("other")
    await gateway.until("InService", "one", "other")
    assert gateway.of.model_data.makers == ["alice"]
    del may["alice"]
    for call in (
        gateway.create("third", "hers"),
        gateway.update("hers"),
        gateway.update("hers", "other"),
    ):
        with pytest.raises(ValidationException, match="federated-user/alice is not authorized"):
            await call
    # More instances take the data that are here.
    await gateway.weigh({"VariantName": "AllTraffic", "DesiredInstanceCount": 2})
    await gateway.until("InService", "hers")
    assert gateway.of.model_data.makers == ["alice"]
    # The next gateway asks for the same maker.
    gateway = await gateway.again()
    await gateway.until("InService", "hers")
    assert set(gateway.of.model_data.makers) == {"alice"}
    await gateway.aclose()


async def test_a_full_disk_changes_nothing(gateway):
    await gateway.create()
    await gateway.until("InService", "one")
    before = await gateway.written()
    gateway.store.full = True
    for change in (
        gateway.create("other"),
        gateway.update("two"),
        gateway.weigh({"VariantName": "AllTraffic", "DesiredInstanceCount": 3}),
        gateway.call("DeleteEndpoint"),
    ):
        with pytest.raises(NotWrittenDown, match="cannot store the change"):
            await change
    assert await gateway.written() == before
    assert await gateway.state() == ("InService", "one")
    assert gateway.commands() == ["chat"]
    assert [each.name for each in gateway.of.fleet.describe()] == ["mine"]


async def test_a_gateway_that_stops_takes_no_changes(gateway):
    await gateway.create()
    await gateway.until("InService", "one")
    gateway.of.fleet.take_no_changes()
    for change in (gateway.create("other"), gateway.update("two"), gateway.call("DeleteEndpoint")):
        with pytest.raises(FleetStopping):
            await change
    assert await gateway.state() == ("InService", "one")


async def test_there_are_no_more_endpoints_than_that(gateway, monkeypatch):
    monkeypatch.setattr("partway.gateway.apis.control.catalogue.MAX_RESOURCES", 1)
    await gateway.create()
    with pytest.raises(ResourceLimitExceeded, match="'Number of endpoints' is 1"):
        await gateway.create("other")


# --- Lists ---------------------------------------------------------------------------------------


async def test_the_reasons_of_an_endpoint_of_the_settings_are_for_the_operator():
    own = Endpoint("Own", StreamPolicy(), (Variant(source=CHAT),))
    gateway = ApiGateway(settings=Settings(endpoints=(own,)))
    why = "nothing listens on 1; this process listens on 2"
    gateway.of.launcher.troubles.append(why)
    await gateway.start()
    gateway.now = gateway.of.clock.now + SLOW_START_TOLD_AFTER
    (variant,) = (await gateway.describe("own"))["ProductionVariants"]
    assert variant["VariantStatus"] == [
        {
            "Status": "Creating",
            "StatusMessage": (
                "The gateway's operator deployed this endpoint, and an instance of it is not ready "
                "yet; the gateway's log says why."
            ),
        }
    ]
    asked = {"EndpointName": "own"}
    said = await gateway.api.describe_to_operator(asked, ANYBODY, "request")
    assert said["ProductionVariants"][0]["VariantStatus"][0]["StatusMessage"] == why
    gateway.of.launcher.lasting("there is no program /home/op/serve")
    gateway.of.launcher.containers[0].end()
    await gateway.of.advance(1)
    said = await gateway.describe("own")
    assert said["EndpointStatus"] == "Failed"
    assert said["FailureReason"] == (
        "The gateway's operator deployed this endpoint, and its instances cannot start; the "
        "gateway's log says why."
    )
    said = await gateway.api.describe_to_operator(asked, ANYBODY, "request")
    assert said["FailureReason"] == "there is no program /home/op/serve"
    await gateway.aclose()


async def test_lists_have_those_of_the_api_and_those_of_the_settings():
    own = Endpoint("own", StreamPolicy(), (Variant(source=CHAT),))
    settings = Settings(endpoints=(own,), images={"echo": CHAT})
    gateway = await ApiGateway(settings=settings).start()
    await gateway.create("a")
    await gateway.until("InService", "one", "a")
    gateway.of.launcher.lasting("no such thing")
    await gateway.create("b")
    await gateway.until("Failed", "one", "b")

    async def listed(**members):
        answer = await gateway.api.operations["ListEndpoints"](members, ANYBODY, "request")
        return [each["EndpointName"] for each in answer["Endpoints"]]

    assert await listed(SortBy="Name", SortOrder="Ascending") == ["a", "b", "own"]
    assert await listed(SortBy="Status", SortOrder="Ascending") == ["b", "a", "own"]
    assert await listed() == ["b", "a", "own"]
    assert await listed(StatusEquals="Failed") == ["b"]
    assert await listed(NameContains="OW") == ["own"]
    answer = await gateway.api.operations["ListEndpoints"](
        {"StatusEquals": "Failed"}, ANYBODY, "request"
    )
    (summary,) = answer["Endpoints"]
    described = await gateway.describe("b")
    assert summary == {name: described[name] for name in summary}
    assert len(summary) == 5
    await gateway.aclose()
