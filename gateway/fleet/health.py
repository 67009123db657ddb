"""What an instance's pings say of it: rules without a clock or a socket (clause 1.1-2)."""

from __future__ import annotations

from partway.gateway.fleet.status import InstanceHealth


class PingRules:
    """Whether an instance is to take streams, by what its pings have said so far.

    1. So many misses in a row, and it is unhealthy.
    2. An answer with 200, and it is healthy, whatever was before.
    3. What somebody else runs and has never answered with 200 may have no ``/ping``: nothing is
       known of it, and misses say nothing.

    Args:
        missed_allowed: misses in a row that are one too many.
        answered: whether it has answered with 200 before, as it must have to be in service.

    Attributes:
        health: what is known of it.
        missed: misses in a row.
        trouble: what was wrong with the last ping; empty if nothing was.
    """

    def __init__(self, missed_allowed: int, *, answered: bool) -> None:
        self.health = InstanceHealth.HEALTHY if answered else InstanceHealth.UNKNOWN
        self.missed = 0
        self.trouble = ""
        self._allowed = missed_allowed

    def pinged(self, trouble: str | None) -> bool:
        """Take what one ping said.

        Args:
            trouble: what was wrong; None for 200.

        Returns:
            Whether the instance's health is another now.
        """
        before = self.health
        if trouble is None:
            self.missed = 0
            self.trouble = ""
            self.health = InstanceHealth.HEALTHY  # rule 2
        else:
            self.missed += 1
            self.trouble = trouble
            if before is InstanceHealth.HEALTHY and self.missed >= self._allowed:  # rules 1 and 3
                self.health = InstanceHealth.UNHEALTHY
        return self.health is not before
