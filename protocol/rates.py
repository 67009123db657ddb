"""How often something may happen: a token bucket. The clock's reading comes in."""

from __future__ import annotations


class TokenBucket:
    """Allows ``burst`` events at once, and ``rate`` a second after that.

    Args:
        burst: tokens at the beginning, and at most.
        rate: tokens that come back each second.
        now: the clock's reading, in seconds.
    """

    __slots__ = ("_burst", "_rate", "_seen", "_tokens")

    def __init__(self, burst: float, rate: float, now: float) -> None:
        self._burst = burst
        self._rate = rate
        self._tokens = burst
        self._seen = now

    def take(self, now: float) -> bool:
        """Take one token; False if the bucket is empty."""
        if now > self._seen:
            self._tokens = min(self._burst, self._tokens + (now - self._seen) * self._rate)
            self._seen = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
