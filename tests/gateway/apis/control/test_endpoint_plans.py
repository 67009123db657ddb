"""From a configuration and its models to what the fleet runs."""

from __future__ import annotations

import sys

import pytest

from partway.gateway.apis.control.endpoint_plans import ApiSurroundings, planned
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.fleet.endpoint import (
    Containers,
    Image,
    InstanceTimes,
    OneContainer,
    Program,
)
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.pinned_path import PinnedPath
from tests.gateway.apis.control.deployed import a_config, a_model, a_plan, a_variant

POLICY = StreamPolicy(lifetime=7)
TIMES = InstanceTimes(startup_timeout=11, stop_timeout=3)
CHAT = Program(("chat", "serve"))


def surroundings(roots=(), gpus=0):
    return ApiSurroundings(
        POLICY, TIMES, {"chat:1": CHAT}, LocalRoots(roots), gpus, ("A", "B", "TOKEN")
    )


def variants_of(plan, **keys):
    return planned("mine", plan, surroundings(**keys)).variants


def variant_of(container, **keys):
    (variant,) = variants_of(a_plan(None, a_model(**container)), **keys)
    return variant


def refusal(plan, **keys):
    with pytest.raises(ValidationException) as caught:
        planned("mine", plan, surroundings(**keys))
    return caught.value.message


def test_an_endpoint_with_all_that_it_can_have():
    plan = a_plan(
        a_config(
            "c",
            a_variant(
                "old",
                "one",
                InitialInstanceCount=2,
                InitialVariantWeight=0.5,
                ContainerStartupHealthCheckTimeoutInSeconds=60,
                ModelDataDownloadTimeoutInSeconds=61,
            ),
            a_variant("new", "two"),
        ),
        a_model("one", "chat:1", ModelDataUrl="s3://b/k.tar.gz", Environment={"B": "2", "A": ""}),
        {"ModelName": "two", "Containers": [{"Image": "registry.example/x:2"}]},
        weights={"new": 3.0},
        instances={"new": 4},
    )
    endpoint = planned("mine", plan, surroundings())
    assert (endpoint.name, endpoint.policy) == ("mine", POLICY)
    old, new = endpoint.variants
    assert (old.name, old.source, old.instances, old.weight) == ("old", CHAT, 2, 0.5)
    assert old.model_data == "s3://b/k.tar.gz"
    assert old.environment == (("A", ""), ("B", "2"))
    assert old.times == InstanceTimes(startup_timeout=60, stop_timeout=3, download_timeout=61)
    assert (new.name, new.source) == ("new", Image("registry.example/x:2"))
    assert (new.instances, new.weight, new.model_data, new.times) == (4, 3.0, None, TIMES)


def test_an_endpoint_has_so_many_containers_and_no_more():
    model = {"ModelName": "one", "Containers": [{"Image": "chat:1"}, {"Image": "chat:1"}]}
    config = a_config("c", a_variant("a", "one"), a_variant("b", "one"))
    most = a_plan(config, model, instances={"a": 499, "b": 1})
    assert sum(each.instances for each in variants_of(most)) == 500
    more = a_plan(config, model, instances={"a": 500, "b": 1})
    assert refusal(more) == (
        "The instances of all variants have 1002 containers together; they must have at most 1000."
    )


def test_an_image_is_looked_for_where_settings_look_for_it():
    assert variant_of({"image": "chat:1"}).source == CHAT
    echo = variant_of({"image": "echo"}).source
    assert isinstance(echo, Program)
    assert echo.command[0] == sys.executable
    assert variant_of({"image": "docker://echo"}).source == Image("echo")


def test_a_hostname_is_for_the_engine():
    assert variant_of({"image": "x:1", "ContainerHostname": "h"}).container_hostname == "h"
    assert variant_of({"image": "chat:1", "ContainerHostname": "h"}).container_hostname is None


@pytest.mark.parametrize(
    ("kind", "gpus", "expected"),
    [
        ("ml.g5.xlarge", 2, 1),
        ("ml.p4d.24xlarge", 1, 1),
        ("ml.g5.xlarge", 0, 0),
        ("ml.m5.large", 2, 0),
        ("ml.inf2.xlarge", 2, 0),
    ],
)
def test_instance_types_with_gpus_ask_for_one_where_there_is_one(kind, gpus, expected):
    plan = a_plan(a_config("c", a_variant(InstanceType=kind)))
    (variant,) = variants_of(plan, gpus=gpus)
    assert variant.gpus == expected
    assert plan.asks_for_gpus is kind.startswith(("ml.g", "ml.p"))


def source(kind, compression, uri):
    s3 = {"S3DataType": kind, "CompressionType": compression, "S3Uri": uri}
    return {"ModelDataSource": {"S3DataSource": s3}}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({}, None),
        ({"ModelDataUrl": "s3://b/m.tar.gz"}, "s3://b/m.tar.gz"),
        (source("S3Prefix", "None", "s3://b/m/"), "s3://b/m/"),
        (source("S3Prefix", "None", "s3://b/m"), "s3://b/m/"),
        (source("S3Object", "Gzip", "s3://b/m.tar.gz"), "s3://b/m.tar.gz"),
    ],
)
def test_model_data_in_s3(container, expected):
    assert variant_of(container).model_data == expected


def test_model_data_of_this_machine_only_below_a_root(tmp_path):
    root = tmp_path / "models"
    (root / "chat").mkdir(parents=True)
    (root / "out").symlink_to(tmp_path)
    (root / "in").symlink_to(root / "chat")
    for container in (
        {"ModelDataUrl": f"{root}/chat"},
        {"ModelDataUrl": f"file://{root}/in"},
        source("S3Prefix", "None", f"file://{root}/chat/"),
    ):
        assert variant_of(container, roots=[root]).model_data == f"{root}/chat"
    for roots in ([], [root]):
        for place in (f"{root}/out/secret", "file:///etc", "/etc/passwd"):
            message = refusal(a_plan(None, a_model(ModelDataUrl=place)), roots=roots)
            assert place in message
            assert "local_roots" in message


def test_model_data_of_this_machine_are_as_they_were(tmp_path):
    root = tmp_path / "models"
    (root / "chat").mkdir(parents=True)
    found = variant_of({"ModelDataUrl": f"{root}/chat"}, roots=[root]).pinned
    assert found == PinnedPath.of(root / "chat")
    assert found.identity is not None
    assert variant_of({"ModelDataUrl": "s3://b/m.tar.gz"}, roots=[root]).pinned is None
    assert variant_of({}).pinned is None


def test_several_containers(tmp_path):
    root = tmp_path / "models"
    (root / "chat").mkdir(parents=True)
    containers = [
        {"Image": "chat:1", "ModelDataUrl": f"{root}/chat", "Environment": {"A": "1"}},
        {"Image": "x:1"},
    ]
    model = {"ModelName": "model", "Containers": containers}
    (found,) = variants_of(a_plan(None, model), roots=[root], gpus=2)
    one, other = found.containers
    assert found.source.execution == "serial"
    assert (found.model_data, found.environment, found.container_hostname) == (None, (), None)
    assert one == OneContainer(
        hostname="container-1",
        source=CHAT,
        model_data=f"{root}/chat",
        model_maker="",
        pinned=PinnedPath.of(root / "chat"),
        environment=(("A", "1"),),
    )
    assert other == OneContainer(hostname="container-2", source=Image("x:1"))
    assert a_plan(None, model).names_files


def test_one_that_is_to_be_named_is_several_too():
    direct = {"InferenceExecutionConfig": {"Mode": "Direct"}}
    one = {"Image": "x:1", "ContainerHostname": "h"}
    (found,) = variants_of(a_plan(None, {"ModelName": "model", "Containers": [one], **direct}))
    source = Containers((OneContainer(hostname="h", source=Image("x:1")),), "direct")
    assert found.source == source


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"ModelName": "model"}, "no container"),
        (
            {"ModelName": "model", "Containers": [{"Image": "a"}, {"Image": "../x"}]},
            "'../x' is the Image",
        ),
        (a_model(image="../x"), "'../x' is the Image"),
        (a_model(ModelDataUrl="https://h/m.tar.gz"), "'https://h/m.tar.gz' cannot be downloaded"),
        (a_model(**source("S3Object", "None", "s3://b/m")), "S3DataType S3Object was given with"),
        (a_model(ModelDataUrl="s3://b/m", **source("S3Prefix", "None", "s3://b/")), "only one"),
        (a_model(Environment={"SAGEMAKER_BIND_TO_PORT": "1"}), "which only the gateway sets"),
        (a_model(Environment={"LD_PRELOAD": "secret"}), "list LD_PRELOAD there"),
        (a_model(Environment={"A": "secret\0"}), "value of A in the Environment has a zero byte"),
    ],
)
def test_what_cannot_be_honoured_is_named(model, words):
    message = refusal(a_plan(None, model))
    assert words in message
    assert "secret" not in message


def test_counts_and_weights_that_nothing_could_be_run_by():
    two = a_config("c", a_variant("a", InitialVariantWeight=0.0), a_variant("b"))
    assert "All variants have the weight 0" in refusal(a_plan(two, weights={"b": 0.0}))
    assert [each.weight for each in variants_of(a_plan(two))] == [0.0, 1.0]
    for count in (0, 1001):
        message = refusal(a_plan(instances={"AllTraffic": count}))
        assert f"{count} instances of the variant 'AllTraffic'" in message


def test_secrets_of_an_environment_are_in_no_representation():
    plan = a_plan(None, a_model(Environment={"TOKEN": "secret"}))
    assert "secret" not in repr(plan) + repr(planned("mine", plan, surroundings()))
