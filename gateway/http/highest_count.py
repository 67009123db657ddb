"""The member with the highest count, found without a look at all members."""

from __future__ import annotations

from typing import Generic, TypeVar

_T = TypeVar("_T")


class Fullest(Generic[_T]):
    """Finds the member with the highest count.

    Counts change often, and the highest is seldom asked for. So changes are sorted in only then.
    """

    def __init__(self) -> None:
        self._counts: dict[_T, int] = {}
        self._by_count: dict[int, dict[_T, None]] = {}
        #: Changes since the last question, in the order of the latest changes.
        self._changed: dict[_T, int] = {}

    def has(self, who: _T, count: int) -> None:
        """Set a member's count; a member with 0 is forgotten."""
        changed = self._changed
        changed.pop(who, None)
        if count or who in self._counts:
            changed[who] = count

    def top(self) -> _T | None:
        """Return the member with the highest count; among equals, the earliest to reach it."""
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
