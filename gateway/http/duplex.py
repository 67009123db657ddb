"""Duplex exchanges: both bodies open at once, in any HTTP version."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from partway.protocol.connections.fair_turns import Cancellable


class Parting(enum.Enum):
    """How a client left an exchange that was not over (clause 2.1-4)."""

    #: In good order: its input is complete, and it does not want the rest of the response.
    IN_ORDER = "in order"
    #: It cancels.
    CANCELLED = "cancelled"
    #: Without notice, or because of a fault.
    LOST = "lost"


class DuplexHandler(Protocol):
    """The owner of a duplex. :meth:`connection_lost` is always the last call."""

    def data_received(self, data: bytes) -> None:
        """Take bytes of the request's body, cut anywhere."""

    def input_ended(self) -> None:
        """Note the orderly end of the request's body."""

    def pong_received(self, payload: bytes) -> None:
        """Take the answer to a ping of :meth:`Duplex.ping`."""

    def writing_paused(self) -> None:
        """Stop the source: unsent bytes are over the high-water mark."""

    def writing_resumed(self) -> None:
        """Go on: unsent bytes are below the low-water mark again."""

    def connection_lost(self, how: Parting) -> None:
        """Note the end of the exchange; ``how`` matters only before a finish or an abort."""


class Duplex(ABC):
    """The bodies of one exchange, both open at once.

    Nothing is delivered before :meth:`start`, or while reading is paused. The owner ends the duplex
    with :meth:`finish` or :meth:`abort`, once.
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
        """Deliver to ``handler`` from now on; reading is paused until it is resumed."""

    @abstractmethod
    def write(self, event: bytes) -> None:
        """Send one whole event; nothing comes between its bytes. After the end it is dropped."""

    @abstractmethod
    def finish(self, last: bytes, otherwise: bytes) -> None:
        """End the response, in bounded time, whether or not the request has ended.

        Args:
            last: the last event, after everything written so far; may be empty.
            otherwise: the event that replaces everything that the client does not take (clause
                2.3-6).
        """

    @abstractmethod
    def abort(self) -> None:
        """Break off the response; the client sees that it is incomplete."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Deliver nothing more, and give the client no further credit."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Deliver what was held back, then read on."""

    @abstractmethod
    def ping(self, payload: bytes) -> int:
        """Ping the client with 8 bytes; return the ping's position for :meth:`flushed`."""

    @abstractmethod
    def flushed(self, position: int) -> bool:
        """Say whether the socket has taken everything up to ``position``."""

    @property
    @abstractmethod
    def buffered_bytes(self) -> int:
        """Bytes of both bodies held here: read and not delivered, or written and not taken."""

    @property
    @abstractmethod
    def taken_bytes(self) -> int:
        """Bytes that the client has taken so far, as far as this process can see."""
