"""Token buckets: limits on how often something happens and on how much is spent.

Every call takes the clock's reading.
"""

from __future__ import annotations

import math
from typing import Final

#: Rounding tolerance for sums of floats, in seconds.
_GRAIN: Final = 1e-6


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


class Allowance:
    """Lets ``burst`` be spent at once, and ``rate`` a second after that.

    Amounts are drawn after the cost is known, so the allowance can be overdrawn.

    Args:
        burst: the amount at the beginning, and at most.
        rate: the amount that comes back each second.
        now: the clock's reading, in seconds.
        debt: largest debt; spending beyond it is forgotten.
    """

    __slots__ = ("_burst", "_debt", "_left", "_rate", "_seen")

    def __init__(self, burst: float, rate: float, now: float, debt: float = math.inf) -> None:
        self._burst = burst
        self._debt = debt
        self._rate = rate
        self._left = burst
        self._seen = now

    def draw(self, amount: float, now: float) -> None:
        """Spend an amount; a negative amount is returned."""
        self._catch_up(now)
        self._left = min(self._burst, max(self._left - amount, -self._debt))

    def overdrawn_for(self, now: float) -> float:
        """Return the seconds until the debt is paid; 0.0 without a debt."""
        self._catch_up(now)
        owed = -self._left / self._rate
        return owed if owed > _GRAIN else 0.0

    def _catch_up(self, now: float) -> None:
        if now > self._seen:
            self._left = min(self._burst, self._left + (now - self._seen) * self._rate)
            self._seen = now
