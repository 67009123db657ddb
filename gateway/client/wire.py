"""What a stream needs of its connection, and what the connection tells it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from partway.gateway.client.errors import PartwayError
from partway.protocol.parts import PayloadPart, StreamEvent


class WireOwner(Protocol):
    """What a wire tells its stream. :meth:`lost` is always the last call."""

    def event_received(self, event: StreamEvent) -> None:
        """The gateway's next event."""

    def ended(self, error: PartwayError | None) -> None:
        """No further event follows; if the error came as an event, that has told more."""

    def broken(self, why: str) -> None:
        """The bytes that came are not events: the owner must call :meth:`Wire.abort`."""

    def pong_received(self, payload: bytes) -> None:
        """A ping of :meth:`Wire.ping` was answered."""

    def writing_paused(self) -> None:
        """Unsent bytes are over the high-water mark: hold senders up."""

    def writing_resumed(self) -> None:
        """Unsent bytes are below the low-water mark again: let senders go on."""

    def lost(self) -> None:
        """The connection is gone."""


class Wire(ABC):
    """The connection of one stream that the gateway has granted.

    Attributes:
        request_id: the gateway's id of the stream.
        input_end: what the gateway does when the input ends; empty where it does not say.
    """

    #: Whether pongs wait behind events that are not read; the clock of pings has to stop then.
    pongs_wait: bool

    request_id: str
    input_end: str

    @abstractmethod
    def start(self, owner: WireOwner) -> None:
        """Deliver to ``owner`` what comes from now on, and what has come before."""

    @abstractmethod
    def send(self, part: PayloadPart) -> None:
        """Send one part, whole, behind what is unsent; after the end the part is dropped."""

    @abstractmethod
    def end_input(self) -> None:
        """Say that no part follows, behind what is unsent."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Deliver nothing more, and let the gateway send no more than it has leave for."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Deliver what was held back, then read on."""

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
        """Ping the gateway with 8 bytes; returns the ping's position for :meth:`flushed`."""

    @abstractmethod
    def flushed(self, position: int) -> bool:
        """Whether the socket has taken everything up to ``position``."""

    @abstractmethod
    def finish(self, *, cancel: bool) -> None:
        """Take leave, and see the connection to its end, in bounded time.

        Args:
            cancel: whether the stream is given up, in place of left in good order.
        """

    @abstractmethod
    def abort(self) -> None:
        """End the connection at once."""
