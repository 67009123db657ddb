"""How fast a container may print: one that prints without end is slowed, and nobody else."""

from __future__ import annotations

from typing import Protocol

from partway.gateway.fleet.limits import OUTPUT_BURST, OUTPUT_RATE
from partway.gateway.timing.clock import Clock, Timer
from partway.protocol.token_buckets import Allowance


class PausableSource(Protocol):
    """Something that is read from, and that can be left unread for a while."""

    def pause_reading(self) -> None:
        """Read no more for now."""

    def resume_reading(self) -> None:
        """Read on."""


class OutputPace:
    """Stops reading what comes faster than it may, until it is no longer too much.

    The container's own write waits meanwhile, for a short time each, as it does for any reader that
    has other things to do. It never waits for a disk.

    Args:
        clock: measures the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._allowance = Allowance(OUTPUT_BURST, OUTPUT_RATE, clock.time())
        self._resuming: Timer | None = None
        self._paused: PausableSource | None = None
        self._ended = False

    def took(self, size: int, source: PausableSource) -> None:
        """Note that so many bytes were read, and stop reading if they were too many."""
        now = self._clock.time()
        self._allowance.draw(size, now)
        wait = self._allowance.overdrawn_for(now)
        if wait and not self._ended and self._paused is None:
            source.pause_reading()
            self._paused = source
            self._resuming = self._clock.call_later(wait, self._resume)

    def end(self) -> None:
        """Read what is left at once: its container has ended."""
        self._ended = True
        self._resume()

    def _resume(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None
        source, self._paused = self._paused, None
        if source is not None:
            source.resume_reading()
