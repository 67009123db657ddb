"""Containers asked one after the other: each gets the answer of the one before (section 5)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final

from partway.gateway.containers.answers import AnswerHead
from partway.gateway.containers.container_answer import ContainerAnswer
from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.output.log_names import AskedNow
from partway.gateway.operations.invocation_headers import (
    CONTENT_TYPE,
    CUSTOM_ATTRIBUTES,
    handed_back,
)
from partway.protocol.errors import ContainerError
from partway.protocol.http.content_codings import CONTENT_ENCODING

#: Of a container's answer, and so of the next one's request.
_HANDED_ON: Final[Mapping[str, str]] = {
    name: name for name in (CONTENT_TYPE, CONTENT_ENCODING, CUSTOM_ATTRIBUTES)
}


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
