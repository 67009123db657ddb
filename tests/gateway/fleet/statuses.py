"""What a fleet says of itself, made up, for whatever shows it or passes it on."""

from __future__ import annotations

from typing import Any

from partway.gateway.fleet.states import InstanceState
from partway.gateway.fleet.status import (
    EndpointState,
    EndpointStatus,
    InstanceHealth,
    InstanceStatus,
    VariantStatus,
)

#: 2026-11-22T16:31:15Z.
SINCE = 1795365075.0


def an_instance(id: str = "echo-AllTraffic-1a2b3c", **changes: Any) -> InstanceStatus:
    values: dict[str, Any] = {
        "version": 1,
        "state": InstanceState.IN_SERVICE,
        "health": InstanceHealth.HEALTHY,
        "reason": "",
        "since": SINCE,
        "container": "http://127.0.0.1:8080",
        "streams": 0,
        "requests": 0,
        "served": 0,
    }
    return InstanceStatus(id=id, **values | changes)


def a_variant(*instances: InstanceStatus, **changes: Any) -> VariantStatus:
    values: dict[str, Any] = {
        "name": "AllTraffic",
        "weight": 1.0,
        "desired": len(instances),
        "serving": sum(each.state is InstanceState.IN_SERVICE for each in instances),
        "restarts": 0,
        "trouble": "",
    }
    return VariantStatus(instances=instances, **values | changes)


def an_endpoint(name: str = "echo", *variants: VariantStatus, **changes: Any) -> EndpointStatus:
    """One in service, with these variants or with one of one instance."""
    values: dict[str, Any] = {"state": EndpointState.IN_SERVICE, "reason": "", "since": SINCE}
    those = variants or (a_variant(an_instance(f"{name}-AllTraffic-1a2b3c")),)
    return EndpointStatus(name=name, variants=those, **values | changes)
