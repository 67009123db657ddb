"""What an engine is asked for, in its API's words: a container as the platform starts it."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Any, Final

from partway.gateway.fleet.endpoint import Image, Variant
from partway.gateway.fleet.launchers.engine_image import ARTIFACTS
from partway.gateway.fleet.launchers.launcher import Order
from partway.gateway.fleet.launchers.process import HOST
from partway.gateway.fleet.limits import ENGINE_LOG_BYTES, ENGINE_LOG_FILES, ENGINE_PROCESSES
from partway.gateway.fleet.platform_interface import PORT

#: Labels by which a gateway finds its own containers again.
GATEWAY_LABEL: Final = "partway.gateway"
ENDPOINT_LABEL: Final = "partway.endpoint"
VARIANT_LABEL: Final = "partway.variant"
INSTANCE_LABEL: Final = "partway.instance"

#: What the next gateway, should this one be killed, has to know of a container to go on with it:
#: what it is made of, by :func:`made_of`, its model directory, and its GPUs.
MADE_OF_LABEL: Final = "partway.made-of"
MODEL_LABEL: Final = "partway.model"
GPUS_LABEL: Final = "partway.gpus"

#: What Docker gives to a container's root that Podman does not, and no model needs: raw sockets, by
#: which one on the bridge can pass for another, and new device files.
_DROPPED: Final = ("MKNOD", "NET_RAW")

_NANO: Final = 10**9


def container_name(gateway: str, instance: str) -> str:
    """The name of an instance's container, which another gateway's has not."""
    return f"partway-{hashlib.sha256(gateway.encode()).hexdigest()[:8]}-{instance}"


def container_request(
    order: Order, gateway: str, *, made: str = "", gpus: Sequence[str] = ()
) -> dict[str, Any]:
    """The body of ``POST /containers/create``.

    Args:
        order: for an instance of an :class:`Image`.
        gateway: which gateway's the container is.
        made: what :func:`made_of` says; empty for a container that no other gateway is to have.
        gpus: which GPUs it has; the engine chooses if none are named.
    """
    request = _request(order, gpus)
    labels = {
        GATEWAY_LABEL: gateway,
        **_whose(order),
        INSTANCE_LABEL: order.instance,
        # Also where there is nothing to say: an engine adds an image's own labels to these, and
        # what the next gateway believes must be no image's to say.
        MADE_OF_LABEL: made,
        MODEL_LABEL: "" if order.model_dir is None else str(order.model_dir.absolute()),
        GPUS_LABEL: ",".join(gpus),
    }
    return {**request, "Labels": labels}


def made_of(order: Order, image: str, folder: tuple[int, int] | None, key: bytes) -> str:
    """What is the same for two containers only if they are made of the same, whoever made them.

    Args:
        order: what is asked for.
        image: the id of its image, which another one of the same name does not have.
        folder: device and inode of its model directory: another one in the same place, though of
            the same content, is not what a container has mounted.
        key: without it nothing is learned of the environment, which may hold secrets.
    """
    made = {
        "request": _request(order, ()),
        "whose": _whose(order),
        "image": image,
        "folder": folder,
    }
    text = json.dumps(made, sort_keys=True)
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _whose(order: Order) -> dict[str, str]:
    return {ENDPOINT_LABEL: order.endpoint, VARIANT_LABEL: order.variant.name}


def _request(order: Order, gpus: Sequence[str]) -> dict[str, Any]:
    """What is asked for, but for the labels."""
    variant = order.variant
    assert isinstance(variant.source, Image), "nothing else is for an engine"
    environment, port = dict(variant.environment), PORT
    request: dict[str, Any] = {"Image": variant.source.name}
    if (vertex := variant.vertex) is None:
        request["Cmd"] = ["serve"]  # clause 1.1-1
    else:  # it begins by its own ENTRYPOINT and CMD
        storage, port = ("" if order.model_dir is None else ARTIFACTS), vertex.port
        environment |= vertex.environment(order.endpoint, variant.name, port, storage)
    request |= {
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "ExposedPorts": {f"{port}/tcp": {}},
        "Tty": False,
        "HostConfig": _host(order, variant, f"{port}/tcp", gpus),
    }
    if variant.container_hostname is not None:  # clause 1.1-7
        request["Hostname"] = variant.container_hostname
    return request


def _host(order: Order, variant: Variant, port: str, gpus: Sequence[str]) -> dict[str, Any]:
    """What the machine gives to the container."""
    host: dict[str, Any] = {
        "Init": False,  # clause 1.1-1: whatever the engine is told to do for all containers
        "RestartPolicy": {"Name": "no"},  # another instance is the fleet's affair
        "PortBindings": {port: [{"HostIp": HOST, "HostPort": ""}]},  # a port of the engine's choice
        "LogConfig": {
            "Type": "json-file",  # Podman knows this name too
            "Config": {"max-size": str(ENGINE_LOG_BYTES), "max-file": str(ENGINE_LOG_FILES)},
        },
        "SecurityOpt": ["no-new-privileges"],
        "CapDrop": [*_DROPPED],
        "PidsLimit": ENGINE_PROCESSES,
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
    if variant.gpus:  # as the command's --gpus NUMBER, or --gpus device=ID,ID
        host["DeviceRequests"] = [
            {
                "Driver": "",
                "Count": 0 if gpus else variant.gpus,  # an engine refuses both
                "DeviceIDs": [*gpus] or None,
                "Capabilities": [["gpu"]],
                "Options": {},
            }
        ]
    if variant.cpus is not None:
        host["NanoCpus"] = round(variant.cpus * _NANO)
    if variant.memory is not None:
        host["Memory"] = variant.memory
    return host
