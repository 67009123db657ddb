"""What follows from a head alone, worked out once for all that are alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

#: What is known of one head, by what it is: as many as there are facts in the code, at most.
Facts: TypeAlias = dict[object, Any]


class HasFacts(Protocol):
    """A head, or an exchange as its head has it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """By case-insensitive names."""

    @property
    def facts(self) -> Facts:
        """What is known of them."""


class Fact(Generic[T]):
    """Something that follows from headers and from nothing else.

    Nobody changes what is returned.

    Args:
        work_out: returns it. What it raises is raised each time, and not remembered.
    """

    __slots__ = ("_work_out",)

    def __init__(self, work_out: Callable[[Mapping[str, str]], T]) -> None:
        self._work_out = work_out

    def of(self, head: HasFacts) -> T:
        """Return it for a head, worked out at the first time."""
        facts = head.facts
        if self in facts:
            known: T = facts[self]
            return known
        fact = facts[self] = self._work_out(head.headers)
        return fact


class KnownHeaders(dict[str, str]):
    """Headers that are sent again and again, by name; nobody changes them.

    Args:
        headers: in their order.

    Attributes:
        lines: the same as HTTP/1.1 has them, each with its end; None until somebody has written
            and checked them, who puts them here.
    """

    __slots__ = ("lines",)

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__(headers)
        self.lines: str | None = None
