"""Who has most of something, found without a look at all who have some."""

from __future__ import annotations

from typing import Generic, TypeVar

_T = TypeVar("_T")


class Fullest(Generic[_T]):
    """Those who have some of a thing, by how many they have.

    How many they have changes often, and who has most is seldom asked: what has changed is put in
    its place then.
    """

    def __init__(self) -> None:
        self._counts: dict[_T, int] = {}
        self._by_count: dict[int, dict[_T, None]] = {}
        #: What has changed since somebody looked, in the order of the last changes.
        self._changed: dict[_T, int] = {}

    def has(self, who: _T, count: int) -> None:
        """Note how many somebody has now; whoever has none is forgotten."""
        changed = self._changed
        changed.pop(who, None)
        if count or who in self._counts:
            changed[who] = count

    def top(self) -> _T | None:
        """Who has most; of several the one that has had so many for longest. None if nobody has."""
        for who, count in self._changed.items():
            self._place(who, count)
        self._changed.clear()
        if not self._by_count:
            return None
        return next(iter(self._by_count[max(self._by_count)]))

    def _place(self, who: _T, count: int) -> None:
        before = self._counts.pop(who, 0)
        if before:
            same = self._by_count[before]
            del same[who]
            if not same:
                del self._by_count[before]
        if count:
            self._counts[who] = count
            self._by_count.setdefault(count, {})[who] = None
