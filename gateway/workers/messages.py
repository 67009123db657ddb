"""The messages between the parent and its workers, in MessagePack.

A message that a later version has extended is still read: unknown members are ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.routing.router import RoutedVariant

# --- Both ways -----------------------------------------------------------------------------------


class HostSuspected(msgspec.Struct, frozen=True, tag="suspected"):
    """A dial to an IP address and port has timed out; see :class:`.SilentHosts`."""

    host: str
    port: int


# --- To a worker ---------------------------------------------------------------------------------


class Table(msgspec.Struct, frozen=True, tag="table"):
    """An endpoint as it is now; the worker answers with :class:`Applied`.

    Attributes:
        number: of this message, for the answer.
        variants: its variants; None if the endpoint is gone.
    """

    number: int
    endpoint: str
    variants: tuple[RoutedVariant, ...] | None
    prediction: PredictionPolicy


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """The answer of a new parent to :class:`WorkerHello`.

    The worker answers with a :class:`WorkerHas` for each endpoint, and :class:`WorkerHasAll`.
    """


class GatewayState(msgspec.Struct, frozen=True, tag="readiness"):
    """The state of the whole gateway.

    Attributes:
        is_ready: whether the endpoints have come up.
        gateways: how many gateways divide the shares of principals.
    """

    is_ready: bool
    gateways: int = 1


class Listen(msgspec.Struct, frozen=True, tag="listen"):
    """Accept connections; the worker answers with :class:`WorkerListens`."""


class CutInstance(msgspec.Struct, frozen=True, tag="cut"):
    """End everything that is open on an instance.

    Attributes:
        is_lost: whether the instance cannot be reached.
    """

    instance: str
    is_lost: bool = False


class KeepOnly(msgspec.Struct, frozen=True, tag="keep-only"):
    """Drop the metrics of all other endpoints."""

    endpoints: tuple[str, ...]


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """End as at SIGTERM."""


class Retire(msgspec.Struct, frozen=True, tag="retire"):
    """Accept no further connection, and end as after :class:`Drain` once the last one is over."""


class HoldRequests(msgspec.Struct, frozen=True, tag="hold"):
    """The parent hands over to the next one, which answers what this one has not."""


class Hasten(msgspec.Struct, frozen=True, tag="hasten"):
    """Cut the drain short."""


class WorkerCheck(msgspec.Struct, frozen=True, tag="check"):
    """Answer with :class:`WorkerChecked`: everything sent before is done then."""


class GiveMetrics(msgspec.Struct, frozen=True, tag="give-metrics"):
    """Send the metrics; the worker answers with :class:`WorkerMetrics`."""

    number: int


class SignatureAnswer(msgspec.Struct, frozen=True, tag="signature"):
    """The answer to :class:`UseSignature`.

    Attributes:
        error: the name of the error that refuses the request; empty if the signature is good.
        message: that error's message.
    """

    number: int
    error: str = ""
    message: str = ""


ToWorker: TypeAlias = (
    Table
    | Welcome
    | GatewayState
    | Listen
    | CutInstance
    | KeepOnly
    | Drain
    | Retire
    | HoldRequests
    | Hasten
    | WorkerCheck
    | GiveMetrics
    | SignatureAnswer
    | HostSuspected
)


# --- To the parent -------------------------------------------------------------------------------


class WorkerHello(msgspec.Struct, frozen=True, tag="hello"):
    """The first message of a worker that has outlived its parent.

    Attributes:
        row: its row of the shared counts.
    """

    row: int


class WorkerHas(msgspec.Struct, frozen=True, tag="has"):
    """An endpoint as the worker knows it."""

    endpoint: str
    variants: tuple[RoutedVariant, ...]
    prediction: PredictionPolicy


class WorkerHasAll(msgspec.Struct, frozen=True, tag="has-all"):
    """The worker knows no further endpoint."""


class WorkerListens(msgspec.Struct, frozen=True, tag="listening"):
    """The worker accepts connections."""


class WorkerRefuses(msgspec.Struct, frozen=True, tag="refuses"):
    """The worker cannot serve; it ends as after :class:`Drained`. ``reason`` says why."""

    reason: str


class WorkerChecked(msgspec.Struct, frozen=True, tag="checked"):
    """The answer to :class:`WorkerCheck`."""


class Applied(msgspec.Struct, frozen=True, tag="applied"):
    """The worker chooses by a :class:`Table` from now on."""

    number: int


class InstanceIdle(msgspec.Struct, frozen=True, tag="idle"):
    """The worker has nothing open on an instance any more."""

    instance: str


class InstanceUnreachable(msgspec.Struct, frozen=True, tag="unreachable"):
    """An instance did not take a connection."""

    instance: str


class WorkerMetrics(msgspec.Struct, frozen=True, tag="metrics"):
    """The metrics of a worker, in Prometheus' text format; empty for a page that is too long."""

    number: int
    page: str


class UseSignature(msgspec.Struct, frozen=True, tag="use-signature"):
    """Use a signature that is good for one request, until an epoch second.

    The parent answers with :class:`SignatureAnswer`.
    """

    number: int
    signature: str
    good_until: float


class Drained(msgspec.Struct, frozen=True, tag="drained"):
    """The drain is over; the process ends when the parent has ended the link.

    Attributes:
        has_failed: whether a part of the worker has failed.
    """

    has_failed: bool


ToParent: TypeAlias = (
    WorkerHas
    | WorkerHasAll
    | WorkerListens
    | WorkerRefuses
    | WorkerChecked
    | Applied
    | InstanceIdle
    | InstanceUnreachable
    | HostSuspected
    | WorkerMetrics
    | UseSignature
    | Drained
)


# --- Requests for the parent ---------------------------------------------------------------------


class ForwardedHead(msgspec.Struct, frozen=True, tag="request"):
    """The head of a request that a worker forwards, as its client has sent it.

    Bytes are what :func:`as_bytes` makes of text: MessagePack takes no text that is not UTF-8.
    """

    method: str
    path: bytes
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    version: str
    peer: str
    encrypted: bool
    request_id: str


class ForwardedBody(msgspec.Struct, frozen=True, tag="body"):
    """A piece of a request's body, for one :class:`WantBody`; an empty one is its end.

    Attributes:
        error: the name of the error that ends the body; empty for none.
        message: that error's message.
    """

    data: bytes
    error: str = ""
    message: str = ""


#: To the parent's Unix socket.
ToOperation: TypeAlias = ForwardedHead | ForwardedBody | WorkerHello


class RequestTaken(msgspec.Struct, frozen=True, tag="taken"):
    """A parent has taken the request, and answers it, or ends the connection at its own end."""


class WantBody(msgspec.Struct, frozen=True, tag="want-body"):
    """The operation waits for a piece of the body."""


class AnswerAtOnce(msgspec.Struct, frozen=True, tag="whole"):
    """A whole answer.

    Attributes:
        headers: values are bytes as in :class:`ForwardedHead`.
        is_recognised: whether the request's sender is known, and was not at fault.
        cost: CPU seconds that the parent charges if it is not.
    """

    status: int
    headers: dict[str, bytes]
    body: bytes
    is_recognised: bool
    cost: float


class AnswerBegin(msgspec.Struct, frozen=True, tag="begin"):
    """The head of an answer in pieces, with the first one; see :class:`AnswerAtOnce`."""

    status: int
    headers: dict[str, bytes]
    first: bytes
    is_recognised: bool


class AnswerPart(msgspec.Struct, frozen=True, tag="piece"):
    """A piece of an answer."""

    data: bytes


class AnswerEnd(msgspec.Struct, frozen=True, tag="end"):
    """The end of an answer in pieces; see :meth:`partway.gateway.http.exchange.Exchange.end`."""

    last: bytes
    otherwise: bytes


ToClient: TypeAlias = RequestTaken | WantBody | AnswerAtOnce | AnswerBegin | AnswerPart | AnswerEnd


Message: TypeAlias = ToWorker | ToParent | ToOperation | ToClient

# --- Bytes ---------------------------------------------------------------------------------------


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no form in MessagePack")


def _made(kind: type, value: Any) -> object:
    if issubclass(kind, Path):
        return Path(value)
    raise NotImplementedError(f"{kind.__name__} has no form in MessagePack")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_plain)
TO_WORKER: Final = msgspec.msgpack.Decoder(ToWorker, dec_hook=_made)
TO_PARENT: Final = msgspec.msgpack.Decoder(ToParent, dec_hook=_made)
TO_OPERATION: Final = msgspec.msgpack.Decoder(ToOperation)
TO_CLIENT: Final = msgspec.msgpack.Decoder(ToClient)


def as_bytes(text: str) -> bytes:
    """Return text of HTTP as it came: bytes that are not UTF-8 are surrogates in it."""
    return text.encode("utf-8", "surrogateescape")


def as_text(data: bytes) -> str:
    """Return the text of which :func:`as_bytes` makes these bytes."""
    return data.decode("utf-8", "surrogateescape")


def encoded(message: Message) -> bytes:
    return _ENCODER.encode(message)
