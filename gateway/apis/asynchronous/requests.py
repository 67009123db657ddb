"""Asynchronous requests as values, and how each of them ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self


class FailureCause(StrEnum):
    """Why a request has no answer."""

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
    """One request, from the moment at which it is taken.

    Attributes:
        id: the gateway's own: 32 hexadecimal digits.
        inference_id: by which its client knows it.
        endpoint: the endpoint's name.
        sender: whose share it counts in; empty for nobody's.
        received: when it came, in epoch seconds.
        expires: until when it may wait, in epoch seconds.
        within: seconds for one try.
        input: where its body is; empty if it came with it and is in the store.
        output: where the answer belongs.
        failure: where it is to be said why there is no answer; empty for nowhere.
        headers: those that go along to the container, by their names there; may hold secrets.
        on_success: the topic that hears of its answer; empty for none.
        on_failure: the topic that hears that it has none; empty for none.
        maker: the principal that made the endpoint's configuration; empty if it is unknown.
        length: bytes of the body in the store; 0 if it is at ``input``.
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
        """The request that :meth:`body` was made of."""
        return cls(**body)

    def body(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return dataclasses.asdict(self)

    @property
    def is_inline(self) -> bool:
        """Whether its body came with it."""
        return not self.input


@dataclass(frozen=True, slots=True)
class AsyncAnswer:
    """A container's whole answer.

    Attributes:
        content: all of it, or the file that it is in.
        size: its bytes.
        content_type: what the container calls it; empty if it does not say.
        coding: its ``Content-Encoding``; empty if it has none.
    """

    content: bytes | Path
    size: int
    content_type: str = ""
    coding: str = ""


class AttemptFailed(Exception):
    """A request has no answer; the message says why, for its client.

    Args:
        cause: which of the causes.
        message: what was wrong, and what to do.
        passing: whether another try may fare better.
        members: what else its object says.
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
    """Nothing can take the request now: it waits on, and has not been tried."""
