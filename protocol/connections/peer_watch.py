"""Watching a peer: is it alive, does it take bytes (clause 1.4)."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Protocol

from partway.protocol.connections.fair_turns import Cancellable
from partway.protocol.limits import PING_FLUSH_CHECK, STALL_CHECKS
from partway.protocol.websocket.liveness import Hold, Liveness


class Clock(Protocol):
    """Monotonic seconds and timers; a running event loop is one."""

    def time(self) -> float:
        """Return monotonic seconds."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Cancellable:
        """Call ``callback`` with ``args`` after ``delay`` seconds."""


class Wait(enum.Flag):
    """Why a direction waits for its socket."""

    NONE = 0
    HIGH_WATER = enum.auto()
    PING = enum.auto()


class Pinged(Protocol):
    """A connection that can be pinged, whatever it speaks."""

    def ping(self, payload: bytes) -> int:
        """Send a ping; return its position for :meth:`flushed`."""

    def flushed(self, position: int) -> bool:
        """Say whether the socket has taken everything up to ``position``."""


class PingWatch:
    """Pings one peer and reports its loss.

    Args:
        interval: seconds between pings.
        unanswered_limit: pings that may stay unanswered.
        stall: learns of pings that wait for the socket, if such waits are watched.
    """

    def __init__(
        self,
        connection: Pinged,
        clock: Clock,
        *,
        interval: float,
        unanswered_limit: int,
        on_lost: Callable[[], None],
        stall: StallWatch | None = None,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._liveness = Liveness(interval, unanswered_limit, clock.time())
        self._on_lost = on_lost
        self._waits = stall
        self._ping_end = 0
        # Before the next ping is due: otherwise a short interval would count an unsent ping.
        self._flush_check_after = min(PING_FLUSH_CHECK, interval / 2)
        self._flush_check: Cancellable | None = None
        self._timer: Cancellable | None = None
        self._stopped = False
        self._arm()

    def pong_received(self, payload: bytes) -> None:
        self._liveness.pong(payload)

    def reading_paused(self) -> None:
        """Stop the clock while the peer is not read: a pong would wait unseen."""
        self._liveness.hold(Hold.READING_PAUSED)
        self._arm()

    def reading_resumed(self) -> None:
        """Start the clock again, from zero."""
        self._liveness.release(Hold.READING_PAUSED, self._clock.time())
        self._arm()

    def stop(self) -> None:
        self._stopped = True
        for timer in (self._timer, self._flush_check):
            if timer is not None:
                timer.cancel()
        if self._waits is not None:
            self._waits.moving(Wait.PING)  # the ping is not watched from here on

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._liveness.deadline
        if deadline is not None and not self._stopped:
            self._timer = self._clock.call_later(
                max(0.0, deadline - self._clock.time()), self._tick
            )

    def _tick(self) -> None:
        payload = self._liveness.tick(self._clock.time())
        if self._liveness.lost:
            self.stop()
            self._on_lost()
            return
        if payload is not None:
            self._ping_end = self._connection.ping(payload)
            if self._flush_check is None:
                self._check_flushed_later()
        self._arm()

    def _check_flushed(self) -> None:
        """Stop the clock while a ping queues behind unsent data (clause 1.4-2)."""
        if self._connection.flushed(self._ping_end):
            self._flush_check = None
            self._liveness.release(Hold.PING_UNFLUSHED, self._clock.time())
            if self._waits is not None:
                self._waits.moving(Wait.PING)
        else:
            self._liveness.hold(Hold.PING_UNFLUSHED)
            if self._waits is not None:
                self._waits.waiting(Wait.PING)
            self._check_flushed_later()
        self._arm()

    def _check_flushed_later(self) -> None:
        self._flush_check = self._clock.call_later(self._flush_check_after, self._check_flushed)


class StallWatch:
    """Ends a direction that waits and moves no byte (clauses 1.4-2, 2.6-4).

    It looks ten times in a timeout, so the end comes between one timeout and 1.1 of it.

    Args:
        taken: how many bytes the socket has taken so far.
        timeout: seconds without progress.
    """

    def __init__(
        self, taken: Callable[[], int], clock: Clock, timeout: float, on_stall: Callable[[], None]
    ) -> None:
        self._taken = taken
        self._clock = clock
        self._timeout = timeout
        self._on_stall = on_stall
        self._reasons = Wait.NONE
        self._timer: Cancellable | None = None
        self._taken_before = 0
        self._progress_at = 0.0

    def waiting(self, reason: Wait) -> None:
        """Note that the direction waits for its socket, for ``reason``."""
        if not self._reasons:
            self._taken_before = self._taken()
            self._progress_at = self._clock.time()
            self._timer = self._clock.call_later(self._timeout / STALL_CHECKS, self._check)
        self._reasons |= reason

    def moving(self, reason: Wait) -> None:
        """Note that the direction has stopped waiting for ``reason``."""
        self._reasons &= ~reason
        if not self._reasons:
            self.stop()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        now = self._clock.time()
        taken = self._taken()
        if taken > self._taken_before:
            self._taken_before = taken
            self._progress_at = now
        if now - self._progress_at >= self._timeout:
            self._timer = None
            self._on_stall()
        else:
            self._timer = self._clock.call_later(self._timeout / STALL_CHECKS, self._check)
