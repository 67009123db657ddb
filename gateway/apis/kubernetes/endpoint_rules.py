"""Which Endpoint objects are refused, and why: one rule, so that status and traffic agree.

The embedded server, a cluster's operator, and the gateways of a cluster read it here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from partway.gateway.apis.kubernetes.custom_object import ENDPOINT, CustomObject
from partway.gateway.apis.kubernetes.limits import SAID_CAUSES
from partway.gateway.apis.kubernetes.schemas import (
    ENDPOINT_PATH,
    LABEL,
    LABEL_WORDS,
    SPECS,
    Cause,
    fault,
    faults,
)

_WHOLE: Final = 100


def endpoint_of(custom: CustomObject) -> str:
    """Return the name of the endpoint that a DeployedModel or an Endpoint belongs to."""
    if "endpointPath" in custom.spec:
        match = ENDPOINT_PATH.fullmatch(custom.spec["endpointPath"])
        assert match is not None, "it has been checked"
        return match["endpoint"]
    name: str = custom.spec.get("id") or custom.spec.get("userProvidedID") or custom.name
    return name


def shares_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return an Endpoint's destinations, with their shares of the traffic in percent."""
    destinations = spec["destinations"]
    only = _WHOLE if len(destinations) == 1 else 0
    return {
        each["serviceRef"]["name"]: each.get("trafficPercentage", only) for each in destinations
    }


def traffic_faults(namespace: str, spec: Any) -> Iterator[Cause]:
    """Yield the faults of an Endpoint's destinations in relation to each other."""
    destinations = spec["destinations"]
    names = [each["serviceRef"]["name"] for each in destinations]
    for number, each in enumerate(destinations):
        path = f"spec.destinations[{number}]"
        if each["serviceRef"].get("namespace", namespace) != namespace:
            yield fault(
                f"{path}.serviceRef.namespace", f"must be the Endpoint's own namespace, {namespace}"
            )
        if names.index(names[number]) != number:
            yield fault(f"{path}.serviceRef.name", "must be in one destination only")
    total = sum(shares_of(spec).values())
    if total != _WHOLE and not any(names.count(each) > 1 for each in names):
        yield fault(
            "spec.destinations",
            f"the trafficPercentage of all destinations is {total} together; it must be {_WHOLE}",
        )
    if len({spec[each] for each in ("id", "userProvidedID") if each in spec}) > 1:
        yield fault("spec.userProvidedID", "must be the same as id")


def object_faults(custom: CustomObject) -> Iterator[Cause]:
    """Yield the faults of a cluster's object by itself; its server may have let them pass."""
    if not LABEL.fullmatch(custom.name):
        yield {"field": "metadata.name", "message": f"must be {LABEL_WORDS}"}
        return
    wrong = list(faults(SPECS[custom.kind], custom.spec, "spec"))
    if not wrong and custom.kind is ENDPOINT:
        wrong = list(traffic_faults(custom.namespace, custom.spec))
    yield from wrong


def in_words(causes: Collection[Cause]) -> str:
    """Return faults as one text; empty without a fault."""
    said = [f"{each['field']}: {each['message']}" for each in causes]
    return "; ".join(said[:SAID_CAUSES])


def owner_of(rivals: Iterable[CustomObject]) -> CustomObject:
    """Return the one of several valid Endpoints of one name that has the name: the oldest.

    An Endpoint that is being deleted leaves the name to the others.
    """
    return min(rivals, key=lambda each: (bool(each.deleting), age(each)))


def age(custom: CustomObject) -> tuple[str, str]:
    """Return a key that sorts the oldest object first."""
    return custom.created, custom.name


def owned_by(owner: CustomObject) -> str:
    """Return why another Endpoint of the same name is refused."""
    return f"the endpoint {endpoint_of(owner)} belongs to the Endpoint {owner.name}, which is older"
