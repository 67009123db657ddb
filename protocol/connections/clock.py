"""The clock that watches of a connection go by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from partway.protocol.connections.fair_turns import Cancellable


class Clock(Protocol):
    """Monotonic seconds and timers; a running event loop is one."""

    def time(self) -> float:
        """Return monotonic seconds."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Cancellable:
        """Call ``callback`` with ``args`` after ``delay`` seconds."""
