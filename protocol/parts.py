"""The events of a bidirectional stream.

Source: ``InvokeEndpointWithBidirectionalStream`` in AWS's ``sagemaker-runtime-http2`` model.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple


class DataType(enum.Enum):
    """The sender's claim about a part's bytes; it is never checked (clause 1.2-5)."""

    UTF8 = "UTF8"
    BINARY = "BINARY"


class CompletionState(enum.Enum):
    """Whether a part ends its message (``COMPLETE``) or more of it follows (``PARTIAL``)."""

    PARTIAL = "PARTIAL"
    COMPLETE = "COMPLETE"


class PayloadPart(NamedTuple):
    """One part of a stream, and exactly one WebSocket data frame (clauses 1.2-1, 1.3-1).

    A named tuple and not a dataclass: four are made per round trip, in half the time.
    The defaults are what an absent member means (clause 1.2-2).
    """

    payload: bytes
    data_type: DataType = DataType.BINARY
    completion: CompletionState = CompletionState.COMPLETE


@dataclass(frozen=True, slots=True)
class InputEnd:
    """The client has sent all its input; events still come back (clause 3-1)."""


@dataclass(frozen=True, slots=True)
class ModelStreamError:
    """The model's side ended the stream (clause 1.5).

    Attributes:
        code: a close code in decimal, or the name of a client's fault.
        message: what happened.
    """

    code: str
    message: str


#: Codes of a client's fault (clause 1.5-10).
INPUT_STREAM_ERROR: Final = "InputStreamError"
INVALID_SIGNATURE: Final = "InvalidSignature"

#: Codes of ``InvokeEndpointWithResponseStream``: the model was not done in time, or its connection
#: broke.
TIME_EXCEEDED: Final = "ModelInvocationTimeExceeded"
STREAM_BROKEN: Final = "StreamBroken"


@dataclass(frozen=True, slots=True)
class InternalStreamFailure:
    """The platform ended the stream: liveness, stall, lifetime, drain, or an internal fault."""

    message: str


#: An end of a response other than a clean one.
StreamError = ModelStreamError | InternalStreamFailure

#: Everything that an envelope can hold.
StreamEvent = PayloadPart | InputEnd | ModelStreamError | InternalStreamFailure
