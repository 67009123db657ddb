"""The clock that streams live by: the event loop's, or a test's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from protocol.connection import Cancellable as Timer

__all__ = ["Clock", "Timer"]


class Clock(Protocol):
    """What :class:`asyncio.AbstractEventLoop` offers of time."""

    def time(self) -> float:
        """Monotonic seconds."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call back after ``delay`` seconds."""
