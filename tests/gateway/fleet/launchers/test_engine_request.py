"""partway.gateway.fleet.launchers.engine_request: what an engine is asked for, as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.gateway.fleet.endpoints import Image, Variant
from partway.gateway.fleet.launchers.engine_request import container_name, container_request
from partway.gateway.fleet.launchers.launcher import Order


def order(variant: Variant, model_dir: Path | None = None) -> Order:
    return Order("echo-1", "echo", variant, 0, model_dir, lambda data: None)


@pytest.mark.clause("1.1-1", "1.1-2")
def test_the_least():
    assert container_request(order(Variant(source=Image("echo:1"))), "mine") == {
        "Image": "echo:1",
        "Cmd": ["serve"],
        "Env": [],
        "ExposedPorts": {"8080/tcp": {}},
        "Labels": {
            "partway.gateway": "mine",
            "partway.endpoint": "echo",
            "partway.variant": "AllTraffic",
            "partway.instance": "echo-1",
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
    request = container_request(order(variant, Path("/data:1/model")), "mine")
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


def test_a_containers_name_is_its_gateways():
    names = {container_name(gateway, "echo-1") for gateway in ("a", "b", "ä /")}
    assert len(names) == 3
    assert all(name.startswith("partway-") and name.endswith("-echo-1") for name in names)
    assert all(name.isascii() and "/" not in name for name in names)
