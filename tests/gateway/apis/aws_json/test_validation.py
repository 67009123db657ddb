"""Inputs are checked as botocore's shapes say, in AWS's words."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
import string

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partway.gateway.apis.aws_json.shapes import ServiceShapes, Shape, read_inputs
from partway.gateway.apis.aws_json.validation import CheckedInputs, checked_by
from partway.gateway.apis.control.errors import SerializationException, ValidationException
from tests.gateway.apis.control.operations import OPERATIONS

VERSION = "2017-07-24"
NAME = Shape("string", 0, 63, re.compile("[a-z]+"), "[a-z]+")
PLACE = Shape("string", 0, 99, re.compile("s3://.+"), "s3://.+", is_location=True)


@functools.cache
def inputs():
    return read_inputs("sagemaker", VERSION, OPERATIONS)


def faults(operation, members):
    with pytest.raises(ValidationException) as caught:
        checked_by(inputs()[operation], members)
    return caught.value.message


# --- AWS's words ---------------------------------------------------------------------------------


def test_a_pattern_and_a_length():
    pattern = inputs()["CreateModel"].members["ModelName"].written
    assert faults("CreateModel", {"ModelName": "a_b"}) == (
        "1 validation error detected: Value 'a_b' at 'modelName' failed to satisfy constraint: "
        f"Member must satisfy regular expression pattern: {pattern}"
    )
    long = "a_" * 32
    assert faults("CreateModel", {"ModelName": long}) == (
        f"2 validation errors detected: Value '{long}' at 'modelName' failed to satisfy "
        f"constraint: Member must have length less than or equal to 63; Value '{long}' at "
        "'modelName' failed to satisfy constraint: Member must satisfy regular expression "
        f"pattern: {pattern}"
    )


def test_what_is_missing_or_null():
    expected = (
        "1 validation error detected: Value null at 'modelName' failed to satisfy constraint: "
        "Member must not be null"
    )
    assert faults("CreateModel", {}) == expected
    assert faults("CreateModel", {"ModelName": None}) == expected


def test_what_is_deeper_is_named_by_its_whole_place():
    variant = {"VariantName": "a", "ModelName": "b", "InitialInstanceCount": 0}
    members = {"EndpointConfigName": "c", "ProductionVariants": [variant]}
    assert faults("CreateEndpointConfig", members) == (
        "1 validation error detected: Value '0' at "
        "'productionVariants.1.member.initialInstanceCount' failed to satisfy constraint: Member "
        "must have value greater than or equal to 1"
    )


def test_one_of_a_few_values():
    assert faults("ListModels", {"SortOrder": "up"}) == (
        "1 validation error detected: Value 'up' at 'sortOrder' failed to satisfy constraint: "
        "Member must satisfy enum value set: [Ascending, Descending]"
    )


def test_one_of_very_many_values():
    variant = {"VariantName": "a", "ModelName": "b", "InstanceType": "ml.g5.xlagre"}
    said = faults(
        "CreateEndpointConfig", {"EndpointConfigName": "c", "ProductionVariants": [variant]}
    )
    assert "'ml.g5.xlagre' at 'productionVariants.1.member.instanceType'" in said
    values = re.search(r"enum value set: \[(.*)\]", said)[1].split(", ")
    assert values[0] == "ml.g5.xlarge"
    assert len(values) == 9
    assert re.fullmatch(r"and [0-9]+ more", values[-1])


@pytest.mark.parametrize(
    ("operation", "members", "setting", "other"),
    [
        ("CreateModel",
         {"ModelName": "a", "PrimaryContainer": {"Image": "e", "ModelDataUrl": "WHERE"}},
         "local_roots", "local_results"),
        ("CreateEndpointConfig",
         {"EndpointConfigName": "c",
          "ProductionVariants": [{"VariantName": "a", "ModelName": "b"}],
          "AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "WHERE"}}},
         "local_results", "local_roots"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["/etc/model", "file:///etc/model", "model.tar.gz"])
def test_the_setting_is_named_that_allows_a_path(operation, members, setting, other, where):
    said = faults(operation, json.loads(json.dumps(members).replace("WHERE", where)))
    assert f"must be below one of the {setting} under [api] in" in said
    assert other not in said


def test_values_of_lists_and_maps_are_named_together():
    vpc = {"SecurityGroupIds": ["sg_1"], "Subnets": ["a"]}
    said = faults("CreateModel", {"ModelName": "a", "VpcConfig": vpc})
    assert said == (
        "1 validation error detected: Value at 'vpcConfig.securityGroupIds' failed to satisfy "
        "constraint: Member must satisfy constraint: [Member must have length less than or equal "
        "to 32, Member must have length greater than or equal to 0, Member must satisfy regular "
        "expression pattern: [-0-9a-zA-Z]+]"
    )


@pytest.mark.parametrize("environment", [{"A": "hidden" * 400}, {"hidden!": "a"}])
def test_what_is_in_a_map_is_not_repeated(environment):
    container = {"Image": "a", "Environment": environment}
    said = faults("CreateModel", {"ModelName": "a", "PrimaryContainer": container})
    assert "at 'primaryContainer.environment' failed to satisfy constraint: Map " in said
    assert "hidden" not in said


def test_lists_have_lengths():
    members = {"EndpointConfigName": "c", "ProductionVariants": []}
    assert faults("CreateEndpointConfig", members) == (
        "1 validation error detected: Value at 'productionVariants' failed to satisfy constraint: "
        "Member must have length greater than or equal to 1"
    )


def test_a_member_that_nobody_knows_is_not_ignored():
    assert faults("ListModels", {"Newer": 1}) == (
        "1 validation error detected: Value at 'newer' failed to satisfy constraint: Member must "
        "be one that this gateway knows"
    )
    assert checked_by(inputs()["ListModels"], {"Newer": None}) == {}


def test_a_union_has_exactly_one_member():
    shape = Shape("structure", members={"A": NAME, "B": NAME}, is_union=True)
    outer = Shape("structure", members={"Either": shape})
    assert checked_by(outer, {"Either": {"A": "a"}}) == {"Either": {"A": "a"}}
    for members in ({}, {"A": "a", "B": "b"}):
        with pytest.raises(ValidationException, match=r"at 'either' .* exactly one of: A, B"):
            checked_by(outer, {"Either": members})


def test_what_is_repeated_is_bounded_and_one_line():
    said = faults("DescribeModel", {"ModelName": "a\n" * 100_000})
    assert len(said) < 5000
    assert "\n" not in said
    said = faults("ListModels", {f"x{number}": 1 for number in range(5000)})
    assert said.startswith("100 validation errors detected")


# --- Types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "members", "message"),
    [
        ("DescribeModel", {"ModelName": 1},
         "NUMBER_VALUE can not be converted to String at 'modelName'"),
        ("DescribeModel", {"ModelName": ["a"]},
         "START_ARRAY can not be converted to String at 'modelName'"),
        ("ListModels", {"MaxResults": "1"},
         "STRING_VALUE can not be converted to Integer at 'maxResults'"),
        ("ListModels", {"MaxResults": True},
         "BOOLEAN_VALUE can not be converted to Integer at 'maxResults'"),
        ("ListModels", {"MaxResults": 1.5},
         "NUMBER_VALUE can not be converted to Integer at 'maxResults'"),
        ("ListModels", {"MaxResults": 10**400},
         "NUMBER_VALUE can not be converted to Integer at 'maxResults'"),
        ("ListModels", {"CreationTimeAfter": 10**400},
         "NUMBER_VALUE can not be converted to Timestamp at 'creationTimeAfter'"),
        ("ListModels", {"CreationTimeAfter": math.nan},
         "NUMBER_VALUE can not be converted to Timestamp at 'creationTimeAfter'"),
        ("ListModels", {"MaxResults": 2**31},
         "NUMBER_VALUE can not be converted to Integer at 'maxResults'"),
        ("ListModels", {"CreationTimeAfter": "2024-01-01T00:00:00Z"},
         "STRING_VALUE can not be converted to Timestamp at 'creationTimeAfter'"),
        ("ListModels", {"CreationTimeAfter": math.inf},
         "NUMBER_VALUE can not be converted to Timestamp at 'creationTimeAfter'"),
        ("DeleteTags", {"ResourceArn": "a", "TagKeys": "a"},
         "STRING_VALUE can not be converted to List at 'tagKeys'"),
        ("DeleteTags", {"ResourceArn": "a", "TagKeys": [None]},
         "NULL_VALUE can not be converted to String at 'tagKeys'"),
        ("CreateModel", {"ModelName": "a", "PrimaryContainer": {"Environment": []}},
         "START_ARRAY can not be converted to Map at 'primaryContainer.environment'"),
        ("CreateModel", {"ModelName": "a", "EnableNetworkIsolation": {}},
         "START_OBJECT can not be converted to Boolean at 'enableNetworkIsolation'"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_named(operation, members, message):
    with pytest.raises(SerializationException) as caught:
        checked_by(inputs()[operation], members)
    assert caught.value.message == message


def test_numbers_come_as_their_shapes_have_them():
    checked = checked_by(inputs()["ListModels"], {"MaxResults": 7.0, "CreationTimeAfter": 1.25})
    assert checked == {"MaxResults": 7, "CreationTimeAfter": 1.25}
    assert isinstance(checked["MaxResults"], int)


def test_null_is_as_if_it_were_not_there():
    container = {"Image": "a", "Environment": {"A": "b", "C": None}, "Mode": None}
    checked = checked_by(inputs()["CreateModel"], {"ModelName": "a", "PrimaryContainer": container})
    assert checked["PrimaryContainer"] == {"Image": "a", "Environment": {"A": "b"}}


# --- Paths of this machine -----------------------------------------------------------------------


@pytest.mark.parametrize("place", ["/models/a", "file:///models/a"])
def test_a_path_stands_for_a_place_in_s3_only_where_it_may(place):
    shape = Shape("structure", members={"Url": PLACE, "Name": NAME})
    assert checked_by(shape, {"Url": place}, lambda path: path == place) == {"Url": place}
    with pytest.raises(ValidationException, match=r"pattern: s3://\.\+ \(a path must be below one"):
        checked_by(shape, {"Url": place})
    with pytest.raises(ValidationException, match="'name' "):
        checked_by(shape, {"Name": place}, lambda _: True)


async def test_an_operation_is_checked_by_its_own_shape():
    checks = CheckedInputs(ServiceShapes("sagemaker", VERSION, OPERATIONS))
    members = {"ModelName": "a", "PrimaryContainer": {"ModelDataUrl": "/models/a"}}
    with pytest.raises(ValidationException, match="local_roots"):
        await checks.checked("CreateModel", members)
    local = CheckedInputs(ServiceShapes("sagemaker", VERSION, OPERATIONS), lambda _: True)
    assert await local.checked("CreateModel", members) == members


# --- Beside botocore's own validator -------------------------------------------------------------


@functools.cache
def service():
    loader = Loader()
    return ServiceModel(loader.load_service_model("sagemaker", "service-2", VERSION), "sagemaker")


def constrained(shape, value):
    """Whether a value that botocore lets pass keeps what botocore does not look at."""
    said = shape.metadata
    match shape.type_name:
        case "structure":
            return all(constrained(shape.members[name], each) for name, each in value.items())
        case "list":
            return len(value) <= said.get("max", math.inf) and all(
                constrained(shape.member, each) for each in value
            )
        case "map":
            return len(value) <= said.get("max", math.inf) and all(
                constrained(shape.key, key) and constrained(shape.value, each)
                for key, each in value.items()
            )
        case "string":
            pattern = said.get("pattern", r"[\s\S]*").replace(r"\p{L}\p{Z}\p{N}_", r"\w ")
            return (
                len(value) <= said.get("max", math.inf)
                and value in (said.get("enum") or [value])
                and re.fullmatch(pattern, value) is not None
            )
        case "integer" | "float":
            return value <= said.get("max", math.inf)
    return True


#: Printable characters of ASCII: what else there is, tests of patterns look at.
TEXT = st.text(string.ascii_letters + string.digits + "-/.:_ {}", max_size=70)


def strings(shape):
    said = shape.metadata
    if said.get("enum"):
        return st.sampled_from(said["enum"][:3]) | TEXT
    if "pattern" not in said or r"\p" in said["pattern"]:
        return TEXT
    fitting = st.from_regex(re.compile(said["pattern"], re.ASCII), fullmatch=True).filter(
        str.isascii
    )
    return st.one_of(fitting, fitting, fitting, TEXT)


def values_of(shape):
    said = shape.metadata
    match shape.type_name:
        case "structure":
            required = {name: values_of(shape.members[name]) for name in shape.required_members}
            names = [name for name in shape.members if name not in required]
            optional = st.lists(st.sampled_from(names), max_size=3, unique=True) if names else None
            whole = st.fixed_dictionaries(required)
            if optional is None:
                return whole
            return st.builds(
                lambda base, more: {**base, **more},
                whole | st.fixed_dictionaries({}),
                optional.flatmap(
                    lambda some: st.fixed_dictionaries(
                        {name: values_of(shape.members[name]) for name in some}
                    )
                ),
            )
        case "list":
            return st.lists(values_of(shape.member), max_size=min(said.get("max", 3) + 1, 3))
        case "map":
            return st.dictionaries(values_of(shape.key), values_of(shape.value), max_size=3)
        case "string":
            return strings(shape)
        case "integer":
            return st.integers(said.get("min", 0) - 1, said.get("max", 1000) + 1)
        case "float":
            return st.floats(-1, 10)
        case "boolean":
            return st.booleans()
        case "timestamp":
            return st.integers(0, 2**31)
    raise AssertionError(shape.type_name)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(operation=st.sampled_from(OPERATIONS), data=st.data())
def test_what_botocore_and_the_patterns_allow_is_allowed_and_nothing_else(operation, data):
    source = service().operation_model(operation).input_shape
    members = data.draw(values_of(source))
    report = ParamValidator().validate(members, source)
    allowed = not report.has_errors() and constrained(source, members)
    try:
        checked = checked_by(inputs()[operation], members)
    except ValidationException:
        assert not allowed
    else:
        assert allowed
        assert checked == members


@settings(max_examples=75, suppress_health_check=list(HealthCheck))
@given(operation=st.sampled_from(OPERATIONS), data=st.data())
def test_whatever_json_is_given_the_answer_is_one_of_two_errors(operation, data):
    names = list(inputs()[operation].members)
    anything = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(TEXT | st.sampled_from(["Image", "Key", "VariantName"]), inner)
        ),
        max_leaves=10,
    )
    members = data.draw(st.dictionaries(st.sampled_from(names) | TEXT, anything, max_size=5))
    with contextlib.suppress(ValidationException, SerializationException):
        checked_by(inputs()[operation], members)
