"""What an intermediary tells of a connection to whoever keeps what passes."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from partway.protocol.frames import Frame


class Sender(enum.StrEnum):
    """Whose frame it is."""

    GATEWAY = "gateway"
    CONTAINER = "container"


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """What the gateway asks for.

    Attributes:
        target: path and query, with the leading slash.
        headers: names as they were written, in their order.
    """

    target: str
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class UpgradeAnswer:
    """What the container answers; 101 grants the stream.

    Attributes:
        status: of it.
        reason: the words behind the status.
        headers: names as they were written, in their order.
        body: of a refusal; its beginning where it is long.
    """

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""


class Observer(Protocol):
    """Watches one stream. Each method is called when the thing happens, and returns at once."""

    def answered(self, answer: UpgradeAnswer) -> None:
        """The request was answered."""

    def frame(self, sender: Sender, frame: Frame) -> None:
        """A whole frame has passed, unmasked; control frames too."""

    def ended(self, sender: Sender, error: str = "") -> None:
        """A side has ended its TCP connection; ``error`` is empty if it did so in order."""

    def closed(self) -> None:
        """Nothing more comes of this stream; called once, whatever happened."""


#: Asked for each upgrade, with the endpoint's name; None if nobody wants to watch this stream.
Observe = Callable[[str, UpgradeRequest], Observer | None]
