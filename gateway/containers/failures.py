"""A container's failures, in the words by which clients know them (clause 4-5)."""

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
    """An endpoint's request_lifetime is over before the request is."""
    return ContainerLate(
        f"request and answer were not over within {seconds:g} s (request_lifetime)"
    )


async def refusal(answer: ContainerAnswer, head: AnswerHead, name: str) -> ContainerError:
    """What clients know of an answer that has another status than 2xx.

    Args:
        answer: the beginning of its body is waited for.
        head: the answer's.
        name: of the container.
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
    """What went wrong between gateway and a container as AWS says it, with a status of 0."""
    match error:
        case ContainerLate():
            waited = "Your invocation timed out while waiting for a response from container"
            why = f"{waited} {name}: {error.message}"
            return _failed(error, why, name, ContainerLate)
        case ContainerBroke() | ContainerUnreachable():
            return _failed(error, error.message, name)
        case _:  # it has answered, and is in these words already
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
    """A container's failure in AWS's words, by which clients know it (section 5).

    Args:
        status: the container's own; 0 if it gave none.
        said: what it said itself, or what is said of it.
        for_operator: the same for the log, where that names the container's place.
        retries: whether another attempt may fare better.
        name: of the container: its host name, where its instance has several.
        retry_after: the container's own ``Retry-After``.
        kind: the class of the error.
    """
    whose = "client" if 400 <= status < 500 else "server"
    message = f'Received {whose} error ({status}) from {name} with message "{said}"'
    return kind(
        *(message, status, said, for_operator or message), passing=retries, retry_after=retry_after
    )


def answer_too_large(most_bytes: float) -> ContainerError:
    """A container's answer is longer than its client gets."""
    return model_error(0, f"the container's answer is over {most_bytes} bytes", retries=False)


def stopped() -> ContainerBroke:
    """The instance's time to drain is over before the request is."""
    return ContainerBroke("the instance was stopped before it had answered")
