"""partway.gateway.fleet.launchers.engine_request: what an engine is asked for, as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from partway.gateway.fleet.endpoint import Image, InstanceTimes, Variant
from partway.gateway.fleet.launchers.engine_request import (
    container_name,
    container_request,
    made_of,
)
from partway.gateway.fleet.launchers.launcher import Order
from partway.gateway.fleet.platform_interface import VertexContainer


def request_for(
    variant: Variant, model: Path | None = None, gpus: Sequence[str] = ()
) -> dict[str, Any]:
    return container_request(Order("echo-1", "echo", variant, 0), model, "mine", gpus=gpus)


@pytest.mark.clause("1.1-1", "1.1-2")
def test_the_least():
    assert request_for(Variant(source=Image("echo:1"))) == {
        "Image": "echo:1",
        "Cmd": ["serve"],
        "Env": [],
        "ExposedPorts": {"8080/tcp": {}},
        "Labels": {
            "partway.gateway": "mine",
            "partway.endpoint": "echo",
            "partway.variant": "AllTraffic",
            "partway.instance": "echo-1",
            # Empty ones too: an image's own would stand in their place.
            "partway.made-of": "",
            "partway.model": "",
            "partway.gpus": "",
        },
        "Tty": False,
        "HostConfig": {
            "Init": False,
            "RestartPolicy": {"Name": "no"},
            "PortBindings": {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]},
            "LogConfig": {
                "Type": "json-file",
                "Config": {"max-size": "8388608", "max-file": "2"},
            },
            "SecurityOpt": ["no-new-privileges"],
            "CapDrop": ["MKNOD", "NET_RAW"],
            "PidsLimit": 8192,
        },
    }


@pytest.mark.clause("1.1-6", "1.1-7")
def test_all_that_there_may_be():
    variant = Variant(
        source=Image("echo:1"),
        environment=(("A", "b=c d"), ("E", "")),
        gpus=2,
        cpus=1.5,
        memory=1 << 30,
        container_hostname="model",
    )
    request = request_for(variant, Path("/data:1/model"))
    assert request["Env"] == ["A=b=c d", "E="]
    assert request["Hostname"] == "model"
    host = request["HostConfig"]
    assert host["NanoCpus"] == 1_500_000_000
    assert host["Memory"] == 1 << 30
    assert host["Mounts"] == [
        {"Type": "bind", "Source": "/data:1/model", "Target": "/opt/ml/model", "ReadOnly": True}
    ]
    assert host["DeviceRequests"] == [  # as Docker's own command asks for --gpus 2
        {"Driver": "", "Count": 2, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}
    ]


def test_one_that_is_written_for_vertex_ai():
    """It begins by its own CMD, and is told where it is and what it serves."""
    vertex = VertexContainer("/health", "/predict", 8501)
    variant = Variant(source=Image("echo:1"), environment=(("A", "b"),), vertex=vertex)
    request = request_for(variant, Path("/data/model"))
    assert "Cmd" not in request
    told = vertex.environment("echo", "AllTraffic", 8501, "/opt/ml/model")
    assert request["Env"] == ["A=b", *(f"{name}={value}" for name, value in told.items())]
    assert request["ExposedPorts"] == {"8501/tcp": {}}
    published = {"8501/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}
    assert request["HostConfig"]["PortBindings"] == published
    assert "AIP_STORAGE_URI=" in request_for(variant)["Env"]


def test_gpus_of_its_own():
    """As Docker's own command asks for ``--gpus '"device=GPU-a,GPU-b"'``."""
    asked = Variant(source=Image("echo:1"), gpus=2)
    request = request_for(asked, gpus=("GPU-a", "GPU-b"))
    assert request["HostConfig"]["DeviceRequests"] == [
        {
            "Driver": "",
            "Count": 0,
            "DeviceIDs": ["GPU-a", "GPU-b"],
            "Capabilities": [["gpu"]],
            "Options": {},
        }
    ]
    assert request["Labels"]["partway.gpus"] == "GPU-a,GPU-b"


# --- What it is made of --------------------------------------------------------------------------

ORDER = Order("echo-1", "echo", Variant(source=Image("echo:1")), 0)


def made(order: Order = ORDER, image: str = "sha256:1", **about: object) -> str:
    asked = {"model": Path("/model"), "folder": (1, 2), "key": b"key", **about}
    return made_of(order, image, **asked)


def with_variant(**about: object) -> Order:
    return replace(ORDER, variant=replace(ORDER.variant, **about))


def test_what_is_made_of_the_same_is_known_by_it():
    others = (
        replace(ORDER, instance="echo-2", number=1, version="another"),
        with_variant(instances=3, weight=2.0, times=InstanceTimes(stop_timeout=1)),
        with_variant(source=Image("echo:1", "never")),
    )
    assert {made(each) for each in others} == {made()}


@pytest.mark.parametrize(
    "other",
    [
        made(image="sha256:2"),
        made(folder=(1, 3)),
        made(folder=None),
        made(key=b"another"),
        made(replace(ORDER, endpoint="other")),
        made(model=Path("/other")),
        made(model=None),
        made(with_variant(name="B")),
        made(with_variant(source=Image("echo:2"))),
        made(with_variant(environment=(("A", "1"),))),
        made(with_variant(environment=(("A", "\udcff"),))),
        made(with_variant(gpus=1)),
        made(with_variant(cpus=1.0)),
        made(with_variant(memory=1 << 30)),
        made(with_variant(container_hostname="model")),
    ],
)
def test_what_is_made_of_something_else_is_not(other):
    assert other != made()
    assert len(other) == len(made()) == 64


def test_it_is_said_and_tells_nothing():
    asked = with_variant(environment=(("TOKEN", "a secret"),))
    labels = container_request(asked, Path("/model"), "mine", made=made(asked))["Labels"]
    assert labels["partway.made-of"] == made(asked)
    assert labels["partway.model"] == "/model"
    assert "secret" not in str(labels)


def test_a_containers_name_is_its_gateways():
    names = {container_name(gateway, "echo-1") for gateway in ("a", "b", "ä /")}
    assert len(names) == 3
    assert all(name.startswith("partway-") and name.endswith("-echo-1") for name in names)
    assert all(name.isascii() and "/" not in name for name in names)
