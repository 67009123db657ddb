"""The containers that a request goes to, if its instance has several (section 5)."""

from __future__ import annotations

from typing import Final

from partway.gateway.fleet.endpoint import Place
from partway.protocol.errors import InputValidationError

_NO_SUCH: Final = "ContainerNotFound"


def containers_asked(place: Place, hostname: str) -> tuple[Place, ...]:
    """Return the containers that a request goes to: one, or several in sequence.

    ``hostname`` is the request's TargetContainerHostname; it is empty for none.

    Raises:
        InputValidationError: there is no such container, none is named where one must be, or one is
            named where none can be.
    """
    if place.containers and place.execution == "direct":
        return (_named(place, hostname),)
    if hostname:
        raise InputValidationError(
            f"TargetContainerHostname is {hostname!r}; it must be left out, since endpoint "
            f"{place.endpoint} is not configured for direct invocation of its containers",
            _NO_SUCH,
        )
    return place.containers or (place,)


def container_streamed(place: Place, hostname: str) -> Place:
    """Return the one container that a bidirectional stream goes to.

    Raises:
        InputValidationError: as for :func:`containers_asked`; or there would be several containers.
    """
    asked = containers_asked(place, hostname)
    if len(asked) > 1:
        raise InputValidationError(
            f"endpoint {place.endpoint} asks {len(asked)} containers one after the other, which "
            "works for whole requests only; a stream in both directions needs one container, or "
            "the Mode Direct in the InferenceExecutionConfig",
            "SerialContainers",
        )
    return asked[0]


def _named(place: Place, hostname: str) -> Place:
    for each in place.containers:
        if each.hostname == hostname:
            return each
    given = f"is {hostname!r}" if hostname else "is missing"
    known = ", ".join(each.hostname for each in place.containers)
    raise InputValidationError(
        f"TargetContainerHostname {given}; the containers of endpoint {place.endpoint} are invoked "
        f"one by one, so it must name one of them: {known}",
        _NO_SUCH,
    )
