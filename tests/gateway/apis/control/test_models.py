"""Models: what is made is described, listed and deleted."""

from __future__ import annotations

import pytest

from partway.gateway.apis.control.errors import ValidationException
from partway.protocol.errors import AccessDenied
from tests.gateway.apis.conftest import ARN, ROLE, Limited
from tests.gateway.streams.fakes import FakeClock

CONTAINER = {
    "Image": "registry.example/echo:1",
    "ModelDataUrl": "s3://bucket/model.tar.gz",
    "Environment": {"LEVEL": "debug"},
}


async def test_a_model_is_described_as_it_was_made(ask):
    members = {"ModelName": "Echo", "PrimaryContainer": CONTAINER, "ExecutionRoleArn": ROLE}
    assert await ask("CreateModel", **members) == {"ModelArn": f"{ARN}model/echo"}
    assert await ask("DescribeModel", ModelName="eCHO") == {
        "ModelName": "Echo",
        "PrimaryContainer": {**CONTAINER, "Mode": "SingleModel"},
        "ExecutionRoleArn": ROLE,
        "EnableNetworkIsolation": False,
        "ModelArn": f"{ARN}model/echo",
        "CreationTime": 1700000000.0,
    }


async def test_a_container_may_be_the_only_one_of_a_list(ask):
    container = {"Image": "a", "ContainerHostname": "one"}
    await ask("CreateModel", ModelName="listed", Containers=[container])
    described = await ask("DescribeModel", ModelName="listed")
    assert described["Containers"] == [{"Mode": "SingleModel", **container}]


async def test_models_are_listed(ask):
    for name in ("one", "two", "three"):
        await ask.model(name)
    answer = await ask("ListModels", MaxResults=2)
    summaries = [
        {
            "ModelName": name,
            "ModelArn": f"{ARN}model/{name}",
            "CreationTime": 1700000000.0 + at,
        }
        for at, name in enumerate(["one", "two", "three"])
    ]
    assert answer["Models"] == [summaries[2], summaries[1]]
    rest = await ask("ListModels", MaxResults=2, NextToken=answer["NextToken"])
    assert rest == {"Models": [summaries[0]]}
    found = await ask("ListModels", NameContains="t", SortBy="Name", SortOrder="Ascending")
    assert [each["ModelName"] for each in found["Models"]] == ["three", "two"]


async def test_a_deleted_model_is_gone(ask):
    arn = await ask.model("Echo")
    assert await ask("DeleteModel", ModelName="echo") == {}
    for operation in ("DescribeModel", "DeleteModel"):
        with pytest.raises(ValidationException) as caught:
            await ask(operation, ModelName="Echo")
        assert caught.value.message == f'Could not find model "{arn}".'
    assert await ask("ListModels") == {"Models": []}


async def test_a_model_that_a_configuration_names_can_be_deleted(ask):
    await ask.model()
    variant = {"VariantName": "a", "ModelName": "echo", "InitialInstanceCount": 1}
    await ask("CreateEndpointConfig", EndpointConfigName="c", ProductionVariants=[variant])
    await ask("DeleteModel", ModelName="echo")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({}, "Either PrimaryContainer or Containers must be given"),
        ({"Containers": []}, "Either PrimaryContainer or Containers must be given"),
        ({"PrimaryContainer": {"Image": "a"}, "Containers": [{"Image": "a"}]}, "and not both"),
        ({"PrimaryContainer": {}}, "The container must have an Image"),
        ({"Containers": [{}]}, "The container must have an Image"),
        ({"Containers": [{"Image": "a"}, {}]}, "Container 2 of the Containers must have an Image"),
        ({"Containers": [{"Image": "a", "ContainerHostname": "h"}, {"Image": "b"}]},
         "1 of 2 Containers have a ContainerHostname; all must have one, or none"),
        ({"Containers": [{"Image": "a", "ContainerHostname": "h"}] * 2},
         "The ContainerHostname 'h' is given to several Containers"),
        ({"PrimaryContainer": {"Image": "a"}, "InferenceExecutionConfig": {"Mode": "Direct"}},
         "the model must have Containers"),
        ({"Containers": [{"Image": "a", "Environment": {f"K{number:02}": "x" * 1021
          for number in range(16)}}] * 2 + [{"Image": "a", "Environment": {"A": ""}}]},
         "The Environment of all the Containers has 32769 bytes"),
        ({"PrimaryContainer": {"Image": "a", "Environment":
          {f"K{number:02}": "é" * 512 for number in range(33)}}},
         "has 33891 bytes of names and values; it must have at most 32768"),
    ],
)  # fmt: skip
async def test_what_does_not_go_together_is_refused(ask, members, said):
    with pytest.raises(ValidationException) as caught:
        await ask("CreateModel", ModelName="a", **members)
    assert said in caught.value.message
    assert await ask("ListModels") == {"Models": []}


async def test_a_model_of_several_containers(ask):
    containers = [
        {"Image": "a", "ContainerHostname": "h"},
        {"Image": "b", "ContainerHostname": "i"},
    ]
    config = {"Mode": "Direct"}
    await ask("CreateModel", ModelName="a", Containers=containers, InferenceExecutionConfig=config)
    said = await ask("DescribeModel", ModelName="a")
    assert said["Containers"] == [{"Mode": "SingleModel", **each} for each in containers]
    assert said["InferenceExecutionConfig"] == config


async def test_environments_are_in_no_list_and_no_error(ask):
    secret = {"Environment": {"TOKEN": "hidden"}}
    await ask.model(container=secret)
    assert "hidden" not in repr(await ask("ListModels"))
    with pytest.raises(ValidationException) as caught:
        await ask.model(container=secret)
    assert "hidden" not in caught.value.message
    assert "hidden" not in repr(list(ask.resources.all("model")))


async def test_each_operation_asks_leave_for_what_it_is_done_with(ask):
    await ask.model()
    nobody = Limited()
    container = {"Image": "a"}
    for operation, members, resource in (
        ("CreateModel", {"ModelName": "New", "PrimaryContainer": container}, f"{ARN}model/new"),
        ("DescribeModel", {"ModelName": "Echo"}, f"{ARN}model/echo"),
        ("DescribeModel", {"ModelName": "none"}, f"{ARN}model/none"),
        ("ListModels", {}, "*"),
        ("DeleteModel", {"ModelName": "echo"}, f"{ARN}model/echo"),
    ):
        with pytest.raises(AccessDenied):
            await ask(operation, nobody.identity, **members)
        assert nobody.asked[-1] == (f"sagemaker:{operation}", resource)
    assert len((await ask("ListModels"))["Models"]) == 1


async def test_what_was_made_is_there_for_the_next_gateway(ask):
    await ask.model("Echo", container=CONTAINER)
    before = await ask("DescribeModel", ModelName="Echo")
    ask.resources.__init__(ask.store, FakeClock())
    assert list(ask.resources.all("model")) == []
    await ask.resources.load()
    assert await ask("DescribeModel", ModelName="Echo") == before
