"""Health rules: conclusions from pings, without clock or socket (clause 1.1-2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from partway.gateway.fleet.status import InstanceHealth


class PingRules:
    """The health of one container according to its pings.

    1. A number of misses in a row makes it unhealthy.
    2. An answer with 200 makes it healthy.
    3. A container that runs outside the gateway and never answered with 200 may have no ``/ping``.
       Its health is unknown, and misses do not count.

    Args:
        missed_allowed: the number of misses in a row that is one too many.
        answered: whether it has answered with 200 before, as an instance in service must have.

    Attributes:
        trouble: what was wrong with the last ping; empty if nothing was.
    """

    def __init__(self, missed_allowed: int, *, answered: bool) -> None:
        self.health = InstanceHealth.HEALTHY if answered else InstanceHealth.UNKNOWN
        self.missed = 0
        self.trouble = ""
        self._allowed = missed_allowed

    def pinged(self, trouble: str | None) -> bool:
        """Take the result of one ping.

        Args:
            trouble: what was wrong; None for 200.

        Returns:
            Whether the health has changed.
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
    """The health of an instance according to the pings of its containers.

    1. Launched containers count together: the worst one decides whether the instance is replaced.
    2. An unhealthy container that runs outside the gateway keeps the instance from taking streams,
       but does not replace it: new containers beside it would mend nothing.
    3. A container written for Vertex AI also only keeps the instance from taking streams. It may be
       unhealthy on purpose, and is never restarted for its health.

    Containers are named by host name, and an only container by an empty one.

    Args:
        missed_allowed: the number of misses in a row that is one too many.
        kept: launched containers that are never restarted for their health (rule 3).
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
        found = [each.health for each in self._kept.values()]
        if InstanceHealth.UNHEALTHY in found:
            return InstanceHealth.UNHEALTHY
        if self._launched is not None:
            return self._launched.health
        return InstanceHealth.UNKNOWN if InstanceHealth.UNKNOWN in found else InstanceHealth.HEALTHY

    @property
    def is_lost(self) -> bool:
        return self._launched is not None and self._launched.health is InstanceHealth.UNHEALTHY

    @property
    def missed(self) -> int:
        return 0 if self._launched is None else self._launched.missed

    @property
    def trouble(self) -> str:
        """The fault of the last ping; empty for a good answer."""
        rules = [*([] if self._launched is None else [self._launched]), *self._kept.values()]
        return next((each.trouble for each in rules if each.trouble), "")

    def pinged(self, troubles: Mapping[str, str | None]) -> bool:
        """Take the result of one ping of each container.

        Args:
            troubles: what was wrong with each; None for 200.

        Returns:
            Whether the instance's health has changed.
        """
        before = self.health
        for hostname, rules in self._kept.items():
            rules.pinged(worst({hostname: troubles[hostname]}))
        if self._launched is not None:
            own = {name: each for name, each in troubles.items() if name not in self._kept}
            self._launched.pinged(worst(own))
        return self.health is not before


def worst(troubles: Mapping[str, str | None]) -> str | None:
    """Return the first trouble, after its container's host name; None without trouble."""
    for hostname, trouble in troubles.items():
        if trouble is not None:
            return f"{hostname}: {trouble}" if hostname else trouble
    return None
