"""What follows from a head alone, worked out once for all that are alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

#: What clients say anew with each request, by headers' names in lower case: when it is sent and by
#: whom it is signed, and what it is called by those who trace it, a gateway among them. Heads are
#: alike that differ in no more than these, their target and the length of their body.
ANEW: Final = frozenset(
    {
        *("amz-sdk-invocation-id", "amz-sdk-request", "authorization", "traceparent"),
        *("x-amz-content-sha256", "x-amz-date", "x-amzn-sagemaker-request-id", "x-amzn-trace-id"),
    }
)

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

    Neither from what those of ANEW say (but whether they are there), nor from a body's length, nor
    from the time, nor from a setting that may change, nor from who sends them or who is there to
    answer: heads are remembered, and requests that are alike share what is known of them. Nobody
    changes what is returned.

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
