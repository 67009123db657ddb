"""The status of the fleet as JSON: written by the gateway, read by the user's commands."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from partway.gateway.fleet.states import InstanceState
from partway.gateway.fleet.status import (
    EndpointState,
    EndpointStatus,
    InstanceHealth,
    InstanceStatus,
    VariantStatus,
)


def to_json(endpoints: Iterable[EndpointStatus], indent: int | None = None) -> str:
    """Return endpoints as JSON: ``{"endpoints": […]}``, in ASCII, members as the values' fields.

    ``indent`` is the number of spaces of each level; None makes one line.
    """
    return json.dumps({"endpoints": [asdict(each) for each in endpoints]}, indent=indent)


def from_json(text: str | bytes) -> tuple[EndpointStatus, ...]:
    """Read the JSON of :func:`to_json`; unknown members are ignored.

    Raises:
        ValueError: the text is something else; a gateway of another version may have written it.
    """
    try:
        return tuple(map(_endpoint, json.loads(text)["endpoints"]))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"this is not the JSON of a fleet's status: {error!r}") from None


def _endpoint(said: dict[str, Any]) -> EndpointStatus:
    return EndpointStatus(
        name=str(said["name"]),
        state=EndpointState(said["state"]),
        reason=str(said["reason"]),
        since=float(said["since"]),
        variants=tuple(map(_variant, said["variants"])),
        is_latest=bool(said.get("is_latest", True)),  # an older gateway does not say
        note=str(said.get("note", "")),  # likewise
    )


def _variant(said: dict[str, Any]) -> VariantStatus:
    return VariantStatus(
        name=str(said["name"]),
        weight=float(said["weight"]),
        desired=int(said["desired"]),
        serving=int(said["serving"]),
        restarts=int(said["restarts"]),
        trouble=str(said["trouble"]),
        instances=tuple(map(_instance, said["instances"])),
    )


def _instance(said: dict[str, Any]) -> InstanceStatus:
    return InstanceStatus(
        id=str(said["id"]),
        version=int(said["version"]),
        state=InstanceState(said["state"]),
        health=InstanceHealth(said["health"]),
        reason=str(said["reason"]),
        since=float(said["since"]),
        container=str(said["container"]),
        streams=int(said["streams"]),
        requests=int(said["requests"]),
        served=int(said["served"]),
        containers={str(name): str(url) for name, url in said.get("containers", {}).items()},
    )
