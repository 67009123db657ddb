"""Which containers of an instance are asked, and with what, where it has several (section 5)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.output.log_names import AskedNow
from partway.gateway.operations.invocation_headers import (
    CONTENT_TYPE,
    CUSTOM_ATTRIBUTES,
    handed_back,
)
from partway.gateway.requests.answers import AnswerHead
from partway.gateway.requests.container_answer import ContainerAnswer
from partway.protocol.errors import ContainerError, InputValidationError
from partway.protocol.http.content_codings import CONTENT_ENCODING

#: Of a container's answer, and so of the next one's request.
_HANDED_ON: Final[Mapping[str, str]] = {
    name: name for name in (CONTENT_TYPE, CONTENT_ENCODING, CUSTOM_ATTRIBUTES)
}

_NO_SUCH: Final = "ContainerNotFound"


def containers_asked(place: Place, hostname: str) -> tuple[Place, ...]:
    """Where a request goes: to one container, or to several, one after the other.

    Args:
        place: where the instance is.
        hostname: the one that the request names (TargetContainerHostname); empty for none.

    Raises:
        InputValidationError: there is no such container, none is named where one must be, or one is
            where none can be.
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
    """Where a stream of both directions goes: to one container.

    Args:
        place: where the instance is.
        hostname: the one that the client names; empty for none.

    Raises:
        InputValidationError: as for :func:`containers_asked`; or several would have to be asked.
    """
    asked = containers_asked(place, hostname)
    if len(asked) > 1:
        raise InputValidationError(
            f"endpoint {place.endpoint} asks {len(asked)} containers one after the other, which "
            "takes whole requests; a stream of both directions must have one container, or the "
            "Mode of the InferenceExecutionConfig be Direct",
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
        f"TargetContainerHostname {given}; it must be one of the containers of endpoint "
        f"{place.endpoint}, which are invoked directly: {known}",
        _NO_SUCH,
    )


# --- From one container to the next ---------------------------------------------------------------


def first_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """A request's headers, for the first of several: what is accepted the last one has to know."""
    return {name: value for name, value in headers.items() if name != "Accept"}


def next_headers(
    headers: Mapping[str, str], head: AnswerHead, *, is_last: bool
) -> Mapping[str, str]:
    """The headers for a container that is asked with what the one before has answered.

    Args:
        headers: the request's.
        head: of the answer.
        is_last: whether its own answer is the client's.
    """
    found = dict(headers if is_last else first_headers(headers))
    for name in (CONTENT_TYPE, CONTENT_ENCODING):  # of the body that the first container had
        found.pop(name, None)
    return found | handed_back(head.headers, _HANDED_ON)


async def handed_on(
    first: bytes, answer: ContainerAnswer, place: Place, now: AskedNow
) -> AsyncGenerator[bytes, None]:
    """Yield an answer's body, as it comes: no more of it is held than the next container takes.

    Args:
        first: what has been read of it.
        answer: whose body it is.
        place: of the container.
        now: who is at fault where it breaks off.

    Raises:
        ContainerError: it does not come, or not whole.
    """
    try:
        while first:
            yield first
            first = await answer.read()
    except ContainerError:
        now.place = place
        raise
