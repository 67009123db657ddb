"""One request and its answer, whichever HTTP version carries it.

Operations are written against this and never against a server library's request.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from multidict import CIMultiDict

from partway.protocol.connection import Cancellable, FrameConnection
from partway.protocol.errors import ApiError

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class DuplexHandler(Protocol):
    """What a duplex tells its owner. :meth:`connection_lost` is always the last call."""

    def data_received(self, data: bytes) -> None:
        """Bytes of the request's body, cut anywhere."""

    def input_ended(self) -> None:
        """The request's body has come to its orderly end."""

    def pong_received(self, payload: bytes) -> None:
        """A ping of :meth:`Duplex.ping` was answered."""

    def writing_paused(self) -> None:
        """Unsent bytes are over the high-water mark: stop the source."""

    def writing_resumed(self) -> None:
        """Unsent bytes are below the low-water mark again."""

    def connection_lost(self, *, cancelled: bool) -> None:
        """The exchange is over: finished, cancelled by the client in so many words, or cut."""


class Duplex(ABC):
    """The bodies of one exchange, both open at once.

    Nothing is delivered before :meth:`start`, and then nothing while reading is paused. The owner
    ends it by :meth:`finish` or :meth:`abort`, once.
    """

    #: Whether the client can be pinged through it.
    pingable: bool

    @abstractmethod
    def start(
        self,
        handler: DuplexHandler,
        *,
        high_water: int,
        low_water: int,
        call_later: Callable[..., Cancellable],
    ) -> None:
        """Have an owner. Reading is paused until :meth:`resume_reading`."""

    @abstractmethod
    def write(self, event: bytes) -> None:
        """Send one whole event; nothing comes between its bytes. Dropped after the end."""

    @abstractmethod
    def finish(self, last: bytes, otherwise: bytes) -> None:
        """End the response, in bounded time, whether or not the request has ended.

        Args:
            last: the last event, behind everything written so far; may be empty.
            otherwise: takes the place of all that the client does not take (clause 2.3-6).
        """

    @abstractmethod
    def abort(self) -> None:
        """Break off; the client sees that the response is not whole."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Deliver nothing more, and let the client send no more than it has leave for."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Deliver what was held back, then read on."""

    @abstractmethod
    def ping(self, payload: bytes) -> int:
        """Ping the client with 8 bytes; returns the ping's position for :meth:`flushed`."""

    @abstractmethod
    def flushed(self, position: int) -> bool:
        """Whether the socket has taken everything up to ``position``."""

    @property
    @abstractmethod
    def buffered_bytes(self) -> int:
        """Bytes held: read and not delivered, written and not taken."""

    @property
    @abstractmethod
    def taken_bytes(self) -> int:
        """Bytes that the client has taken so far, as far as one can see from here."""


class Exchange(ABC):
    """A request, and the way to answer it once.

    Attributes:
        method: the request's.
        path: raw, still percent-encoded, without the query.
        query: raw, without the question mark.
        raw_headers: as they came, in their order; HTTP/2's ``:authority`` among them.
        headers: case-insensitive; those of one name are joined by commas (RFC 9110 §5.3).
        version: of HTTP: ``1.0``, ``1.1`` or ``2``.
        peer: address of the client, for logs.
        request_id: sent back as ``x-amzn-requestid``.
    """

    def __init__(
        self,
        method: str,
        path: str,
        query: str,
        raw_headers: Sequence[tuple[str, str]],
        version: str,
        peer: str,
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.raw_headers = raw_headers
        self.headers = _joined(raw_headers)
        self.version = version
        self.peer = peer
        self.request_id = str(uuid.uuid4())

    @property
    @abstractmethod
    def answered(self) -> bool:
        """Whether a response has begun: it is too late for another."""

    @abstractmethod
    def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        """Answer with a whole response."""

    @abstractmethod
    async def open(self, status: int, headers: Mapping[str, str]) -> Duplex:
        """Begin a response whose body goes on beside the request's.

        Raises:
            ConnectionError: the client has left.
        """

    @abstractmethod
    def abort(self) -> None:
        """Break off: an answer has begun that cannot be finished."""

    def fail(self, error: ApiError) -> None:
        """Answer with an API error (clause 4-1)."""
        self.respond(
            error.status,
            error.body(),
            {"Content-Type": "application/json", "x-amzn-ErrorType": error.name, **error.headers},
        )


class UpgradableExchange(Exchange):
    """An exchange whose transport can become a WebSocket: HTTP/1.1's."""

    @abstractmethod
    async def upgrade(self, headers: Mapping[str, str]) -> None:
        """Write the 101; :meth:`hand_over` follows."""

    @abstractmethod
    def hand_over(self, connection: FrameConnection) -> None:
        """Give the upgraded transport to ``connection``, with any bytes read behind the head."""


def _joined(raw_headers: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    together: CIMultiDict[str] = CIMultiDict()
    for name, value in raw_headers:
        before = together.get(name)
        together[name] = value if before is None else f"{before}, {value}"
    return together
