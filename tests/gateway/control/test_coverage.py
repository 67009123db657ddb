"""Every member of every operation's input is done, has no effect that is named, or is refused."""

from __future__ import annotations

import re

import botocore
import pytest

from partway.gateway.control.coverage import COVERAGE, Handling, check_covered
from partway.gateway.control.errors import ValidationException
from partway.gateway.control.shapes import read_inputs
from tests.conftest import ROOT
from tests.gateway.control.operations import OPERATIONS

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
                                  "ExplainerConfig": {}},
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
            (place, row.handling.value, row.why)
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
