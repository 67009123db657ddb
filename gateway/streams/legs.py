"""What a session expects of its legs, whatever they speak.

A leg belongs to one session. From :meth:`Leg.start` it can be sent to, but delivers nothing before
the first :meth:`Leg.resume_reading`. After :meth:`Leg.finish` it says nothing more but
``session.leg_closed()``, once its transport is gone, and that in bounded time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from partway.protocol.closing import Close
from partway.protocol.parts import PayloadPart

if TYPE_CHECKING:
    from partway.gateway.streams.ends import Ending
    from partway.gateway.streams.session import Session


class Leg(ABC):
    """One side of a stream."""

    @abstractmethod
    def start(self, session: Session) -> None:
        """Take the transport over; deliver to ``session`` once :meth:`resume_reading` is called."""

    @abstractmethod
    def send(self, part: PayloadPart) -> None:
        """Send one part. Over the high-water mark the leg calls ``session.…_blocked()``."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Deliver nothing more until :meth:`resume_reading`; liveness stands still."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Deliver again, first what was held back."""

    @abstractmethod
    def finish(self, ending: Ending) -> None:
        """Say what ``ending`` has for this side, and close within bounded time."""

    @abstractmethod
    def buffered_bytes(self) -> int:
        """Bytes this leg holds: read and not delivered, sent and not taken."""

    @abstractmethod
    def taken_bytes(self) -> int:
        """Bytes the peer's socket has taken so far; what a stall is measured by."""


class ClientLeg(Leg):
    """The side of the client. Its last event is made of the session's ``Ending``."""


class ContainerLeg(Leg):
    """The side of the container."""

    @property
    @abstractmethod
    def mid_message(self) -> bool:
        """Whether the last part sent was ``PARTIAL``."""

    @abstractmethod
    def close(self, close: Close) -> None:
        """Send a Close; frames still arrive until the container's own."""
