"""Every member of every operation's input is done, has no effect that is named, or is refused."""

from __future__ import annotations

import copy
import re

import botocore
import pytest

from partway.gateway.apis.aws_json.shapes import ServiceShapes, read_inputs
from partway.gateway.apis.aws_json.validation import CheckedInputs
from partway.gateway.apis.control.coverage import COVERAGE, check_covered
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.handling import Handling
from tests.conftest import ROOT
from tests.gateway.apis.control.operations import OPERATIONS

PAGE = ROOT / "docs" / "reference" / "control-plane.md"

#: The table has all that this botocore knows. What a newer one knows besides is refused.
OF_BOTOCORE = (1, 44, 5)


def rows_and_members(operation):
    """An operation's rows, those of them that its shape has, and the members that lack one."""
    rows = COVERAGE[operation]
    seen, lacking = set(), set()

    def walk(shape, path):
        for name, member in shape.members.items():
            place = f"{path}.{name}" if path else name
            if place not in rows:
                lacking.add(place)
                continue
            seen.add(place)
            if any(other.startswith(f"{place}.") for other in rows):
                walk(member.item if member.form == "list" else member, place)

    walk(read_inputs("sagemaker", "2017-07-24", [operation])[operation], "")
    return set(rows), seen, lacking


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_member_has_a_row_and_every_row_a_member(operation):
    rows, seen, lacking = rows_and_members(operation)
    version = tuple(int(part) for part in botocore.__version__.split(".")[:3])
    if version <= OF_BOTOCORE:
        assert lacking == set()
    if version >= OF_BOTOCORE:
        assert rows == seen


def test_what_has_no_effect_or_is_refused_has_a_reason():
    without = [
        (operation, place)
        for operation, rows in COVERAGE.items()
        for place, row in rows.items()
        if row.handling is not Handling.DONE and not row.why
    ]
    assert without == []


@pytest.mark.parametrize(
    ("operation", "members", "refused"),
    [
        ("CreateModel", {"PrimaryContainer": {"ModelPackageName": "a"}},
         ["PrimaryContainer.ModelPackageName"]),
        ("CreateModel", {"Containers": [{"Image": "a"}, {"Mode": "MultiModel"}]},
         ["Containers.Mode"]),
        ("CreateModel", {"EnableNetworkIsolation": True}, ["EnableNetworkIsolation"]),
        ("CreateModel", {"PrimaryContainer": {"ModelDataSource": {"S3DataSource": {
            "S3Uri": "s3://a", "HubAccessConfig": {}}}}},
         ["PrimaryContainer.ModelDataSource.S3DataSource.HubAccessConfig"]),
        ("CreateEndpointConfig", {"ProductionVariants": [{"ServerlessConfig": {}}],
                                  "ExplainerConfig": {"ClarifyExplainerConfig": {}}},
         ["ProductionVariants.ServerlessConfig", "ExplainerConfig"]),
        ("CreateEndpointConfig", {"ShadowProductionVariants": [{}]}, ["ShadowProductionVariants"]),
        ("CreateEndpointConfig", {"DataCaptureConfig": {"EnableCapture": True}},
         ["DataCaptureConfig"]),
        ("CreateEndpointConfig", {"DataCaptureConfig": {}}, ["DataCaptureConfig"]),
        ("UpdateEndpoint", {"DeploymentConfig": {"BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {"Type": "CANARY"}}}},
         ["DeploymentConfig.BlueGreenUpdatePolicy.TrafficRoutingConfiguration.Type"]),
        ("ListModels", {"NewerThanThis": 1}, ["NewerThanThis"]),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused_by_name(operation, members, refused):
    with pytest.raises(ValidationException) as caught:
        check_covered(operation, members)
    message = caught.value.message
    assert message.startswith("Not supported by this gateway: ")
    named = re.findall(r"([A-Za-z0-9.]+) \(", message.partition(": ")[2])
    assert named == refused


@pytest.mark.parametrize(
    ("operation", "members"),
    [
        ("CreateModel", {"PrimaryContainer": {"Mode": "SingleModel"}, "VpcConfig": {},
                         "EnableNetworkIsolation": False}),
        ("CreateEndpointConfig", {"DataCaptureConfig": {"EnableCapture": False},
                                  "ShadowProductionVariants": [], "KmsKeyId": "a"}),
        ("CreateEndpointConfig", {"ProductionVariants": [{
            "RoutingConfig": {"RoutingStrategy": "RANDOM"}, "EnableSSMAccess": False}]}),
        ("UpdateEndpoint", {"DeploymentConfig": {"BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE"}}}}),
    ],
)  # fmt: skip
def test_what_asks_for_nothing_is_let_pass(operation, members):
    check_covered(operation, members)


# --- Each refused member, and the values of it that ask for nothing -------------------------------

_SOURCE = {"S3Uri": "s3://bucket/m/", "S3DataType": "S3Prefix", "CompressionType": "None"}
_CONTAINER = {"Image": "echo", "ModelDataSource": {"S3DataSource": _SOURCE}}
_ROUTING = {"TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}}
_UPDATE = {
    "EndpointName": "e",
    "EndpointConfigName": "c",
    "DeploymentConfig": {"BlueGreenUpdatePolicy": _ROUTING},
}
_PLACE = {"DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/in"}}}

#: Inputs that ask for nothing that is refused, with all that refused members are in.
INPUTS = {
    "CreateModel": {
        "ModelName": "m",
        "PrimaryContainer": _CONTAINER,
        "Containers": [copy.deepcopy(_CONTAINER)],
    },
    "CreateEndpointConfig": {
        "EndpointConfigName": "c",
        "ProductionVariants": [
            {"VariantName": "v", "RoutingConfig": {"RoutingStrategy": "RANDOM"}},
        ],
        "AsyncInferenceConfig": {
            "OutputConfig": {"S3OutputPath": "s3://bucket/out", "NotificationConfig": {}}
        },
    },
    "CreateEndpoint": _UPDATE,
    "UpdateEndpoint": _UPDATE,
    "UpdateEndpointWeightsAndCapacities": {
        "EndpointName": "e",
        "DesiredWeightsAndCapacities": [{"VariantName": "v"}],
    },
    "CreateTransformJob": {
        "TransformJobName": "j",
        "ModelName": "m",
        "TransformInput": _PLACE,
        "TransformOutput": {"S3OutputPath": "s3://bucket/out"},
        "TransformResources": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
    },
}

_CAPTURE = {
    "InitialSamplingPercentage": 50,
    "DestinationS3Uri": "s3://b/",
    "CaptureOptions": [{"CaptureMode": "Input"}],
}
_STEP = {"Type": "INSTANCE_COUNT", "Value": 1}
_SCALED = {"MinInstanceCount": 1, "MaxInstanceCount": 2}
_CLARIFY = {"ShapConfig": {"ShapBaselineConfig": {}}}

#: By the path's end: values that ask for nothing, and values that ask for something.
CONTAINER_VALUES = {
    "Mode": (["SingleModel"], ["MultiModel"]),
    "ModelDataSource.S3DataSource.HubAccessConfig": (
        [{"HubContentArn": ""}],
        [{"HubContentArn": "arn:aws:sagemaker:a"}],
    ),
    "ModelDataSource.S3DataSource.ManifestS3Uri": ([], ["s3://bucket/manifest"]),
    "ModelDataSource.S3DataSource.ETag": ([""], ["a"]),
    "ModelDataSource.S3DataSource.ManifestEtag": ([""], ["a"]),
    "AdditionalModelDataSources": ([[]], [[{"ChannelName": "a", "S3DataSource": _SOURCE}]]),
    "ModelPackageName": ([], ["a"]),
    "InferenceSpecificationName": ([], ["a"]),
    "MultiModelConfig": (
        [{}, {"ModelCacheSetting": "Disabled"}],
        [{"ModelCacheSetting": "Enabled"}],
    ),
    "ContainerMetricsConfig": (
        [{}, {"MetricsEndpoints": []}],
        [{"MetricsEndpoints": [{"MetricsEndpointPath": "/metrics"}]}],
    ),
}
VARIANT_VALUES = {
    "InstancePools": ([], [[{"InstanceType": "ml.m5.large", "Priority": 1}]]),
    "CoreDumpConfig": ([], [{"DestinationS3Uri": "s3://b"}]),
    "ServerlessConfig": ([], [{"MemorySizeInMB": 1024, "MaxConcurrency": 1}]),
    "EnableSSMAccess": ([False], [True]),
    "ManagedInstanceScaling": (
        [{}, {"Status": "DISABLED"}, {"Status": "DISABLED", **_SCALED}],
        [{"Status": "ENABLED"}, {"Status": "ENABLED", **_SCALED}, _SCALED],
    ),
    "RoutingConfig.RoutingStrategy": (
        ["LEAST_OUTSTANDING_REQUESTS", "RANDOM"],
        ["PREFIX_AWARE", "KV_AWARE"],
    ),
    "RoutingConfig.PrefixAwareRoutingConfig": ([{}], [{"PrefixLength": 1024}]),
    "AcceleratorPartitionLayouts": (
        [[{}], [{"AcceleratorPartitionTypes": []}]],
        [[{"AcceleratorPartitionTypes": ["mig-1g.5gb"]}]],
    ),
}
DEPLOYMENT_VALUES = {
    "BlueGreenUpdatePolicy.TrafficRoutingConfiguration.Type": (
        ["ALL_AT_ONCE"],
        ["CANARY", "LINEAR"],
    ),
    "BlueGreenUpdatePolicy.TrafficRoutingConfiguration.CanarySize": ([], [_STEP]),
    "BlueGreenUpdatePolicy.TrafficRoutingConfiguration.LinearStepSize": ([], [_STEP]),
    "RollingUpdatePolicy": ([], [{"MaximumBatchSize": _STEP, "WaitIntervalInSeconds": 0}]),
    "AutoRollbackConfiguration": ([{}], [{"Alarms": [{"AlarmName": "a"}]}]),
}
VALUES = {
    "CreateModel": {
        **{f"PrimaryContainer.{name}": each for name, each in CONTAINER_VALUES.items()},
        **{f"Containers.{name}": each for name, each in CONTAINER_VALUES.items()},
        "EnableNetworkIsolation": ([False], [True]),
    },
    "CreateEndpointConfig": {
        **{f"ProductionVariants.{name}": each for name, each in VARIANT_VALUES.items()},
        "DataCaptureConfig": (
            [{**_CAPTURE, "EnableCapture": False}, {**_CAPTURE, "InitialSamplingPercentage": 0}],
            [_CAPTURE, {**_CAPTURE, "EnableCapture": True}],
        ),
        "AsyncInferenceConfig.OutputConfig.NotificationConfig.IncludeInferenceResponseIn": (
            [[]],
            [["SUCCESS_NOTIFICATION_TOPIC"]],
        ),
        "ExplainerConfig": ([{}], [{"ClarifyExplainerConfig": _CLARIFY}]),
        "ShadowProductionVariants": ([], [[{"VariantName": "w"}]]),
        "EnableNetworkIsolation": ([False], [True]),
        "CrossRegionTrafficConfig": (
            [],
            [{"MaxInvocationsPerSecondPerInstance": 1, "MaxCrossRegionPercentPerEndpoint": 1}],
        ),
    },
    "CreateEndpoint": {
        f"DeploymentConfig.{name}": each for name, each in DEPLOYMENT_VALUES.items()
    },
    "UpdateEndpoint": {
        f"DeploymentConfig.{name}": each for name, each in DEPLOYMENT_VALUES.items()
    },
    "UpdateEndpointWeightsAndCapacities": {
        "DesiredWeightsAndCapacities.ServerlessUpdateConfig": ([{}], [{"MaxConcurrency": 1}]),
    },
    "CreateTransformJob": {"DataCaptureConfig": ([], [{"DestinationS3Uri": "s3://bucket/c"}])},
}
EACH = [
    (operation, place, value, accepted)
    for operation, members in VALUES.items()
    for place, both in members.items()
    for accepted, values in zip((True, False), both, strict=True)
    for value in values
]


SHAPES = CheckedInputs(ServiceShapes("sagemaker", "2017-07-24", COVERAGE))


async def checked(operation, members):
    """Members as operations get them."""
    found = await SHAPES.checked(operation, members)
    check_covered(operation, found)
    return found


def with_value(operation, place, value):
    """An operation's input with a value at a place."""
    members = copy.deepcopy(INPUTS[operation])
    *path, last = place.split(".")
    within = members
    for name in path:
        within = within[name]
        if isinstance(within, list):
            (within,) = within
    within[last] = value
    return members


@pytest.mark.parametrize("operation", INPUTS)
async def test_the_inputs_ask_for_nothing_that_is_refused(operation):
    await checked(operation, INPUTS[operation])


def test_the_values_are_of_all_members_that_may_be_refused():
    found = {
        (operation, place)
        for operation, rows in COVERAGE.items()
        for place, row in rows.items()
        if row.handling is Handling.REFUSED or row.accepted
    }
    tried = {(operation, place) for operation, members in VALUES.items() for place in members}
    assert found == tried
    assert tried == {(operation, place) for operation, place, _, accepted in EACH if not accepted}


@pytest.mark.parametrize(("operation", "place", "value", "accepted"), EACH)
async def test_a_value_is_refused_by_name_unless_it_asks_for_nothing(
    operation, place, value, accepted
):
    members = with_value(operation, place, value)
    if accepted:
        assert await checked(operation, members) == members
        return
    with pytest.raises(ValidationException) as caught:
        await checked(operation, members)
    row = COVERAGE[operation][place]
    assert caught.value.message == f"Not supported by this gateway: {place} ({row.reason})."
    if row.accepted:
        assert f"accepted: {row.accepted}" in caught.value.message


@pytest.mark.parametrize(
    "place",
    [
        "ProductionVariants.InstancePools",
        "ProductionVariants.AcceleratorPartitionLayouts",
        "ShadowProductionVariants",
    ],
)
async def test_a_list_that_must_have_something_is_refused_as_on_aws(place):
    with pytest.raises(ValidationException, match="length greater than or equal to 1"):
        await checked("CreateEndpointConfig", with_value("CreateEndpointConfig", place, []))


# --- The page ------------------------------------------------------------------------------------


def tables_of_the_page():
    """By operation its rows as they are on the page: member, what becomes of it, and why."""
    sections = re.split(r"^### `(\w+)`$", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {
        operation: re.findall(r"^\| `([^`]+)` \| ([a-z ]+) \| ?(.*?) ?\|$", text, re.MULTILINE)
        for operation, text in zip(sections[::2], sections[1::2], strict=True)
    }


def test_the_page_has_the_table():
    expected = {
        operation: [
            (place, row.handling.value, row.reason)
            for place, row in rows.items()
            if not place.startswith("Containers.")  # each has what PrimaryContainer has
        ]
        for operation, rows in COVERAGE.items()
    }
    assert tables_of_the_page() == expected


def test_containers_have_the_rows_of_the_primary_one():
    rows = COVERAGE["CreateModel"]
    primary, others = (
        {place.removeprefix(which): row for place, row in rows.items() if place.startswith(which)}
        for which in ("PrimaryContainer.", "Containers.")
    )
    assert primary == others
