"""The interface between a client's stream and its connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from partway.gateway.client.errors import PartwayError
from partway.protocol.parts import PayloadPart, StreamEvent


class WireOwner(Protocol):
    """The owner of a wire: a stream. :meth:`lost` is always the last call."""

    def event_received(self, event: StreamEvent) -> None:
        """Take the gateway's next event."""

    def ended(self, error: PartwayError | None) -> None:
        """Note that no further event follows; an error that came as an event has more details."""

    def broken(self, why: str) -> None:
        """Note that the bytes are not events; must call :meth:`Wire.abort`."""

    def pong_received(self, payload: bytes) -> None:
        """Take the answer to a ping of :meth:`Wire.ping`."""

    def writing_paused(self) -> None:
        """Make senders wait: unsent bytes are over the high-water mark."""

    def writing_resumed(self) -> None:
        """Let senders go on: unsent bytes are below the low-water mark again."""

    def lost(self) -> None:
        """Note that the connection is gone."""


class Wire(ABC):
    """The connection of one stream that the gateway has granted.

    Attributes:
        input_end: how the gateway handles the end of the input; empty if it does not say.
    """

    #: Whether pongs wait behind events that are not read; the clock of pings must stop then.
    pongs_wait: bool

    request_id: str
    input_end: str

    @abstractmethod
    def start(self, owner: WireOwner) -> None:
        """Deliver to ``owner`` from now on, first everything that has come before."""

    @abstractmethod
    def send(self, part: PayloadPart) -> None:
        """Send one part whole, after unsent bytes; after the end it is dropped."""

    @abstractmethod
    def end_input(self) -> None:
        """End the input, after unsent bytes: no part follows."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Deliver nothing more, and give the gateway no further credit."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Deliver everything that was held back, then read on."""

    @property
    @abstractmethod
    def reading(self) -> bool:
        """Whether events are delivered."""

    @property
    @abstractmethod
    def buffered_bytes(self) -> int:
        """Bytes of the stream held in this process: read, not delivered; sent, not taken."""

    @abstractmethod
    def ping(self, payload: bytes) -> int:
        """Ping the gateway with 8 bytes; return the ping's position for :meth:`flushed`."""

    @abstractmethod
    def flushed(self, position: int) -> bool:
        """Say whether the socket has taken everything up to ``position``."""

    @abstractmethod
    def finish(self, *, cancel: bool) -> None:
        """End the stream and the connection, in bounded time.

        Args:
            cancel: whether the stream is cancelled, in place of left in good order.
        """

    @abstractmethod
    def abort(self) -> None:
        """End the connection at once."""
