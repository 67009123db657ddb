"""Endpoint configurations: what is made is described, listed and deleted."""

from __future__ import annotations

import pytest

from partway.gateway.apis.control.errors import ValidationException
from partway.protocol.errors import AccessDenied
from tests.gateway.apis.conftest import ARN, Limited

VARIANT = {
    "VariantName": "AllTraffic",
    "ModelName": "echo",
    "InitialInstanceCount": 2,
    "InstanceType": "ml.m5.large",
}


async def test_a_configuration_is_described_as_it_was_made(ask):
    await ask.model()
    arn = f"{ARN}endpoint-config/one"
    other = {**VARIANT, "VariantName": "b", "InitialVariantWeight": 0.25}
    members = {"EndpointConfigName": "One", "ProductionVariants": [VARIANT, other]}
    assert await ask("CreateEndpointConfig", **members) == {"EndpointConfigArn": arn}
    assert await ask("DescribeEndpointConfig", EndpointConfigName="ONE") == {
        "EndpointConfigName": "One",
        "EndpointConfigArn": arn,
        "ProductionVariants": [{**VARIANT, "InitialVariantWeight": 1.0}, other],
        "EnableNetworkIsolation": False,
        "CreationTime": 1700000001.0,
    }


async def test_configurations_are_listed(ask):
    await ask.model()
    for name in ("one", "two"):
        await ask("CreateEndpointConfig", EndpointConfigName=name, ProductionVariants=[VARIANT])
    answer = await ask("ListEndpointConfigs", MaxResults=1)
    assert answer["EndpointConfigs"] == [
        {
            "EndpointConfigName": "two",
            "EndpointConfigArn": f"{ARN}endpoint-config/two",
            "CreationTime": 1700000002.0,
        }
    ]
    rest = await ask("ListEndpointConfigs", NextToken=answer["NextToken"])
    assert [each["EndpointConfigName"] for each in rest["EndpointConfigs"]] == ["one"]


async def test_a_deleted_configuration_is_gone(ask):
    await ask.model()
    await ask("CreateEndpointConfig", EndpointConfigName="One", ProductionVariants=[VARIANT])
    with pytest.raises(ValidationException, match="Cannot create already existing endpoint conf"):
        await ask("CreateEndpointConfig", EndpointConfigName="one", ProductionVariants=[VARIANT])
    assert await ask("DeleteEndpointConfig", EndpointConfigName="one") == {}
    for operation in ("DescribeEndpointConfig", "DeleteEndpointConfig"):
        with pytest.raises(ValidationException) as caught:
            await ask(operation, EndpointConfigName="One")
        assert caught.value.message == (
            f'Could not find endpoint configuration "{ARN}endpoint-config/one".'
        )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ModelName": "none"}, f'Could not find model "{ARN}model/none".'),
        ({"ModelName": None}, "The variant 'AllTraffic' has no ModelName"),
        ({"InitialInstanceCount": None}, "The variant 'AllTraffic' has no InitialInstanceCount"),
    ],
)
async def test_a_variant_has_a_model_that_is_there(ask, change, said):
    await ask.model()
    with pytest.raises(ValidationException) as caught:
        await ask(
            "CreateEndpointConfig",
            EndpointConfigName="a",
            ProductionVariants=[{**VARIANT, **change}],
        )
    assert said in caught.value.message


async def test_variants_have_names_of_their_own(ask):
    await ask.model()
    with pytest.raises(ValidationException, match="must have its own VariantName"):
        await ask(
            "CreateEndpointConfig",
            EndpointConfigName="a",
            ProductionVariants=[VARIANT, {**VARIANT, "VariantName": "alltraffic"}],
        )


async def test_who_may_not_describe_a_model_may_not_name_it(ask):
    await ask.model()
    config = {"EndpointConfigName": "a", "ProductionVariants": [VARIANT]}
    somebody = Limited("sagemaker:CreateEndpointConfig")
    refusals = []
    for name in ("echo", "there-is-none"):
        variants = [{**VARIANT, "ModelName": name}]
        with pytest.raises(AccessDenied) as caught:
            await ask(
                "CreateEndpointConfig",
                somebody.identity,
                **{**config, "ProductionVariants": variants},
            )
        refusals.append(caught.value.message.replace(name, "it"))
        assert somebody.asked[-1] == ("sagemaker:DescribeModel", f"{ARN}model/{name}")
    assert refusals[0] == refusals[1]
    who_may = Limited("sagemaker:CreateEndpointConfig", "sagemaker:DescribeModel")
    await ask("CreateEndpointConfig", who_may.identity, **config)


async def test_each_operation_asks_leave_for_what_it_is_done_with(ask):
    await ask.model()
    nobody = Limited()
    name = {"EndpointConfigName": "A"}
    for operation, members, resource in (
        ("CreateEndpointConfig", {**name, "ProductionVariants": [VARIANT]}, "endpoint-config/a"),
        ("DescribeEndpointConfig", name, "endpoint-config/a"),
        ("DeleteEndpointConfig", name, "endpoint-config/a"),
        ("ListEndpointConfigs", {}, None),
    ):
        with pytest.raises(AccessDenied):
            await ask(operation, nobody.identity, **members)
        asked = "*" if resource is None else f"{ARN}{resource}"
        assert nobody.asked[-1] == (f"sagemaker:{operation}", asked)
