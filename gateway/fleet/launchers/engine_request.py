"""What an engine is asked for, in its API's words: a container as the platform starts it."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from partway.gateway.fleet.endpoints import Image, Variant
from partway.gateway.fleet.launchers.engine_image import ARTIFACTS
from partway.gateway.fleet.launchers.launcher import Order
from partway.gateway.fleet.launchers.process import HOST
from partway.gateway.fleet.limits import ENGINE_LOG_BYTES, ENGINE_LOG_FILES

#: Where a container listens, as the API names ports (clause 1.1-2).
PORT: Final = "8080/tcp"

#: Labels by which a gateway finds its own containers again.
GATEWAY_LABEL: Final = "partway.gateway"
ENDPOINT_LABEL: Final = "partway.endpoint"
VARIANT_LABEL: Final = "partway.variant"
INSTANCE_LABEL: Final = "partway.instance"

_NANO: Final = 10**9


def container_name(gateway: str, instance: str) -> str:
    """The name of an instance's container, which another gateway's has not."""
    return f"partway-{hashlib.sha256(gateway.encode()).hexdigest()[:8]}-{instance}"


def container_request(order: Order, gateway: str) -> dict[str, Any]:
    """The body of ``POST /containers/create``.

    Args:
        order: for an instance of an :class:`Image`.
        gateway: which gateway's the container is.
    """
    variant = order.variant
    assert isinstance(variant.source, Image), "nothing else is for an engine"
    request: dict[str, Any] = {
        "Image": variant.source.name,
        "Cmd": ["serve"],  # clause 1.1-1
        "Env": [f"{name}={value}" for name, value in variant.environment],
        "ExposedPorts": {PORT: {}},
        "Labels": {
            GATEWAY_LABEL: gateway,
            ENDPOINT_LABEL: order.endpoint,
            VARIANT_LABEL: variant.name,
            INSTANCE_LABEL: order.instance,
        },
        "Tty": False,
        "HostConfig": _host(order, variant),
    }
    if variant.container_hostname is not None:  # clause 1.1-7
        request["Hostname"] = variant.container_hostname
    return request


def _host(order: Order, variant: Variant) -> dict[str, Any]:
    """What the machine gives to the container."""
    host: dict[str, Any] = {
        "Init": False,  # clause 1.1-1: whatever the engine is told to do for all containers
        "RestartPolicy": {"Name": "no"},  # another instance is the fleet's affair
        "PortBindings": {PORT: [{"HostIp": HOST, "HostPort": ""}]},  # a port of the engine's choice
        "LogConfig": {
            "Type": "json-file",  # Podman knows this name too
            "Config": {"max-size": str(ENGINE_LOG_BYTES), "max-file": str(ENGINE_LOG_FILES)},
        },
    }
    if order.model_dir is not None:  # clause 1.1-6
        # Not "Binds": a path with a colon is cut in two there, and one that is not there is made.
        host["Mounts"] = [
            {
                "Type": "bind",
                "Source": str(order.model_dir.absolute()),  # its current folder is another
                "Target": ARTIFACTS,
                "ReadOnly": True,
            }
        ]
    if variant.gpus:  # as the command's --gpus NUMBER
        host["DeviceRequests"] = [
            {
                "Driver": "",
                "Count": variant.gpus,
                "DeviceIDs": None,
                "Capabilities": [["gpu"]],
                "Options": {},
            }
        ]
    if variant.cpus is not None:
        host["NanoCpus"] = round(variant.cpus * _NANO)
    if variant.memory is not None:
        host["Memory"] = variant.memory
    return host
