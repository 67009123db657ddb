"""Both bodies of one exchange, open at once, whichever HTTP version carries them."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from partway.protocol.connections.fair_turns import Cancellable


class Parting(enum.Enum):
    """How a client left an exchange that was not over (clause 2.1-4)."""

    #: In good order: it has said all it had to say, and gives up the rest of the response.
    IN_ORDER = "in order"
    #: It cancels.
    CANCELLED = "cancelled"
    #: Without a word, or for a fault.
    LOST = "lost"


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

    def connection_lost(self, how: Parting) -> None:
        """The exchange is over; ``how`` counts if the owner has neither finished nor aborted it."""


class Duplex(ABC):
    """The bodies of one exchange, both open at once.

    Nothing is delivered before :meth:`start`, and then nothing while reading is paused. The owner
    ends it by :meth:`finish` or :meth:`abort`, once.
    """

    #: Whether the client can be pinged through this duplex.
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
        """Tell ``handler`` what comes from now on; reading is paused until it is resumed."""

    @abstractmethod
    def write(self, event: bytes) -> None:
        """Send one whole event; nothing comes between its bytes. After the end it is dropped."""

    @abstractmethod
    def finish(self, last: bytes, otherwise: bytes) -> None:
        """End the response, in bounded time, whether or not the request has ended.

        Args:
            last: the last event, behind everything written so far; may be empty.
            otherwise: the event that takes the place of all that the client does not take
                (clause 2.3-6).
        """

    @abstractmethod
    def abort(self) -> None:
        """Break off the response; the client sees that it is not whole."""

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
        """Bytes of both bodies held here: read and not delivered, written and not taken."""

    @property
    @abstractmethod
    def taken_bytes(self) -> int:
        """Bytes that the client has taken so far, as far as this process can see."""
