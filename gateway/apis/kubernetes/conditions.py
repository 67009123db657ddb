"""The ``status`` of objects: conditions in the documented words, from the fleet's state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from partway.gateway.apis.kubernetes.custom_object import DEPLOYED_MODEL, CustomObject
from partway.gateway.plain_text import cut

#: The documented words for objects that are ready.
READY_REASON: Final = "Ready"
READY_MESSAGE: Final = "DeployedModel is ready"
ENDPOINT_READY: Final = "EndpointReady"
RESOURCE_READY: Final = "ResourceReady"
ENDPOINT_MESSAGE: Final = "Endpoint Ready"

#: Our word for endpoints that are not ready.
RESOURCE_NOT_READY: Final = "ResourceNotReady"

#: Characters of a message (``metav1.Condition``: 32,768; AWS's FailureReason: 1,024).
_MESSAGE: Final = 1024


@dataclass(frozen=True, slots=True)
class Readiness:
    """The readiness of an object.

    Attributes:
        reason: the reason, in one word.
    """

    reason: str
    message: str
    is_ready: bool = False


MODEL_READY: Final = Readiness(READY_REASON, READY_MESSAGE, is_ready=True)


def model_status(custom: CustomObject, how: Readiness, now: str) -> Mapping[str, Any]:
    """Return a DeployedModel's status: ``primaryCondition``.

    Args:
        custom: the object, with its earlier status.
        now: the time in RFC 3339 format.
    """
    before: Mapping[str, Any] = custom.status.get("primaryCondition", {})
    condition = {
        "firstObservedTime": before.get("firstObservedTime", now),
        "lastUpdateTime": now,
        "message": cut(how.message, _MESSAGE),
        "observedGeneration": custom.generation,
        "reason": how.reason,
        "resourceName": custom.name,
        "type": DEPLOYED_MODEL.kind,
    }
    return {"primaryCondition": _kept_if_same(before, condition, "lastUpdateTime")}


def endpoint_status(
    custom: CustomObject, how: Readiness, domain_name: str, now: str
) -> Mapping[str, Any]:
    """Return an Endpoint's status: its one condition, and its domain name.

    Args:
        custom: the object, with its earlier status.
        now: the time in RFC 3339 format.
    """
    (before,) = custom.status.get("conditions", [{}])
    condition = {
        "lastTransitionTime": now,
        "message": cut(how.message, _MESSAGE),
        "observedGeneration": custom.generation,
        "reason": how.reason,
        "status": "True" if how.is_ready else "False",
        "type": ENDPOINT_READY,
    }
    if before.get("status") == condition["status"]:
        condition["lastTransitionTime"] = before["lastTransitionTime"]
    return {"conditions": [condition], "endpointFQDN": domain_name}


def _kept_if_same(
    before: Mapping[str, Any], condition: Mapping[str, Any], time: str
) -> Mapping[str, Any]:
    """Return a condition, with its earlier time if nothing else has changed."""
    if before and {**condition, time: before[time]} == before:
        return before
    return condition


def is_ready(custom: CustomObject) -> bool:
    if custom.kind is DEPLOYED_MODEL:
        return bool(custom.status.get("primaryCondition", {}).get("reason") == READY_REASON)
    return any(each["status"] == "True" for each in custom.status.get("conditions", ()))


def reason_of(custom: CustomObject) -> str:
    """Return the reason of an object's one condition; empty without a condition."""
    conditions = (custom.status.get("primaryCondition"), *custom.status.get("conditions", ()))
    return next((each["reason"] for each in conditions if each), "")
