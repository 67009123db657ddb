"""Asynchronous requests as values, and the causes of failures."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self


class FailureCause(StrEnum):
    EXPIRED = "RequestExpired"
    TIMED_OUT = "InvocationTimedOut"
    ENDPOINT_GONE = "EndpointNotFound"
    ACCESS = "AccessDenied"
    INPUT = "InputUnavailable"
    MODEL = "ModelError"
    ANSWER = "AnswerTooLarge"
    OUTPUT = "OutputUnavailable"
    NO_ROOM = "NoSpace"
    INTERNAL = "InternalFailure"


@dataclass(frozen=True, slots=True)
class AsyncRequest:
    """One accepted request.

    Attributes:
        id: the gateway's own id: 32 hexadecimal digits.
        inference_id: the id that the client knows.
        sender: the sender whose share counts the request; empty for none.
        received: when the request came, in epoch seconds.
        expires: the end of the time that it may wait, in epoch seconds.
        within: seconds for one try.
        input: the location of the body; empty if the body is in the store.
        failure: the location of the failure report; empty for none.
        headers: the headers for the container, by their names there; may hold secrets.
        on_success: the ARN of the topic for answers; empty for none.
        on_failure: the ARN of the topic for failures; empty for none.
        maker: the principal that made the endpoint's configuration; empty if unknown.
        length: bytes of the body in the store; 0 if the body is at ``input``.
    """

    id: str
    inference_id: str
    endpoint: str
    sender: str
    received: float
    expires: float
    within: float
    input: str
    output: str
    failure: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    on_success: str = ""
    on_failure: str = ""
    maker: str = ""
    length: int = 0

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        return cls(**body)

    def body(self) -> dict[str, Any]:
        """Return the record's body: all members, as JSON."""
        return dataclasses.asdict(self)

    @property
    def is_inline(self) -> bool:
        return not self.input


@dataclass(frozen=True, slots=True)
class AsyncAnswer:
    """A container's whole answer.

    Attributes:
        content: all bytes, or the path of the file with them.
        size: the size in bytes.
        content_type: the container's ``Content-Type``; empty for none.
        coding: the ``Content-Encoding``; empty for none.
    """

    content: bytes | Path
    size: int
    content_type: str = ""
    coding: str = ""


class AttemptFailed(Exception):
    """A request has no answer; the message tells its client why.

    Args:
        passing: whether a retry may succeed.
    """

    def __init__(
        self,
        cause: FailureCause,
        message: str,
        *,
        passing: bool = False,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message
        self.passing = passing
        self.members: Mapping[str, Any] = members or {}


class NoInstance(Exception):
    """No instance takes the request now: it keeps waiting, and this counts as no try."""
