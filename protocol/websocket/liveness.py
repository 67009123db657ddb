"""WebSocket liveness: pings, pongs, and when a peer is lost (clauses 1.4-1, 1.4-2, 1.4-4).

Every call takes the clock's reading, so a test can choose any time.
"""

from __future__ import annotations

import enum


class Hold(enum.Flag):
    """Reasons for the clock to stand still (clause 1.4-2)."""

    NONE = 0
    #: We do not read, so a pong would not be seen.
    READING_PAUSED = enum.auto()
    #: The socket has not taken the ping yet, so the peer cannot have seen it.
    PING_UNFLUSHED = enum.auto()


class Liveness:
    """The liveness of one peer.

    The owner calls :meth:`tick` at :attr:`deadline`, sends the result as a Ping, passes every Pong
    to :meth:`pong`, and ends the connection once :attr:`lost`.

    Rules:
        1. A ping each ``interval`` seconds, its payload an 8-byte counter (1.4-1).
        2. A pong answers its ping and every earlier one (RFC 6455 §5.5.3). A pong that echoes no
           ping of ours is ignored; data does not count as a pong (1.4-1).
        3. The peer is lost when ``unanswered_limit`` pings are unanswered and the last is an
           interval old.
        4. While held the clock stops; released, it starts again from zero (1.4-2).

    Args:
        interval: seconds between pings.
        now: the clock's reading, in seconds.
    """

    __slots__ = ("_answered", "_hold", "_sent", "deadline", "interval", "lost", "unanswered_limit")

    def __init__(self, interval: float, unanswered_limit: int, now: float) -> None:
        self.interval = interval
        self.unanswered_limit = unanswered_limit
        #: When :meth:`tick` is due, or None while held or lost.
        self.deadline: float | None = now + interval
        self.lost = False
        self._sent = 0
        self._answered = 0
        self._hold = Hold.NONE

    @property
    def unanswered(self) -> int:
        return self._sent - self._answered

    def tick(self, now: float) -> bytes | None:
        """Return the payload of a Ping to send now, or None when early, held or :attr:`lost`."""
        if self.deadline is None or now < self.deadline:
            return None
        if self.unanswered >= self.unanswered_limit:  # rule 3
            self.lost = True
            self.deadline = None
            return None
        self._sent += 1
        self.deadline = now + self.interval
        return self._sent.to_bytes(8, "big")

    def pong(self, payload: bytes) -> None:
        """Take a Pong in (rule 2)."""
        if len(payload) == 8:
            counter = int.from_bytes(payload, "big")
            if self._answered < counter <= self._sent:
                self._answered = counter

    def hold(self, reason: Hold) -> None:
        """Stop the clock for ``reason`` (rule 4)."""
        self._hold |= reason
        self.deadline = None

    def release(self, reason: Hold, now: float) -> None:
        """Withdraw ``reason``; with the last one the clock starts from zero (rule 4)."""
        if not self._hold & reason or self.lost:
            return
        self._hold &= ~reason
        if not self._hold:
            self._answered = self._sent
            self.deadline = now + self.interval
