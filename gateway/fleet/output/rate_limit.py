"""The rate limit of a container's output: it slows a container that prints without end."""

from __future__ import annotations

from typing import Protocol

from partway.gateway.fleet.limits import OUTPUT_BURST, OUTPUT_RATE
from partway.gateway.timing.clock import Clock, Timer
from partway.protocol.token_buckets import Allowance


class PausableSource(Protocol):
    """A source of bytes that can be left unread for a while."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class OutputPace:
    """Pauses reading from a container that prints too fast.

    The container's write blocks meanwhile, each time for a short while, as with any busy reader. It
    never waits for a disk.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._allowance = Allowance(OUTPUT_BURST, OUTPUT_RATE, clock.time())
        self._resuming: Timer | None = None
        self._paused: PausableSource | None = None
        self._ended = False

    def took(self, size: int, source: PausableSource) -> None:
        """Note that so many bytes were read; pause if they were too many."""
        now = self._clock.time()
        self._allowance.draw(size, now)
        wait = self._allowance.overdrawn_for(now)
        if wait and not self._ended and self._paused is None:
            source.pause_reading()
            self._paused = source
            self._resuming = self._clock.call_later(wait, self._resume)

    def end(self) -> None:
        """Read the rest at once: the container has ended."""
        self._ended = True
        self._resume()

    def _resume(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None
        source, self._paused = self._paused, None
        if source is not None:
            source.resume_reading()
