"""partway.gateway.operator.custom_resource_definitions: structural, and as strict as the tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from partway.gateway.apis.kubernetes.custom_object import KINDS, UNREACHABLE_POD
from partway.gateway.apis.kubernetes.schemas import SPECS, faults
from partway.gateway.operator.custom_resource_definitions import definitions, structural
from tests.gateway.operator.a_cluster import a_model, an_endpoint

MODEL, ENDPOINT = a_model()["spec"], an_endpoint()["spec"]


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for each in schema.get("properties", {}).values():
        yield from nodes(each)
    if "items" in schema:
        yield from nodes(schema["items"])


def test_the_kinds():
    found = definitions()
    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    names = [each["metadata"]["name"] for each in found["items"]]
    assert names == [f"{each.plural}.{each.group}" for each in (*KINDS, UNREACHABLE_POD)]
    assert names[-1] == "unreachablepods.partway.dev"
    json.dumps(found)


@pytest.mark.parametrize("number", range(3))
def test_a_schema_is_structural(number):
    """apiextensions.k8s.io/v1: each node has one type, and no word that it does not know."""
    (version,) = definitions()["items"][number]["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    assert version["subresources"] == {"status": {}}
    known = {
        "type", "description", "properties", "required", "items", "pattern", "minimum", "maximum",
        "minItems", "maxItems", "minLength", "maxLength", "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    }  # fmt: skip
    for each in nodes(schema):
        assert isinstance(each["type"], str)
        assert each.keys() <= known
        assert ("items" in each) == (each["type"] == "array")
        assert "(?P<" not in each.get("pattern", "")
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec", "status"}


@pytest.mark.parametrize(
    ("number", "members"),
    [(0, {"endpointPath"}), (1, {"id", "userProvidedID"}), (2, set())],
)
def test_no_change_may_name_another_endpoint(number, members):
    """A rule in CEL, which servers before 1.25 leave out; each member is in both of its halves."""
    (version,) = definitions()["items"][number]["spec"]["versions"]
    rules = version["schema"]["openAPIV3Schema"].get("x-kubernetes-validations", [])
    assert bool(rules) == bool(members)
    for each in rules:
        now, before = each["rule"].split(" == ")
        assert before.replace("oldSelf", "self") == now
        assert set(re.findall(r"self\.spec\.(\w+)", now)) == members
        assert "immutable: delete the object and create it again" in each["message"]


def changed(spec: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    made = json.loads(json.dumps(spec))
    *way, last = [int(each) if each.isdecimal() else each for each in path.split(".")]
    place = made
    for each in way:
        place = place[each]
    place[last] = value
    return dict(made)


IN_CONTAINER = "modelSpec.modelContainerSpec"


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (KINDS[0], MODEL), (KINDS[1], ENDPOINT), (KINDS[0], {}), (KINDS[1], {}),
        *((KINDS[0], changed(MODEL, "endpointPath", each)) for each in (
            "endpoints/a", "projects/p/locations/l/endpoints/a", "a", "endpoints/A", 1,
            "endpoints/a/b", "x endpoints/a",
        )),
        *((KINDS[0], changed(MODEL, f"{IN_CONTAINER}.ports", each)) for each in (
            [], [8080], [80], [8080, 8080], ["8080"], 8080,
        )),
        *((KINDS[0], changed(MODEL, f"{IN_CONTAINER}.command", each)) for each in ([], ["sh"])),
        *((KINDS[0], changed(MODEL, f"{IN_CONTAINER}.env", each)) for each in (
            [], [{"name": "A", "value": "b"}], [{"value": "b"}], [{"name": 1}],
        )),
        (KINDS[0], changed(MODEL, "modelSpec", {})),
        *((KINDS[1], changed(ENDPOINT, "destinations.0.trafficPercentage", each)) for each in (
            0, 100, 101, -1, "1", True,
        )),
        (KINDS[1], changed(ENDPOINT, "destinations", [])),
        (KINDS[1], changed(ENDPOINT, "destinations", ENDPOINT["destinations"] * 11)),
        (KINDS[1], changed(ENDPOINT, "destinations.0.serviceRef.kind", "Service")),
    ],
)  # fmt: skip
def test_a_schema_is_as_strict_as_the_tables(kind, spec):
    valid = Draft202012Validator(structural(SPECS[kind])).is_valid(spec)
    assert valid == (not list(faults(SPECS[kind], spec, "spec")))
