"""RecentDeletions: how many unreachable pods may be deleted now."""

from __future__ import annotations

import math
from collections import deque

from partway.gateway.operator.limits import DELETION_SHARE, DELETION_WINDOW
from partway.gateway.timing.clock import Clock


def most_deletions(pods: int) -> int:
    """Return how many of so many pods may be deleted in DELETION_WINDOW."""
    return max(1, int(pods * DELETION_SHARE))


class RecentDeletions:
    """The deletions of the last DELETION_WINDOW.

    A process keeps them while it has lost its lease: it may lead again soon.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deleted: deque[float] = deque()
        self._idle_until = -math.inf

    def follow_another(self) -> None:
        """Note that another process may have deleted pods until now."""
        self._idle_until = self._clock.time() + DELETION_WINDOW

    def next(self, pods: int) -> float:
        """Return when another of so many pods may be deleted, by the clock."""
        while self._deleted and self._deleted[0] <= self._clock.time() - DELETION_WINDOW:
            self._deleted.popleft()
        if len(self._deleted) < most_deletions(pods):
            return self._idle_until
        return max(self._idle_until, self._deleted[0] + DELETION_WINDOW)

    def count(self) -> None:
        """Count a deletion that begins now."""
        self._deleted.append(self._clock.time())

    def take_back(self) -> None:
        """Count the last deletion no more: it was not made."""
        self._deleted.pop()
