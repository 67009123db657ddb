"""A container's failures, in AWS's words for clients (clause 4-5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from partway.gateway.containers.answers import AnswerHead
from partway.gateway.containers.container_answer import ContainerAnswer
from partway.gateway.containers.limits import REFUSAL_BODY_TIMEOUT
from partway.gateway.http.content_codings import decoded_beginning
from partway.protocol.errors import (
    ContainerBroke,
    ContainerError,
    ContainerLate,
    ContainerUnreachable,
)
from partway.protocol.http.content_codings import CONTENT_ENCODING
from partway.protocol.limits import REFUSAL_BODY_BYTES

_RETRY_AFTER: Final[Mapping[str, str]] = {"Retry-After": "Retry-After"}


def too_long(seconds: float) -> ContainerLate:
    """Make the error for a request that outlives its endpoint's request_lifetime."""
    return ContainerLate(f"request and answer took longer than {seconds:g} s (request_lifetime)")


async def refusal(answer: ContainerAnswer, head: AnswerHead, name: str) -> ContainerError:
    """Make the error for an answer with another status than 2xx.

    The beginning of the answer's body is waited for.
    """
    said = await answer.so_far(REFUSAL_BODY_BYTES, REFUSAL_BODY_TIMEOUT)
    coding = head.headers.get(CONTENT_ENCODING, "")
    said = decoded_beginning(said, coding, REFUSAL_BODY_BYTES)
    return model_error(
        head.status,
        said.decode("utf-8", "replace"),
        name=name,
        retry_after=head.handed_back(_RETRY_AFTER).get("Retry-After", ""),
    )


def in_the_clients_words(error: ContainerError, name: str) -> ContainerError:
    """Translate a fault between gateway and container into AWS's words, with a status of 0."""
    match error:
        case ContainerLate():
            waited = "Your invocation timed out while waiting for a response from container"
            why = f"{waited} {name}: {error.message}"
            return _failed(error, why, name, ContainerLate)
        case ContainerBroke() | ContainerUnreachable():
            return _failed(error, error.message, name)
        case _:  # it has answered, and has these words already
            return error


def _failed(
    error: ContainerError, why: str, name: str, kind: type[ContainerError] = ContainerError
) -> ContainerError:
    retries = "x-partway-retry" not in error.headers
    return model_error(0, why, error.for_operator, retries=retries, name=name, kind=kind)


def model_error(
    status: int,
    said: str,
    for_operator: str | None = None,
    *,
    retries: bool = True,
    name: str = "primary",
    retry_after: str = "",
    kind: type[ContainerError] = ContainerError,
) -> ContainerError:
    """Make the error for a container's failure, in AWS's words (section 5).

    Args:
        status: the container's own; 0 if it gave none.
        said: the container's own words, or a description of the failure.
        for_operator: the same for the log, if that names the container's place.
        retries: whether another attempt may succeed.
        name: the name of the container: its host name if its instance has several.
        retry_after: the container's own ``Retry-After``.
        kind: the class of the error.
    """
    whose = "client" if 400 <= status < 500 else "server"
    message = f'Received {whose} error ({status}) from {name} with message "{said}"'
    return kind(
        *(message, status, said, for_operator or message), passing=retries, retry_after=retry_after
    )


def answer_too_large(most_bytes: float) -> ContainerError:
    return model_error(0, f"the container's answer is over {most_bytes} bytes", retries=False)


def stopped() -> ContainerBroke:
    """Make the error for a request that outlives the drain of its instance, or its loss."""
    return ContainerBroke("the instance was stopped or lost before it had answered")
