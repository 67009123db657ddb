"""Gathering what the frames of one read send, so that it leaves in one write.

Eight frames that one read brings would otherwise be eight system calls on the other leg, a third of
all the CPU of a relay.
"""

from __future__ import annotations

import threading
from typing import Protocol


class Flushable(Protocol):
    """A connection that has gathered something."""

    def flush(self) -> None:
        """Write what was gathered."""


class _BatchedWrites(threading.local):
    """Connections sent to while a read's frames are delivered; by thread, and so by loop."""

    connections: list[Flushable] | None = None

    def begin(self) -> bool:
        """Gather from here on; False if a caller further out gathers already."""
        if self.connections is not None:
            return False
        self.connections = []
        return True

    def end(self) -> None:
        """Write what was gathered, once for each connection that was sent to."""
        connections, self.connections = self.connections, None
        for connection in connections or ():
            connection.flush()


batched_writes = _BatchedWrites()
