"""InstanceRoom: how many discovered instances one gateway has in all."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Protocol

from partway.gateway.discovery.limits import MAX_DISCOVERED
from partway.gateway.fleet.discovered.source import FoundInstances


class _Follower(Protocol):
    def look_soon(self) -> None:
        """Look again: there may be room for more."""


class InstanceRoom:
    """Shares the room for instances among those that follow Services.

    The first follower to ask for room keeps it as long as it has instances for it. Of its own
    instances, those that take streams come first, and then those that had room before.
    """

    def __init__(self) -> None:
        self._taken: dict[_Follower, int] = {}
        self._total = 0
        self._cut: set[_Follower] = set()

    def fitted(
        self, follower: _Follower, found: FoundInstances, known: Collection[str]
    ) -> FoundInstances:
        """Return what is found without the instances that there is no room for.

        Args:
            known: the keys of those that had room before.
        """
        given, before = found.instances, self._taken.get(follower, 0)
        room = MAX_DISCOVERED - self._total + before
        self._cut.discard(follower)
        if len(given) > room:
            best = sorted(given, key=lambda each: (not each.takes_streams, each.key not in known))
            kept = best[:room]
            why = (
                f"{len(given) - room} of {len(given)} instances are left out: a gateway follows at "
                f"most {MAX_DISCOVERED}"
            )
            trouble = "; ".join(filter(None, (found.trouble, why)))
            found = replace(found, instances=tuple(kept), trouble=trouble)
            self._cut.add(follower)
        self._take(follower, len(found.instances) - before)
        return found

    def leave(self, follower: _Follower) -> None:
        """Free the room of a follower that has ended."""
        self._cut.discard(follower)
        self._take(follower, -self._taken.get(follower, 0))
        self._taken.pop(follower, None)

    def _take(self, follower: _Follower, more: int) -> None:
        self._taken[follower] = self._taken.get(follower, 0) + more
        self._total += more
        if more < 0:
            for each in self._cut - {follower}:
                each.look_soon()
