"""The table of ends (section 1.5): one cause, the client's last event, and the container's Close.

One of these functions makes every end of every stream, and ``Session._end`` carries it out.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

from partway.protocol.parts import (
    INPUT_STREAM_ERROR,
    STREAM_BROKEN,
    TIME_EXCEEDED,
    InternalStreamFailure,
    ModelStreamError,
    StreamError,
)
from partway.protocol.websocket.close_codes import (
    ABNORMAL,
    GOING_AWAY,
    INTERNAL_ERROR,
    INVALID_DATA,
    NO_STATUS,
    NORMAL,
    NORMAL_CODES,
    POLICY_VIOLATION,
    PROTOCOL_ERROR,
    TOO_BIG,
    Close,
    error_of,
    name_of,
)
from partway.protocol.websocket.frame_decoder import FrameError


class Cause(enum.StrEnum):
    """Why a stream ended; the ``cause`` of its log line and of ``partway_stream_ends_total``."""

    COMPLETED = "completed"
    MODEL_CLOSED = "model_closed"
    MODEL_ERROR = "model_error"
    CONTAINER_LOST = "container_lost"
    CONTAINER_PROTOCOL_ERROR = "container_protocol_error"
    CONTAINER_INVALID_TEXT = "container_invalid_text"
    CONTAINER_OVERSIZE = "container_oversize"
    CONTAINER_UNRESPONSIVE = "container_unresponsive"
    CONTAINER_STALLED = "container_stalled"
    CONTAINER_CLOSE_TIMEOUT = "container_close_timeout"
    CONTAINER_SILENT = "container_silent"
    CLIENT_FINISHED = "client_finished"
    CLIENT_CANCELLED = "client_cancelled"
    CLIENT_LOST = "client_lost"
    CLIENT_UNRESPONSIVE = "client_unresponsive"
    CLIENT_STALLED = "client_stalled"
    CLIENT_FAULT = "client_fault"
    LIFETIME_OVER = "lifetime_over"
    GATEWAY_DRAINING = "gateway_draining"
    GATEWAY_FAULT = "gateway_fault"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stream ends.

    Attributes:
        error: the client's last event; None for a clean end.
        container_close: the Close to send to the container; None if it has had its Close, or cannot
            get one.
        model_close: the container's own Close, which a raw client sees as it is (clause 3-2).
        client_close: a close code for a WebSocket client that replaces 4424 and 4500.
    """

    cause: Cause
    error: StreamError | None = None
    container_close: Close | None = None
    model_close: Close | None = None
    client_close: int | None = None


@dataclass(frozen=True, slots=True)
class ClientFault:
    """A client's fault after its stream has begun (clause 1.5-10).

    Attributes:
        message: the fault, never the bytes themselves.
        code: ``InputStreamError`` or ``InvalidSignature``.
        oversize: whether the client's message or part was too big: the container then gets 1009,
            else 1008.
        client_close: the close code that names the fault to a WebSocket client (clause 3-1).
    """

    message: str
    code: str = INPUT_STREAM_ERROR
    oversize: bool = False
    client_close: int | None = None


def container_closed(close: Close, normal_close: Literal["error", "end"]) -> Ending:
    """Rows 1.5-1, 1.5-2, 1.5-7: Close while the client's input is open; it is answered already."""
    code = NO_STATUS if close.code is None else close.code
    if code in NORMAL_CODES:
        error = error_of(close) if normal_close == "error" else None
        return Ending(Cause.MODEL_CLOSED, error, model_close=close)
    return Ending(Cause.MODEL_ERROR, error_of(close), model_close=close)


def container_answered(close: Close, *, input_cut_message: bool) -> Ending:
    """Row 1.5-12: the container's Close after the client's input ended."""
    code = NO_STATUS if close.code is None else close.code
    clean = code in NORMAL_CODES or (code == PROTOCOL_ERROR and input_cut_message)
    if clean:
        return Ending(Cause.COMPLETED)
    return Ending(Cause.MODEL_ERROR, error_of(close), model_close=close)


def container_lost() -> Ending:
    """Row 1.5-3: the connection ended without Close."""
    error = ModelStreamError(
        str(ABNORMAL), f"{name_of(ABNORMAL)}: the container's connection ended without a Close"
    )
    return Ending(Cause.CONTAINER_LOST, error)


def container_broke_protocol(error: FrameError) -> Ending:
    """Rows 1.5-4, 1.5-5, 1.5-6; the connection has sent the Close for it."""
    cause = {
        INVALID_DATA: Cause.CONTAINER_INVALID_TEXT,
        TOO_BIG: Cause.CONTAINER_OVERSIZE,
    }.get(error.code, Cause.CONTAINER_PROTOCOL_ERROR)
    message = f"{name_of(error.code)}: {error.reason}"
    return Ending(cause, ModelStreamError(str(error.code), message))


def container_unresponsive(pings: int) -> Ending:
    """Row 1.5-8: liveness lost, as defined in clause 1.4-1."""
    return _failed(
        Cause.CONTAINER_UNRESPONSIVE,
        f"the container answered none of {pings} pings",
        Close(INTERNAL_ERROR, f"no pong for {pings} pings"),
    )


def container_stalled(seconds: float) -> Ending:
    """Row 1.5-8: the container takes no bytes."""
    return _failed(
        Cause.CONTAINER_STALLED,
        f"the container took no byte for {seconds:g} s",
        Close(INTERNAL_ERROR, "stalled"),
    )


def client_stalled(seconds: float) -> Ending:
    """Row 1.5-8: the client takes no bytes."""
    return _failed(
        Cause.CLIENT_STALLED,
        f"the client took no byte for {seconds:g} s",
        Close(INTERNAL_ERROR, "the client stalled"),
    )


def close_timeout(setting: str, seconds: float) -> Ending:
    """Row 1.5-12: the gateway's Close(1000) stays unanswered, and the container is silent.

    ``setting`` names the setting that limits the container's silence.
    """
    return _failed(
        Cause.CONTAINER_CLOSE_TIMEOUT,
        f"the container was silent for {seconds:g} s after Close(1000) ({setting}), "
        "and has not answered it",
        None,
    )


def gateway_fault() -> Ending:
    """Row 1.5-8: a fault of the gateway itself; the traceback is in its log."""
    return _failed(
        Cause.GATEWAY_FAULT,
        "the gateway failed; its log has the reason under this request id",
        Close(INTERNAL_ERROR, "gateway fault"),
    )


def lifetime_over(seconds: float) -> Ending:
    """Row 1.5-9: the stream has reached its longest life (clause 1.4-5)."""
    return _failed(
        Cause.LIFETIME_OVER,
        f"the stream reached its lifetime of {seconds:g} s",
        Close(GOING_AWAY, "stream lifetime over"),
    )


def gateway_draining() -> Ending:
    """Row 1.5-9: the gateway stops."""
    return _failed(
        Cause.GATEWAY_DRAINING,
        "the gateway is draining; open the stream again",
        Close(GOING_AWAY, "gateway draining"),
    )


def client_gone(cause: Cause) -> Ending:
    """Row 1.5-9: the client has left, in good order or not, and cannot be told."""
    return Ending(cause, None, Close(GOING_AWAY, cause.value.replace("_", " ")))


def client_finished() -> Ending:
    """Clause 3-2: the client closed in good order, and no client needs the answer."""
    return client_gone(Cause.CLIENT_FINISHED)


def client_fault(fault: ClientFault) -> Ending:
    """Row 1.5-10: the client made a fault."""
    code = TOO_BIG if fault.oversize else POLICY_VIOLATION
    return Ending(
        Cause.CLIENT_FAULT,
        ModelStreamError(fault.code, fault.message),
        Close(code, f"client fault: {fault.code}"),
        client_close=fault.client_close,
    )


#: Row 1.5-11: the container's Close when the client ends its input.
INPUT_ENDED = Close(NORMAL)


def answer_ended() -> Ending:
    """A response stream: the container's answer is complete."""
    return Ending(Cause.COMPLETED)


def answer_silent(message: str) -> Ending:
    """A response stream: the container did not continue its answer in time."""
    return Ending(Cause.CONTAINER_SILENT, ModelStreamError(TIME_EXCEEDED, message))


def answer_broken(message: str) -> Ending:
    """A response stream: the container's answer is not valid HTTP, or is incomplete."""
    return Ending(Cause.CONTAINER_LOST, ModelStreamError(STREAM_BROKEN, message))


def answer_too_long(seconds: float) -> Ending:
    """A response stream: the answer was incomplete at the end of its time."""
    message = f"the response had not ended after {seconds:g} s"
    return Ending(Cause.LIFETIME_OVER, ModelStreamError(TIME_EXCEEDED, message))


def _failed(cause: Cause, message: str, container_close: Close | None) -> Ending:
    return Ending(cause, InternalStreamFailure(message), container_close)
