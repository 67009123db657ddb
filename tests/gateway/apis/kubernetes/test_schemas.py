"""What specs are made of: each member is on the page, with what becomes of it; faults by path."""

from __future__ import annotations

import re

import pytest

from partway.gateway.apis.kubernetes.custom_object import DEPLOYED_MODEL, ENDPOINT, KINDS
from partway.gateway.apis.kubernetes.schemas import SPECS, faults, rows
from tests.conftest import ROOT
from tests.gateway.apis.kubernetes.served import a_model, an_endpoint

PAGE = (ROOT / "docs" / "reference" / "custom-resources.md").read_text("utf-8")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_each_member_is_on_the_page_with_what_becomes_of_it(kind):
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (own,) = [each for each in section if each.startswith(f"{kind.kind}\n")]
    documented = re.findall(r"^\| `(spec\.[^`]*)` \| ([a-z ]+) \|", own, re.MULTILINE)
    assert documented == [(path, member.handling.value) for path, member in rows(kind)]


def said(kind, spec):
    return [(each["field"], each["reason"]) for each in faults(SPECS[kind], spec, "spec")]


def test_the_documented_forms_have_no_fault():
    assert said(DEPLOYED_MODEL, a_model()["spec"]) == []
    full = a_model(command=[], args=[], ports=[8080], grpcPorts=[8500])["spec"]
    full["endpointPath"] = "projects/p/locations/l/endpoints/mine"
    full["resourcePoolRef"] = {"kind": "ResourcePool", "name": "pool"}
    assert said(DEPLOYED_MODEL, full) == []
    assert said(ENDPOINT, an_endpoint(createDns=True, id="a", dnsName="b")["spec"]) == []


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        (DEPLOYED_MODEL, None, [("spec", "FieldValueTypeInvalid")]),
        (
            DEPLOYED_MODEL,
            {},
            [("spec.endpointPath", "FieldValueRequired"), ("spec.modelSpec", "FieldValueRequired")],
        ),
        (
            ENDPOINT,
            {"destinations": [{"serviceRef": {"kind": "DeployedModel", "name": "a"}, "x": 1}]},
            [("spec.destinations[0].x", "FieldValueInvalid")],
        ),
        (
            ENDPOINT,
            {"destinations": [3], "createDns": 1, "id": "Ä"},
            [
                ("spec.destinations[0]", "FieldValueTypeInvalid"),
                ("spec.createDns", "FieldValueTypeInvalid"),
                ("spec.id", "FieldValueInvalid"),
            ],
        ),
        (
            ENDPOINT,
            {
                "destinations": [
                    {
                        "serviceRef": {"kind": "DeployedModel", "name": "a"},
                        "trafficPercentage": True,
                    }
                ]
            },
            [("spec.destinations[0].trafficPercentage", "FieldValueTypeInvalid")],
        ),
    ],
)
def test_each_fault_is_named_by_its_path(kind, spec, expected):
    assert said(kind, spec) == expected
