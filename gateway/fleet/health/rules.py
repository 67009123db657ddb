"""What an instance's pings say of it: rules without a clock or a socket (clause 1.1-2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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


class InstanceRules:
    """What the pings of an instance's containers say of it.

    1. Those that the gateway has launched are as their worst one, which decides whether the
       instance lives on.
    2. One that somebody else runs keeps the instance from taking streams while it is unhealthy, and
       does nothing more: what was launched beside it is well, and to start that anew mends nothing.
    3. One that is written for Vertex AI does the same, as it may be unhealthy for a while on
       purpose: there it is never started anew for its health.

    Containers go by their host names, an only one by an empty one.

    Args:
        missed_allowed: misses in a row that are one too many.
        attached: the containers that somebody else runs.
        launched: whether the gateway has launched any.
        kept: those that it has launched and that are not started anew for their health (rule 3).
    """

    def __init__(
        self,
        missed_allowed: int,
        attached: Iterable[str],
        *,
        launched: bool,
        kept: Iterable[str] = (),
    ) -> None:
        self._launched = PingRules(missed_allowed, answered=True) if launched else None
        self._kept = {each: PingRules(missed_allowed, answered=False) for each in attached}
        self._kept |= {each: PingRules(missed_allowed, answered=True) for each in kept}

    @property
    def health(self) -> InstanceHealth:
        """What is known of it."""
        found = [each.health for each in self._kept.values()]
        if InstanceHealth.UNHEALTHY in found:
            return InstanceHealth.UNHEALTHY
        if self._launched is not None:
            return self._launched.health
        return InstanceHealth.UNKNOWN if InstanceHealth.UNKNOWN in found else InstanceHealth.HEALTHY

    @property
    def is_lost(self) -> bool:
        """Whether it is to be replaced."""
        return self._launched is not None and self._launched.health is InstanceHealth.UNHEALTHY

    @property
    def missed(self) -> int:
        """Misses in a row of what was launched."""
        return 0 if self._launched is None else self._launched.missed

    @property
    def trouble(self) -> str:
        """What was wrong with the last ping; empty if nothing was."""
        rules = [*([] if self._launched is None else [self._launched]), *self._kept.values()]
        return next((each.trouble for each in rules if each.trouble), "")

    def pinged(self, troubles: Mapping[str, str | None]) -> bool:
        """Take what one ping of each of its containers said.

        Args:
            troubles: what was wrong with each; None for 200.

        Returns:
            Whether the instance's health is another now.
        """
        before = self.health
        for hostname, rules in self._kept.items():
            rules.pinged(worst({hostname: troubles[hostname]}))
        if self._launched is not None:
            own = {name: each for name, each in troubles.items() if name not in self._kept}
            self._launched.pinged(worst(own))
        return self.health is not before


def worst(troubles: Mapping[str, str | None]) -> str | None:
    """The first trouble, behind its container's host name; None if there is none."""
    for hostname, trouble in troubles.items():
        if trouble is not None:
            return f"{hostname}: {trouble}" if hostname else trouble
    return None
