"""Detecting a container's silence after the end of its client's input (clause 1.5-12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from partway.gateway.timing.clock import Clock, Timer
from partway.protocol.limits import STALL_CHECKS

#: Sums of floats may miss a moment by less than this, in seconds.
_GRAIN: Final = 1e-6


class SilenceWatch:
    """Reports that a container has shown no sign of progress for too long.

    A sign is a frame from the container, or a byte that its socket takes of pending data; outgoing
    pings and pongs do not count. The time stands still while the container is not read, since its
    frames would wait unseen. While bytes wait to be taken, the watch looks ten times within a
    limit, so the report is at most a tenth of the limit late.

    Args:
        taken: how many bytes the container's socket has taken so far.
        unsent: how many bytes it has still to take.
        on_silent: called once for each :meth:`begin`.
    """

    def __init__(
        self,
        clock: Clock,
        taken: Callable[[], int],
        unsent: Callable[[], int],
        on_silent: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._taken = taken
        self._unsent = unsent
        self._on_silent = on_silent
        self._limit: float | None = None
        self._once_taken = False
        self._since = 0.0
        self._taken_before = 0
        self._all_taken_at = 0
        self._held = False
        self._timer: Timer | None = None

    def begin(self, limit: float, since: float, *, once_taken: bool) -> None:
        """Count the silence anew.

        Args:
            limit: seconds of silence.
            since: when the silence began, on the stream's clock; it may be over already.
            once_taken: whether the silence begins only when everything sent has been taken.
        """
        self._limit = limit
        self._once_taken = once_taken
        self._since = since
        self._taken_before = self._taken()
        self._all_taken_at = self._taken_before + self._unsent()
        self._arm(soonest=True)

    def heard(self, limit: float) -> None:
        """Note a frame from the container, and the limit of the silence after it."""
        self._since = self._clock.time()
        if limit != self._limit:
            self._limit = limit
            self._arm()
        # Otherwise the running timer finds out by itself: a frame costs no timer.

    def hold(self) -> None:
        """Stop the time: the container is not read."""
        self._held = True
        self._disarm()

    def release(self) -> None:
        """Let the time begin anew: the container is read again."""
        self._held = False
        self._since = self._clock.time()
        self._arm()

    def stop(self) -> None:
        self._limit = None
        self._disarm()

    def _arm(self, *, soonest: bool = False) -> None:
        """Set a timer for the time when the limit may be over.

        Args:
            soonest: whether to look in the event loop's next turn, while the container has not
                taken all bytes. Bytes that are written in one turn leave at its end; by the next
                turn the container has mostly taken them.
        """
        self._disarm()
        if self._limit is not None and not self._held:
            left = max(0.0, self._since + self._limit - self._clock.time())
            if self._taken_before < self._all_taken_at:
                left = 0.0 if soonest else min(left, self._limit / STALL_CHECKS)
            self._timer = self._clock.call_later(left, self._look)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        assert self._limit is not None, "a watch that has stopped has no timer"
        now = self._clock.time()
        if self._taken_before < self._all_taken_at:
            taken = self._taken()
            if taken > self._taken_before or self._once_taken:
                self._since = now
                self._taken_before = taken
        if now - self._since > self._limit - _GRAIN:
            self.stop()
            self._on_silent()
        else:
            self._arm()
