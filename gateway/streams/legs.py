"""The interface between a session and its legs, whatever protocol the legs speak.

A leg belongs to one session. From :meth:`Leg.start` it can be sent to, but delivers nothing before
the first :meth:`Leg.resume_reading`. After :meth:`Leg.finish` its only call is
``session.leg_closed()``, once its transport is gone, and that in bounded time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from partway.gateway.streams.ends import Cause, ClientFault, Ending
from partway.protocol.connections.peer_watch import StallWatch
from partway.protocol.parts import PayloadPart
from partway.protocol.websocket.close_codes import Close
from partway.protocol.websocket.frame_decoder import FrameError


class LegOwner(Protocol):
    """The owner of legs, which report to it: a stream's session.

    :class:`~partway.gateway.streams.session.Session` documents each method. They are declared here
    so that legs do not depend on the session.
    """

    client_stall: StallWatch
    container_stall: StallWatch

    # From the client's leg.
    def part_from_client(self, part: PayloadPart) -> None: ...
    def input_ended(self) -> None: ...
    def client_finished(self) -> None: ...
    def client_gone(self, cause: Cause) -> None: ...
    def client_failed(self, fault: ClientFault) -> None: ...
    def client_blocked(self) -> None: ...
    def client_drained(self) -> None: ...

    # From the container's leg.
    def part_from_container(self, part: PayloadPart) -> None: ...
    def container_closed(self, close: Close) -> None: ...
    def container_failed(self, error: FrameError) -> None: ...
    def container_lost(self) -> None: ...
    def container_unresponsive(self) -> None: ...
    def container_blocked(self) -> None: ...
    def container_drained(self) -> None: ...

    # From either.
    def failed(self) -> None: ...
    def leg_closed(self) -> None: ...


class Leg(ABC):
    @abstractmethod
    def start(self, session: LegOwner) -> None:
        """Take the transport over; deliver to ``session`` once :meth:`resume_reading` is called."""

    @abstractmethod
    def send(self, part: PayloadPart) -> None:
        """Send one part. Over the high-water mark the leg calls ``session.…_blocked()``."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Deliver nothing more until :meth:`resume_reading`; liveness stands still."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Deliver again, first everything that was held back."""

    @abstractmethod
    def finish(self, ending: Ending) -> None:
        """Send this side's part of ``ending``, and close within bounded time."""

    @abstractmethod
    def buffered_bytes(self) -> int:
        """Return the bytes that this leg holds: read and not delivered, or sent and not taken."""

    @abstractmethod
    def taken_bytes(self) -> int:
        """Return the bytes that the peer's socket has taken so far; a stall is measured by it."""


class ClientLeg(Leg):
    """The client's side of a stream; the client's last event comes from the ``Ending``."""


class ContainerLeg(Leg):
    @property
    @abstractmethod
    def mid_message(self) -> bool:
        """Whether the last part sent was ``PARTIAL``."""

    @property
    @abstractmethod
    def finishes_before_close(self) -> bool:
        """Whether the container says that it answers a Close only once it has finished (1.5-12)."""

    @abstractmethod
    def unsent_bytes(self) -> int:
        """Return the bytes sent that the container's socket has not taken yet."""

    @abstractmethod
    def close(self, close: Close) -> None:
        """Send a Close; frames still arrive until the container's own Close."""
