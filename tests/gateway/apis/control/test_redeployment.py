"""partway.gateway.apis.control.redeployment: what is kept of a plan, and what goes."""

from __future__ import annotations

from partway.gateway.apis.control.redeployment import gone_with, kept_of_variant
from tests.gateway.apis.control.deployed import a_config, a_model, a_plan, a_variant


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
