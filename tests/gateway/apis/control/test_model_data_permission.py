"""Of whom leave to read model data is asked, and for what."""

from __future__ import annotations

import pytest

from partway.gateway.apis.control.endpoint_plans import planned
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.model_data_permission import (
    ModelDataLeave,
    check_may_read,
)
from partway.gateway.apis.control.resources import kept_of_maker, maker_of
from partway.gateway.arns import Arns
from partway.gateway.fleet.endpoint import Endpoint, Variant
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.protocol.errors import AccessDenied
from tests.gateway.apis.conftest import Limited
from tests.gateway.apis.control.deployed import a_model, a_plan
from tests.gateway.apis.control.test_endpoint_plans import source, surroundings

ARNS = Arns("us-east-1", "000000000000")
USER = "arn:aws:sts::000000000000:federated-user/"

#: What a container's definition says, and the resources that leave is asked for.
DATA = [
    ({}, []),
    ({"ModelDataUrl": "s3://b/k/m.tar.gz"}, ["arn:aws:s3:::b/k/m.tar.gz"]),
    ({"ModelDataUrl": "s3://b/k/"}, ["arn:aws:s3:::b/k/*"]),
    (source("S3Object", "Gzip", "s3://b/m.tar.gz"), ["arn:aws:s3:::b/m.tar.gz"]),
    (source("S3Prefix", "Gzip", "s3://b/m.tar.gz"), ["arn:aws:s3:::b/m.tar.gz"]),
    (source("S3Prefix", "None", "s3://b/p"), ["arn:aws:s3:::b/p/*"]),
    (source("S3Prefix", "None", "s3://b/p/"), ["arn:aws:s3:::b/p/*"]),
    (source("S3Prefix", "None", "s3://b"), ["arn:aws:s3:::b/*"]),
    (source("S3Prefix", "None", "/srv/m"), ["arn:partway:files:::/srv/m/*"]),
    ({"ModelDataUrl": "/srv/m"}, ["arn:partway:files:::/srv/m/*"]),
    ({"ModelDataUrl": "/srv/m/"}, ["arn:partway:files:::/srv/m/*"]),
    ({"ModelDataUrl": "/srv/m.tar.gz"}, ["arn:partway:files:::/srv/m.tar.gz"]),
    ({"ModelDataUrl": "file:///srv/a%20b/../m"}, ["arn:partway:files:::/srv/m/*"]),
    (
        {"ModelDataUrl": "s3://b/m.tar.gz", **source("S3Prefix", "None", "s3://c/p")},
        ["arn:aws:s3:::b/m.tar.gz", "arn:aws:s3:::c/p/*"],
    ),
]


@pytest.mark.parametrize(("container", "resources"), DATA)
def test_what_leave_is_asked_for(container, resources):
    reader = Limited("s3:GetObject")
    check_may_read(reader.identity, container)
    assert reader.asked == [("s3:GetObject", each) for each in resources]
    if resources:
        with pytest.raises(AccessDenied, match=r"not authorized to perform: s3:GetObject"):
            check_may_read(Limited().identity, container)


async def test_a_models_maker_is_asked_and_written_down(ask):
    reader = Limited("sagemaker:CreateModel", "s3:GetObject")
    container = {"Image": "echo", "ModelDataUrl": "s3://b/m.tar.gz"}
    several = {"ModelName": "mine", "Containers": [{"Image": "echo"}, container]}
    await ask("CreateModel", reader.identity, **several)
    assert reader.asked[1:] == [("s3:GetObject", "arn:aws:s3:::b/m.tar.gz")]
    assert maker_of(ask.resources.find("model", "mine").kept) == "somebody"
    assert "somebody" not in repr(await ask("DescribeModel", ModelName="mine"))
    for members in (several, {"ModelName": "mine", "PrimaryContainer": container}):
        with pytest.raises(AccessDenied):
            await ask("CreateModel", Limited("sagemaker:CreateModel").identity, **members)


def test_a_maker_that_is_not_written_down():
    assert maker_of({}) == ""
    assert maker_of(kept_of_maker(None)) == ""
    leave = ModelDataLeave(lambda name, *_: bool(name), ARNS)
    assert leave.refusal("alice", "s3://b/m.tar.gz") == ""
    words = leave.refusal("", "s3://b/m.tar.gz")
    assert words.startswith("Could not access model data at s3://b/m.tar.gz: the model was created")
    assert words.endswith("create the model anew")


def test_the_words_of_a_refusal():
    asked = []

    def may(*what: str) -> bool:
        asked.append(what)
        return False

    assert ModelDataLeave(may, ARNS).refusal("alice", "/srv/m/") == (
        f"Could not access model data at /srv/m/: User: {USER}alice is not authorized to perform: "
        "s3:GetObject on resource: arn:partway:files:::/srv/m/* because no identity-based policy "
        "allows the s3:GetObject action"
    )
    assert asked == [("alice", "s3:GetObject", "arn:partway:files:::/srv/m/*")]


def test_the_maker_of_each_model_is_asked():
    first = a_model("model", ModelDataUrl="s3://b/first.tar.gz")
    several = {
        "ModelName": "model",
        "Containers": [
            {"Image": "echo", "ModelDataUrl": "s3://b/one.tar.gz"},
            {"Image": "echo", **source("S3Prefix", "None", "s3://b/two")},
            {"Image": "echo"},
        ],
    }
    asked = []

    def may(*what: str) -> bool:
        asked.append(what)
        return True

    leave = ModelDataLeave(may, ARNS)
    for plan, expected in (
        (a_plan(None, first, makers={"model": "alice"}), [("alice", "b/first.tar.gz")]),
        (a_plan(None, first), [("", "b/first.tar.gz")]),
        (a_plan(None, a_model(), makers={"model": "alice"}), []),
        (a_plan(None, first, of_operator={"model": {"deployed_for": "a"}}), []),
        (
            a_plan(None, several, makers={"model": "bob"}),
            [("bob", "b/one.tar.gz"), ("bob", "b/two/*")],
        ),
    ):
        asked.clear()
        leave.check_endpoint(planned("mine", plan, surroundings()))
        assert asked == [(who, "s3:GetObject", f"arn:aws:s3:::{key}") for who, key in expected]
    own = Endpoint("own", StreamPolicy(), (Variant(source=first, model_data="s3://b/m.tar.gz"),))
    asked.clear()
    leave.check_endpoint(own)
    assert asked == []
    refusing = ModelDataLeave(lambda *_: False, ARNS)
    plan = a_plan(None, first, makers={"model": "alice"})
    with pytest.raises(ValidationException, match=f"User: {USER}alice is not authorized"):
        refusing.check_endpoint(planned("mine", plan, surroundings()))
