"""Observers of a stream: the reports that an intermediary makes to them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from partway.protocol.websocket.frames import Frame


class Sender(enum.StrEnum):
    GATEWAY = "gateway"
    CONTAINER = "container"


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """The gateway's request for a stream; ``target`` has the leading slash, headers their order."""

    target: str
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class UpgradeAnswer:
    """The container's answer to an upgrade.

    Attributes:
        status: the HTTP status; 101 grants the stream.
        headers: pairs of name and value, as they were written, in their order.
        body: the body of a refusal; the beginning of a long one.
    """

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""


class Observer(Protocol):
    """Watches one stream. Each method is called when the thing happens, and returns at once."""

    def answered(self, answer: UpgradeAnswer) -> None:
        """The upgrade request was answered."""

    def frame(self, sender: Sender, frame: Frame) -> None:
        """A whole frame has passed, unmasked; control frames too."""

    def ended(self, sender: Sender, error: str = "") -> None:
        """A side has ended its TCP connection; ``error`` is empty if the end was in order."""

    def closed(self) -> None:
        """The stream is over, and no further report follows; called exactly once."""


#: Gives the observer of an upgrade, by the endpoint's name; None for a stream without one.
Observe = Callable[[str, UpgradeRequest], Observer | None]
