"""Finding a little loaded member among those whose counts other processes change too."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Hashable
from typing import Final, TypeVar

from partway.gateway.fleet.routing.least_loaded import LeastLoaded

_T = TypeVar("_T", bound=Hashable)

#: Members that are compared, since counts change without notice. Among two the fuller ones already
#: fill much more slowly than by chance (https://doi.org/10.1109/71.963420).
_SAMPLE: Final = 8


class LittleLoaded(LeastLoaded[_T]):
    """Members whose counts other processes change too: the least loaded of a few is chosen.

    Args:
        count_of: returns a member's count now.
        rng: chooses the few.
    """

    def __init__(self, count_of: Callable[[_T], int], rng: random.Random | None = None) -> None:
        super().__init__(rng)
        self._count_of = count_of

    def has(self, who: _T, count: int) -> None:
        """Add the member if it is new."""
        if who not in self:
            super().has(who, 0)

    def choose(self, but: Collection[_T] = ()) -> _T | None:
        """Return a member with a small count; None if no member is left."""
        members = [each for each in self._where if each not in but]
        if not members:
            return None
        few = self._rng.sample(members, min(_SAMPLE, len(members)))
        return min(few, key=self._count_of)
