"""The request that has an engine create a container as the platform starts it."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from pathlib import Path
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

#: Labels that let the next gateway take a container over, should this gateway be killed: the digest
#: of :func:`made_of`, the model directory, and the GPUs.
MADE_OF_LABEL: Final = "partway.made-of"
MODEL_LABEL: Final = "partway.model"
GPUS_LABEL: Final = "partway.gpus"

#: Capabilities that Docker grants to a container's root, Podman does not, and no model needs. A raw
#: socket could impersonate another container on the bridge. The other one makes device files.
_DROPPED: Final = ("MKNOD", "NET_RAW")

_NANO: Final = 10**9


def container_name(gateway: str, instance: str) -> str:
    """Return the name of an instance's container, unique among gateways."""
    return f"partway-{hashlib.sha256(gateway.encode()).hexdigest()[:8]}-{instance}"


def container_request(
    order: Order, model: Path | None, gateway: str, *, made: str = "", gpus: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the body of ``POST /containers/create``.

    Args:
        order: for an instance of an :class:`Image`.
        model: its model directory; None for none.
        gateway: the id of the container's gateway.
        made: the digest of :func:`made_of`; empty if no other gateway may take the container over.
        gpus: the GPUs it gets; if none are named, the engine chooses.
    """
    request = _request(order, model, gpus)
    labels = {
        GATEWAY_LABEL: gateway,
        **_whose(order),
        INSTANCE_LABEL: order.instance,
        # Set even if empty: an engine adds the image's own labels, and an image must not be able to
        # tell the next gateway anything.
        MADE_OF_LABEL: made,
        MODEL_LABEL: "" if model is None else str(model.absolute()),
        GPUS_LABEL: ",".join(gpus),
    }
    return {**request, "Labels": labels}


def made_of(
    order: Order, image: str, model: Path | None, folder: tuple[int, int] | None, key: bytes
) -> str:
    """Return a digest that is equal only for containers made of the same.

    Args:
        order: the order for the container.
        image: the id of its image, since a name may move to another image.
        model: its model directory; None for none.
        folder: device and inode of that directory, since a container has mounted the folder
            itself and not its path.
        key: hides the environment, which may hold secrets.
    """
    made = {
        "request": _request(order, model, ()),
        "whose": _whose(order),
        "image": image,
        "folder": folder,
    }
    text = json.dumps(made, sort_keys=True)
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _whose(order: Order) -> dict[str, str]:
    return {ENDPOINT_LABEL: order.endpoint, VARIANT_LABEL: order.variant.name}


def _request(order: Order, model: Path | None, gpus: Sequence[str]) -> dict[str, Any]:
    variant = order.variant
    assert isinstance(variant.source, Image), "nothing else is for an engine"
    environment, port = dict(variant.environment), PORT
    request: dict[str, Any] = {"Image": variant.source.name}
    if (vertex := variant.vertex) is None:
        request["Cmd"] = ["serve"]  # clause 1.1-1
    else:  # it begins by its own ENTRYPOINT and CMD
        storage, port = ("" if model is None else ARTIFACTS), vertex.port
        environment |= vertex.environment(order.endpoint, variant.name, port, storage)
    request |= {
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "ExposedPorts": {f"{port}/tcp": {}},
        "Tty": False,
        "HostConfig": _host(variant, model, f"{port}/tcp", gpus),
    }
    if variant.container_hostname is not None:  # clause 1.1-7
        request["Hostname"] = variant.container_hostname
    return request


def _host(variant: Variant, model: Path | None, port: str, gpus: Sequence[str]) -> dict[str, Any]:
    host: dict[str, Any] = {
        "Init": False,  # clause 1.1-1, whatever the engine's default is
        "RestartPolicy": {"Name": "no"},  # the fleet starts new instances
        "PortBindings": {port: [{"HostIp": HOST, "HostPort": ""}]},  # a port of the engine's choice
        "LogConfig": {
            "Type": "json-file",  # Podman knows this name too
            "Config": {"max-size": str(ENGINE_LOG_BYTES), "max-file": str(ENGINE_LOG_FILES)},
        },
        "SecurityOpt": ["no-new-privileges"],
        "CapDrop": [*_DROPPED],
        "PidsLimit": ENGINE_PROCESSES,
    }
    if model is not None:  # clause 1.1-6
        # Not "Binds", which splits a path at a colon and creates a missing path.
        host["Mounts"] = [
            {
                "Type": "bind",
                "Source": str(model.absolute()),  # the engine's folder differs
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
