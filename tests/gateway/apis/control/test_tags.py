"""Tags of all kinds of resources."""

from __future__ import annotations

import pytest

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.limits import MAX_TAGS
from partway.protocol.errors import AccessDenied
from tests.gateway.apis.conftest import ARN, Limited


def tags(**pairs):
    return [{"Key": key, "Value": value} for key, value in pairs.items()]


async def test_tags_come_with_what_they_are_made_with_and_change(ask):
    arn = await ask.model(Tags=tags(team="a", stage="test"))
    assert (await ask("ListTags", ResourceArn=arn))["Tags"] == tags(stage="test", team="a")
    answer = await ask("AddTags", ResourceArn=arn, Tags=tags(team="b", cost="1"))
    assert answer["Tags"] == tags(cost="1", stage="test", team="b")
    assert await ask("DeleteTags", ResourceArn=arn, TagKeys=["cost", "stage", "nothing"]) == {}
    assert await ask("ListTags", ResourceArn=arn) == {"Tags": tags(team="b")}


async def test_configurations_have_tags_too(ask):
    await ask.model()
    variant = {"VariantName": "a", "ModelName": "echo", "InitialInstanceCount": 1}
    members = {"EndpointConfigName": "One", "ProductionVariants": [variant], "Tags": tags(a="b")}
    arn = (await ask("CreateEndpointConfig", **members))["EndpointConfigArn"]
    assert await ask("ListTags", ResourceArn=arn) == {"Tags": tags(a="b")}


async def test_what_has_tags_is_found_by_its_arn_in_any_case(ask):
    await ask.model("Echo", Tags=tags(a="b"))
    assert await ask("ListTags", ResourceArn=f"{ARN}model/ECHO") == {"Tags": tags(a="b")}


@pytest.mark.parametrize(
    ("operation", "members"),
    [("ListTags", {}), ("AddTags", {"Tags": tags(a="b")}), ("DeleteTags", {"TagKeys": ["a"]})],
)
async def test_leave_is_for_the_resource_and_not_for_how_its_arn_is_written(
    ask, operation, members
):
    arn = await ask.model("Echo")
    asked = Limited(f"sagemaker:{operation}")
    for written in (f"{ARN}model/ECHO", f"{ARN}MODEL/Echo", arn):
        await ask(operation, asked.identity, ResourceArn=written, **members)
    assert {resource for _, resource in asked.asked} == {arn}


@pytest.mark.parametrize(
    ("arn", "said"),
    [
        (f"{ARN}model/none", f'Could not find model "{ARN}model/none".'),
        (f"{ARN}endpoint/none", f'Could not find endpoint "{ARN}endpoint/none".'),
        (f"{ARN}training-job/a", f'Could not find resource "{ARN}training-job/a"'),
        (f"{ARN}model", f'Could not find resource "{ARN}model"'),
        ("arn:aws:sagemaker:eu-west-2:123456789012:model/echo", "of this account and region"),
        ("arn:aws:sagemaker:eu-west-1:000000000000:model/echo", "of this account and region"),
        (f"{ARN}model/x:{ARN}model/echo", "Could not find resource"),
    ],
)
@pytest.mark.parametrize(
    ("operation", "members"),
    [("ListTags", {}), ("AddTags", {"Tags": tags(a="b")}), ("DeleteTags", {"TagKeys": ["a"]})],
)
async def test_what_is_not_there_has_no_tags(ask, operation, members, arn, said):
    await ask.model()
    with pytest.raises(ValidationException) as caught:
        await ask(operation, ResourceArn=arn, **members)
    assert said in caught.value.message


async def test_tags_are_bounded(ask):
    most = tags(**{f"k{number}": "v" for number in range(MAX_TAGS)})
    arn = await ask.model(Tags=most)
    await ask("AddTags", ResourceArn=arn, Tags=tags(k0="w"))
    with pytest.raises(ValidationException, match="would have 51 tags; it must have at most 50"):
        await ask("AddTags", ResourceArn=arn, Tags=tags(one="more"))
    assert len((await ask("ListTags", ResourceArn=arn))["Tags"]) == MAX_TAGS


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ([*tags(a="b"), *tags(a="c")], "the key 'a' twice"),
        (tags(**{"AWS:x": "b"}), "must not begin with 'aws:'"),
    ],
)
async def test_keys_are_unique_and_not_aws_own(ask, listed, said):
    with pytest.raises(ValidationException, match=said):
        await ask.model(Tags=listed)
    arn = await ask.model()
    with pytest.raises(ValidationException, match=said):
        await ask("AddTags", ResourceArn=arn, Tags=listed)


async def test_a_token_is_never_right_since_there_is_one_page(ask):
    arn = await ask.model()
    with pytest.raises(ValidationException, match="The NextToken is not valid"):
        await ask("ListTags", ResourceArn=arn, NextToken="a")


async def test_who_may_not_is_told_so(ask):
    arn = await ask.model()
    nobody = Limited()
    for operation, members in (
        ("AddTags", {"Tags": []}), ("ListTags", {}), ("DeleteTags", {"TagKeys": ["a"]}),
    ):  # fmt: skip
        with pytest.raises(AccessDenied):
            await ask(operation, nobody.identity, ResourceArn=arn, **members)
        assert nobody.asked[-1] == (f"sagemaker:{operation}", arn)
    creator = Limited("sagemaker:CreateModel")
    other = {"ModelName": "other", "PrimaryContainer": {"Image": "echo"}}
    with pytest.raises(AccessDenied, match="AddTags"):
        await ask("CreateModel", creator.identity, **other, Tags=tags(a="b"))
    await ask("CreateModel", creator.identity, **other, Tags=[])
