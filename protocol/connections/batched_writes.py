"""Batched writes: frames that one read causes leave in one write.

Without it, a read with eight frames would cause eight system calls on the other leg, a third of a
relay's CPU time.
"""

from __future__ import annotations

import threading
from typing import Protocol


class Flushable(Protocol):
    def flush(self) -> None: ...


class _BatchedWrites(threading.local):
    """The connections written to while a read's frames are delivered; per thread, so per loop."""

    connections: list[Flushable] | None = None

    def begin(self) -> bool:
        """Start gathering; return False if an outer caller gathers already."""
        if self.connections is not None:
            return False
        self.connections = []
        return True

    def end(self) -> None:
        connections, self.connections = self.connections, None
        for connection in connections or ():
            connection.flush()


batched_writes = _BatchedWrites()
