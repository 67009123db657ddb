"""gateway.apis.control.deployments: three resources at once, by the API's own operations."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from partway.gateway.access.authentication import ANYBODY
from partway.gateway.apis.control.control_plane import ControlPlane
from partway.gateway.apis.control.deployments import (
    DeploymentAsked,
    Deployments,
    gone_with,
    kept_of_variant,
)
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.operator_models import INSTEAD_OF_IMAGE, OperatorCommand
from partway.gateway.arns import Arns
from partway.gateway.fleet.endpoint import DEFAULT_VARIANT, Endpoint, Program, Variant
from partway.gateway.fleet.fleet import FleetStopping
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.settings.settings import Settings
from tests.gateway.apis.control.deployed import a_config, a_model, a_plan, a_variant
from tests.gateway.apis.control.kept_endpoints import ApiGateway
from tests.gateway.fleet.fakes import turns

HERE = Path("/home/me")
SERVE = OperatorCommand(("./serve", "--key", "sesame"), HERE)


class Deployed(ApiGateway):
    """A gateway of which the operator deploys."""

    def __init__(self, store=None, settings=None):
        super().__init__(store, settings)
        arns = Arns("us-east-1", "000000000000")
        self.plane = ControlPlane(
            *(self.resources, arns, self._time, self.of.clock),
        )
        self.plane.add(self.api.operations, self.api.operations_of_operator)
        self.deployments = Deployments(self.plane, self.resources, self.keeper)

    async def again(self, settings=None):
        await self.aclose()
        return await Deployed(self.store, settings or self.settings).start()

    async def deploy(self, name="mine", *, command=SERVE, variant=None, **container):
        asked = DeploymentAsked(container, variant or {}, command)
        return await self.deployments.deploy(name, asked)

    async def ask(self, operation, **members):
        """As a caller of the API does."""
        checked = await self.plane.checked(operation, members)
        return await self.plane.operations[operation](checked, ANYBODY, "id")

    async def names(self, kind):
        return {each.name for each in self.resources.all(kind)} - {
            "echo",
            "chat",
            "one",
            "two",
            "both",
        }

    async def last_order(self):
        await turns()
        return self.of.launcher.running[-1].order.variant


@pytest.fixture
async def gateway():
    gateway = await Deployed().start()
    yield gateway
    await gateway.aclose()


async def refusal(work):
    with pytest.raises(ValidationException) as caught:
        await work
    return caught.value.message


async def test_an_endpoint_of_a_command(gateway, tmp_path):
    made = await gateway.deploy(
        Environment={"PATH": "/bin", "TOKEN": "1"},
        ModelDataUrl=str(tmp_path),
        variant={"InitialInstanceCount": 2},
    )
    assert made == {
        "ModelName": "mine-v1",
        "EndpointConfigName": "mine-v1",
        "Operation": "CreateEndpoint",
        "Gone": [],
    }
    said = await gateway.until("InService", "mine-v1")
    assert said["ProductionVariants"][0]["CurrentInstanceCount"] == 2
    ran = await gateway.last_order()
    assert ran.source == Program(("/home/me/serve", "--key", "sesame"), HERE)
    assert ran.environment == (("PATH", "/bin"), ("TOKEN", "1"))
    assert (ran.model_data, ran.pinned) == (str(tmp_path), None)


async def test_no_caller_of_the_api_reads_the_command_or_takes_it(gateway):
    await gateway.deploy()
    await gateway.until("InService", "mine-v1")
    described = [
        await gateway.ask("DescribeModel", ModelName="mine-v1"),
        await gateway.ask("DescribeEndpointConfig", EndpointConfigName="mine-v1"),
        await gateway.ask("DescribeEndpoint", EndpointName="mine"),
        await gateway.ask("ListModels"),
    ]
    assert described[0]["PrimaryContainer"] == {"Mode": "SingleModel", "Image": INSTEAD_OF_IMAGE}
    (variant,) = described[2]["ProductionVariants"]
    assert variant["DeployedImages"][0]["SpecifiedImage"] == INSTEAD_OF_IMAGE
    assert "sesame" not in json.dumps(described)
    assert "sesame" not in repr(gateway.resources.find("endpoint", "mine"))
    # Copied by a caller, it runs nothing, and no engine is asked for it.
    await gateway.ask("CreateModel", ModelName="copy", PrimaryContainer={"Image": INSTEAD_OF_IMAGE})
    variant = {"VariantName": "a", "ModelName": "copy", "InitialInstanceCount": 1}
    await gateway.ask(
        "CreateEndpointConfig", EndpointConfigName="copy", ProductionVariants=[variant]
    )
    made = gateway.ask("CreateEndpoint", EndpointName="copy", EndpointConfigName="copy")
    assert "it must be an image's name" in await refusal(made)


async def test_what_the_operator_may_no_caller_may(gateway, tmp_path):
    """The image's program takes any variable, and any path may be named: of the operator."""
    container = {"Image": "echo", "Environment": {"LD_PRELOAD": "x"}}
    await gateway.deploy(command=None, **container, ModelDataUrl=f"file://{tmp_path}")
    await gateway.until("InService", "mine-v1")
    assert (await gateway.last_order()).environment == (("LD_PRELOAD", "x"),)
    made = gateway.ask("CreateModel", ModelName="a", PrimaryContainer={"ModelDataUrl": "/tmp"})
    assert "modelDataUrl" in await refusal(made)
    await gateway.ask("CreateModel", ModelName="a", PrimaryContainer=container)
    variant = {"VariantName": "a", "ModelName": "a", "InitialInstanceCount": 1}
    await gateway.ask("CreateEndpointConfig", EndpointConfigName="a", ProductionVariants=[variant])
    made = gateway.ask("CreateEndpoint", EndpointName="a", EndpointConfigName="a")
    assert "gets only the variables that the setting" in await refusal(made)
    # What the gateway itself says to a program nobody else may say.
    made = gateway.deploy("b", Environment={"SAGEMAKER_BIND_TO_PORT": "1"})
    assert "which only the gateway sets" in await refusal(made)


async def test_an_update_and_what_it_sweeps(gateway):
    await gateway.deploy(variant={"InitialInstanceCount": 2})
    await gateway.until("InService", "mine-v1")
    second = await gateway.deploy("MINE", command=None, Image="chat")
    assert (second["ModelName"], second["Operation"]) == ("MINE-v2", "UpdateEndpoint")
    said = await gateway.until("InService", "MINE-v2")
    assert said["ProductionVariants"][0]["DesiredInstanceCount"] == 2  # as many as there were
    assert await gateway.names("model") == {"mine-v1", "MINE-v2"}
    await gateway.deploy(variant={"InitialInstanceCount": 1})
    said = await gateway.until("InService", "mine-v3")
    assert said["ProductionVariants"][0]["DesiredInstanceCount"] == 1
    assert await gateway.names("model") == {"MINE-v2", "mine-v3"}
    assert await gateway.names("endpoint-config") == {"MINE-v2", "mine-v3"}


async def test_what_another_has_made_is_kept_or_named(gateway):
    await gateway.create(config="two")
    await gateway.until("InService", "two")
    assert (await gateway.deploy())["Gone"] == []
    said = await gateway.until("InService", "mine-v1")
    (variant,) = said["ProductionVariants"]
    assert variant["DesiredInstanceCount"] == 2
    config = gateway.resources.find("endpoint-config", "mine-v1").members
    assert config["ProductionVariants"][0]["InstanceType"] == "ml.m5.large"
    await gateway.update("both")
    await gateway.until("InService", "both")
    made = await gateway.deploy(variant={"InstanceType": "ml.c5.large"})
    assert made["Gone"] == ["variant a", "variant b"]
    said = await gateway.until("InService", made["EndpointConfigName"])
    assert said["ProductionVariants"][0]["DesiredInstanceCount"] == 1


async def test_an_update_that_fails_leaves_what_serves(gateway):
    await gateway.deploy()
    await gateway.until("InService", "mine-v1")
    gateway.of.launcher.lasting("there is no such program")
    await gateway.deploy()
    await turns()
    said = await gateway.until("InService", "mine-v1")
    assert "the gateway's log says why" in said["FailureReason"]
    said = await gateway.deployments.describe("mine")
    assert "there is no such program" in said["FailureReason"]
    await gateway.deploy()
    await gateway.until("InService", "mine-v3")
    assert await gateway.names("model") == {"mine-v1", "mine-v3"}


async def test_what_has_served_and_was_given_up_is_deployed_again(gateway):
    await gateway.deploy()
    await gateway.until("InService", "mine-v1")
    gateway.of.launcher.lasting("the program was removed")
    gateway.of.launcher.running[0].end()
    await gateway.of.advance(1)
    await gateway.until("Failed", "mine-v1")
    await gateway.deploy()
    await gateway.until("InService", "mine-v2")


async def test_what_has_failed_must_be_deleted_first(gateway):
    gateway.of.launcher.lasting("there is no such program")
    await gateway.deploy()
    await gateway.until("Failed", "mine-v1")
    assert await refusal(gateway.deploy()) == (
        "The endpoint mine has failed and was never in service, so it cannot be updated; delete it "
        "first: partway delete mine"
    )
    deleted = await gateway.deployments.delete("mine")
    assert deleted == {"Deleted": ["endpoint/mine", "endpoint-config/mine-v1", "model/mine-v1"]}


async def test_what_never_becomes_ready_can_be_deleted_at_once(gateway):
    gateway.of.launcher.held = asyncio.Event()
    await gateway.deploy()
    assert await gateway.state() == ("Creating", "mine-v1")
    assert await refusal(gateway.deploy()) == (
        "The endpoint mine is still Creating; deploy it again when that change has ended. To "
        "delete it now, with the instances that serve: partway delete mine"
    )
    with pytest.raises(ValidationException, match="Cannot update in-progress"):  # of the API's
        await gateway.ask("DeleteEndpoint", EndpointName="mine")
    deleted = await gateway.deployments.delete("mine")
    assert deleted == {"Deleted": ["endpoint/mine", "endpoint-config/mine-v1", "model/mine-v1"]}
    assert await gateway.written() is None
    gateway.of.launcher.held.set()
    await gateway.deploy()
    await gateway.until("InService", "mine-v1")


async def test_an_update_that_never_becomes_ready_goes_with_what_serves(gateway):
    await gateway.deploy()
    await gateway.until("InService", "mine-v1")
    gateway.of.launcher.held = asyncio.Event()
    await gateway.deploy()
    assert await gateway.state() == ("Updating", "mine-v1")
    assert len((await gateway.deployments.delete("mine"))["Deleted"]) == 5
    assert await gateway.written() is None
    assert gateway.running() == []
    after = await gateway.again()
    assert await after.deployments.describe("mine") is None
    await after.aclose()


async def test_a_deletion_that_was_cut_is_gone_on_with(gateway):
    await gateway.deploy()
    await gateway.until("InService", "mine-v1")
    gateway.of.launcher.running[0].stubborn = True
    await gateway.ask("DeleteEndpoint", EndpointName="mine")  # and nothing is swept
    assert "mine is still Deleting" in await refusal(gateway.deploy())
    deleted = await gateway.deployments.delete("mine")
    assert deleted == {"Deleted": ["endpoint/mine", "endpoint-config/mine-v1", "model/mine-v1"]}
    assert (await gateway.state())[0] == "Deleting"
    assert await gateway.deployments.delete("mine") == {"Deleted": ["endpoint/mine"]}
    gateway.of.launcher.running[0].end()
    assert await gateway.written() is None


async def test_a_refusal_leaves_nothing(gateway):
    made = gateway.deploy(ModelDataUrl="https://models.example/x")
    assert "model data must be at s3://" in await refusal(made)
    made = gateway.deploy(variant={"InitialInstanceCount": 100_000})
    assert "100000 instances" in await refusal(made)
    made = gateway.deploy(
        variant={"ServerlessConfig": {"MemorySizeInMB": 1024, "MaxConcurrency": 1}}
    )
    assert "ServerlessConfig" in await refusal(made)
    for kind in ("model", "endpoint-config", "endpoint"):
        assert await gateway.names(kind) == set()


async def test_a_name_that_is_too_long(gateway):
    assert "it must have at most 52: " in await refusal(gateway.deploy("a" * 53))
    await gateway.deploy("a" * 52)


async def test_a_name_that_is_taken_is_passed_over(gateway):
    await gateway.ask("CreateModel", ModelName="Mine-V1", PrimaryContainer={"Image": "echo"})
    assert (await gateway.deploy())["ModelName"] == "mine-v2"
    await gateway.until("InService", "mine-v2")
    await gateway.deployments.delete("mine")
    assert await gateway.names("model") == {"Mine-V1"}  # it is not the operator's


async def test_endpoints_of_the_settings_are_left_alone():
    own = Endpoint("Own", StreamPolicy(), (Variant(source=Program(("own",))),))
    gateway = await Deployed(settings=Settings(endpoints=(own,))).start()
    for work in (gateway.deploy("own"), gateway.deployments.delete("own")):
        assert "the gateway's settings define it" in await refusal(work)
    said = await gateway.deployments.describe("own")
    assert said["EndpointConfigName"] == "partway-settings"
    assert await gateway.names("model") == set()
    await gateway.aclose()


async def test_what_there_is_none_of(gateway):
    assert await gateway.deployments.describe("mine") is None
    assert "Could not find endpoint" in await refusal(gateway.deployments.delete("mine"))


async def test_what_was_left_half_done_goes_by_its_name(gateway):
    """As a gateway that was killed in between leaves it."""
    await gateway.deploy()
    await gateway.until("InService", "mine-v1")
    await gateway.ask("DeleteEndpoint", EndpointName="mine")
    while await gateway.deployments.describe("mine") is not None:
        await turns(1)
    deleted = await gateway.deployments.delete("mine")
    assert deleted == {"Deleted": ["endpoint-config/mine-v1", "model/mine-v1"]}


async def test_two_changes_at_once(gateway):
    first = asyncio.create_task(gateway.deploy())
    await turns(2)
    assert "Another change of MINE is about to begin" in await refusal(gateway.deploy("MINE"))
    await first
    await gateway.until("InService", "mine-v1")


async def test_a_deployment_goes_on_without_its_caller(gateway):
    caller = asyncio.create_task(gateway.deploy())
    await turns(2)
    caller.cancel()
    await asyncio.wait((caller,))
    async with asyncio.timeout(30):
        while await gateway.deployments.describe("mine") is None:
            await turns(1)
    await gateway.until("InService", "mine-v1")


async def test_nothing_is_deployed_to_a_gateway_that_stops(gateway):
    gateway.of.fleet.take_no_changes()
    with pytest.raises(FleetStopping):
        await gateway.deploy()
    assert await gateway.names("model") == set()


async def test_a_command_is_there_again_when_the_gateway_is(gateway):
    await gateway.deploy(Environment={"TOKEN": "1"}, ModelDataUrl="/")
    await gateway.until("InService", "mine-v1")
    later = await gateway.again()
    await later.until("InService", "mine-v1")
    ran = await later.last_order()
    assert ran.source == Program(("/home/me/serve", "--key", "sesame"), HERE)
    assert (ran.name, ran.environment, ran.model_data) == (DEFAULT_VARIANT, (("TOKEN", "1"),), "/")
    assert (await later.deployments.delete("mine"))["Deleted"][0] == "endpoint/mine"
    await later.aclose()


async def test_changes_are_told_in_the_log(gateway, caplog):
    caplog.set_level("INFO", "partway.audit")
    await gateway.deploy()
    (line,) = [each.getMessage() for each in caplog.records if each.name == "partway.audit"]
    arn = "arn:aws:sagemaker:us-east-1:000000000000:"
    assert line == (
        "change asked for principal=operator "
        'action="sagemaker:CreateModel sagemaker:CreateEndpointConfig sagemaker:DescribeModel '
        'sagemaker:CreateEndpoint" '
        f'resource="{arn}model/mine-v1 {arn}endpoint-config/mine-v1 {arn}endpoint/mine" '
        "outcome=done"
    )
    caplog.clear()
    await refusal(gateway.deployments.delete("other"))
    assert "outcome=ValidationException" in caplog.text
    assert "sesame" not in caplog.text


def test_nothing_of_nothing():
    assert (kept_of_variant(None), gone_with(None)) == ({}, [])


def test_what_the_operator_has_made_goes_on_whole():
    variant = {"VariantName": "AllTraffic", "ModelName": "model", "InitialInstanceCount": 2}
    plan = a_plan(a_config("config", {**variant, "InitialVariantWeight": 1.0}))
    assert (kept_of_variant(plan), gone_with(plan)) == ({"InitialInstanceCount": 2}, [])
    plan = a_plan(
        a_config("config", {**variant, "InstanceType": "ml.g5.xlarge"}),
        instances={"AllTraffic": 3},
    )
    kept = {"InitialInstanceCount": 3, "InstanceType": "ml.g5.xlarge"}
    assert (kept_of_variant(plan), gone_with(plan)) == (kept, [])


def test_the_only_variant_whatever_its_name():
    plan = a_plan(a_config("config", a_variant("a", InitialInstanceCount=4)))
    assert kept_of_variant(plan)["InitialInstanceCount"] == 4
    assert gone_with(plan) == []


def test_what_goes_is_named():
    several = {"ModelName": "several", "Containers": [{"Image": "echo"}, {"Image": "echo"}]}
    variant = a_variant(model="several", ContainerStartupHealthCheckTimeoutInSeconds=60)
    config = a_config("config", a_variant("b"), variant, AsyncInferenceConfig={})
    assert gone_with(a_plan(config, several, a_model())) == [
        "AsyncInferenceConfig",
        "ContainerStartupHealthCheckTimeoutInSeconds",
        "Containers",
        "variant b",
    ]


def test_none_of_several_is_taken_over():
    plan = a_plan(a_config("config", a_variant("a"), a_variant("b")))
    assert (kept_of_variant(plan), gone_with(plan)) == ({}, ["variant a", "variant b"])
