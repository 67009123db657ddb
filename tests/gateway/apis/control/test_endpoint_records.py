"""Records of endpoints: how far each has come."""

from __future__ import annotations

import pytest

from partway.gateway.apis.control.endpoint_records import EndpointRecord
from partway.gateway.apis.control.resources import Resource
from partway.gateway.fleet.status import EndpointState
from tests.gateway.apis.control.deployed import a_config, a_model, a_plan
from tests.gateway.fleet.statuses import an_endpoint

OLD, NEW = a_plan(a_config("old")), a_plan(a_config("new"))
RESOURCE = Resource("endpoint", "Mine", 1.0, 2.0, {"EndpointName": "Mine"}, {"team": "a"})


def record(state, serving, coming, reason=""):
    return EndpointRecord(EndpointState(state), serving, coming, reason, 3.0)


@pytest.mark.parametrize(
    "kept",
    [
        record("Creating", None, NEW),
        record("Updating", OLD, a_plan(instances={"AllTraffic": 2}, weights={"AllTraffic": 0.5})),
        record("InService", OLD, None, "the last one failed"),
    ],
)
def test_what_is_kept_is_what_was(kept):
    resource = kept.in_place_of(RESOURCE, 5.0)
    assert EndpointRecord.of(resource) == kept
    assert (resource.created, resource.modified, resource.tags) == (1.0, 5.0, {"team": "a"})
    assert resource.members["EndpointName"] == "Mine"
    assert resource.members["EndpointConfigName"] == kept.plan.config_name


def test_a_record_of_before_models_had_makers():
    kept = record("InService", OLD, None).in_place_of(RESOURCE, 5.0).kept
    del kept["serving"]["makers"]
    read = EndpointRecord.of(Resource("endpoint", "mine", 1.0, 2.0, {}, kept=kept))
    assert read.plan == OLD
    assert read.plan.maker_of("model") == ""


@pytest.mark.parametrize(
    ("before", "status", "after"),
    [
        (
            record("Creating", None, NEW),
            {"reason": "fewer than there are to be"},
            record("InService", NEW, None, "fewer than there are to be"),
        ),
        (
            record("Creating", None, NEW),
            {"state": EndpointState.FAILED, "reason": "why", "is_latest": False},
            record("Failed", None, NEW, "why"),
        ),
        (record("Updating", OLD, NEW), {}, record("InService", NEW, None)),
        (
            record("Updating", OLD, NEW),
            {"reason": "why", "is_latest": False},
            record("InService", OLD, None, "why"),
        ),
    ],
)
def test_what_becomes_of_a_change(before, status, after):
    assert before.settled(an_endpoint("mine", **status)) == after


def test_a_record_names_no_secrets():
    plan = a_plan(None, a_model(Environment={"TOKEN": "secret"}))
    kept = record("Creating", None, plan)
    assert "secret" not in repr(kept) + repr(kept.in_place_of(RESOURCE, 1.0))
