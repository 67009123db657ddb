"""Finding the least loaded member without a scan; ties are decided at random."""

from __future__ import annotations

import random
from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T", bound=Hashable)


class LeastLoaded(Generic[_T]):
    """Members with a count each, ordered by count.

    Args:
        rng: decides between members with the same count.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()  # noqa: S311 (no secret)
        self._by_count: dict[int, list[_T]] = {}
        self._where: dict[_T, tuple[int, int]] = {}  # count, and index among members with the same
        self._least = 0

    def __contains__(self, who: _T) -> bool:
        return who in self._where

    def has(self, who: _T, count: int) -> None:
        """Set a member's count; add the member if it is new."""
        where = self._where
        if len(where) == 1:  # a single member needs no comparison
            if who in where:
                where[who] = count, 0
                return
            ((only, (least, _)),) = where.items()
            self._by_count, self._least = {least: [only]}, least
        elif who in where:
            self._take_out(who)
        same = self._by_count.setdefault(count, [])
        where[who] = count, len(same)
        same.append(who)
        if len(where) == 1 or count < self._least:
            self._least = count
        else:
            self._find_least()

    def choose(self, but: Collection[_T] = ()) -> _T | None:
        """Return a member with the least count, at random; None if no member is left."""
        if len(self._where) <= 1:
            return next((each for each in self._where if each not in but), None)
        same = self._by_count[self._least]
        if not but:
            return same[self._rng.randrange(len(same))] if len(same) > 1 else same[0]
        for count in sorted(self._by_count):
            others = [each for each in self._by_count[count] if each not in but]
            if others:
                return self._rng.choice(others)
        return None

    def _take_out(self, who: _T) -> None:
        count, place = self._where.pop(who)
        same = self._by_count[count]
        last = same.pop()
        if last != who:
            same[place] = last
            self._where[last] = count, place
        if not same:
            del self._by_count[count]

    def _find_least(self) -> None:
        # Counts change by one, so the next count is usually present and no search is needed.
        if self._least not in self._by_count:
            beside = self._least + 1
            there = beside in self._by_count
            self._least = beside if there else min(self._by_count)
