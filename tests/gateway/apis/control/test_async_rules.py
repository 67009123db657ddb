"""partway.gateway.apis.control.async_rules: where answers may be put, and who may say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.gateway.access.authentication import ANYBODY
from partway.gateway.apis.control.async_rules import AsyncRules, check_names_no_containers
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.resources import maker_of
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.protocol.errors import AccessDenied
from tests.gateway.apis.conftest import Limited
from tests.gateway.apis.control.deployed import a_config, a_model, a_plan, a_variant

TOPIC = "arn:aws:sns:us-east-1:000000000000:done"
RULES = AsyncRules(LocalRoots((Path("/srv/answers"),), setting="local_results"), {TOPIC})

pytestmark = pytest.mark.usefixtures("anyio_backend")


def asking(**output):
    return {"AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://bucket/a", **output}}}


def test_what_can_be_done():
    RULES.check({}, ANYBODY)
    RULES.check(asking(S3FailurePath="s3://bucket"), ANYBODY)
    RULES.check(asking(S3OutputPath="/srv/answers/a", S3FailurePath=""), ANYBODY)
    RULES.check(asking(NotificationConfig={"SuccessTopic": TOPIC, "ErrorTopic": ""}), ANYBODY)


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ({"S3OutputPath": ""}, "no S3OutputPath; it must have one"),
        ({"S3OutputPath": "https://bucket/a"}, "must be s3://BUCKET/PREFIX"),
        ({"S3OutputPath": "s3://B/a"}, "not a bucket's name"),
        ({"S3OutputPath": "s3://bucket/a//b"}, "no part of it may be empty"),
        ({"S3FailurePath": "s3://bucket/../b"}, "S3FailurePath .* no part of it"),
        ({"S3FailurePath": "s3://bucket/ä"}, "S3FailurePath must consist of visible ASCII"),
        ({"S3FailurePath": "/srv/answers/../a"}, "below one of the local_results"),
        ({"S3FailurePath": "/srv/answers/a/../b"}, "S3FailurePath .* no part of it empty, . or .."),
        ({"S3OutputPath": "file:///srv/answers/a/%2e%2e/b"}, "nothing in it percent-encoded"),
        ({"S3OutputPath": "/srv/answers/a//"}, "no part of it empty"),
        ({"NotificationConfig": {"ErrorTopic": TOPIC + "2"}}, "done2' has no webhook here"),
    ],
)
def test_what_cannot(output, why):
    with pytest.raises(ValidationException, match=why):
        RULES.check(asking(**output), ANYBODY)


def test_who_may_have_it_done():
    somebody = Limited("s3:PutObject", "sns:Publish")
    topics = {"SuccessTopic": TOPIC}
    asked = asking(S3FailurePath="/srv/answers/", NotificationConfig=topics)
    RULES.check(asked, somebody.identity)
    assert somebody.asked == [
        ("s3:PutObject", "arn:aws:s3:::bucket/a/*"),
        ("s3:PutObject", "arn:partway:files:::/srv/answers/*"),
        ("sns:Publish", TOPIC),
    ]
    for may in ("s3:PutObject", "sns:Publish"):
        with pytest.raises(AccessDenied):
            RULES.check(asked, Limited(may).identity)


async def test_create_endpoint_config_asks(ask):
    await ask.model("model")
    members = {"EndpointConfigName": "c", "ProductionVariants": [a_variant()]}
    with pytest.raises(ValidationException, match="no webhook here"):
        await ask(
            "CreateEndpointConfig",
            **members,
            **asking(NotificationConfig={"SuccessTopic": TOPIC}),
        )
    with pytest.raises(ValidationException, match="regular expression pattern"):
        await ask("CreateEndpointConfig", **members, **asking(S3OutputPath="/srv/answers/a"))
    await ask("CreateEndpointConfig", **members, **asking())
    described = await ask("DescribeEndpointConfig", EndpointConfigName="c")
    assert described["AsyncInferenceConfig"] == asking()["AsyncInferenceConfig"]


async def test_a_configurations_maker_is_written_down(ask):
    await ask.model("model")
    maker = Limited("sagemaker:CreateEndpointConfig", "sagemaker:DescribeModel", "s3:PutObject")
    members = {"EndpointConfigName": "c", "ProductionVariants": [a_variant()]}
    await ask("CreateEndpointConfig", maker.identity, **members, **asking())
    assert maker_of(ask.resources.find("endpoint-config", "c").kept) == "somebody"
    assert "somebody" not in repr(await ask("DescribeEndpointConfig", EndpointConfigName="c"))


def test_no_request_can_name_a_container():
    several = {"ModelName": "model", "Containers": [{"Image": "echo"}, {"Image": "echo"}]}
    direct = {**several, "InferenceExecutionConfig": {"Mode": "Direct"}}
    check_names_no_containers(a_plan(a_config(), direct))
    check_names_no_containers(a_plan(a_config(**asking()), several))
    check_names_no_containers(a_plan(a_config(**asking()), a_model()))
    with pytest.raises(ValidationException, match="the Mode Direct; the Mode must be Serial"):
        check_names_no_containers(a_plan(a_config(**asking()), direct))
