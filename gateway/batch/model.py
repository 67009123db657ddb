"""Whoever a job asks, as the job knows it: a request, its answer, and what becomes of a failure."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol, TypeAlias, TypeVar

from partway.gateway.batch.limits import FAILURE_BYTES
from partway.gateway.containers.answers import AnswerHead
from partway.gateway.plain_text import cut, safe_lines

#: What a request says: at once, or as it comes and in chunks; made anew for each try.
RequestBody: TypeAlias = bytes | Callable[[], AsyncGenerator[bytes, None]]

_T = TypeVar("_T")


class AskFailed(Exception):
    """A request has no answer; the message says why, with the container's own words.

    Args:
        why: what it says.
        passing: whether another try may fare better: the container has answered 5xx, or broken off.
    """

    def __init__(self, why: str, *, passing: bool = False) -> None:
        super().__init__(why)
        self.passing = passing


class NoInstanceNow(Exception):
    """Nobody is there to be asked: instances are started still, or again."""


class ModelGone(Exception):
    """Nobody will be there any more; the message says why. The job is over."""


class ModelAnswer(Protocol):
    """An answer of 2xx, as it comes."""

    async def head(self) -> AnswerHead:
        """Its head, which has come."""

    async def read(self) -> bytes:
        """More of its body; empty behind its end.

        Raises:
            AskFailed, ContainerError: it broke off.
        """


class TransformModel(Protocol):
    """Answers the requests of a job."""

    @property
    def instances(self) -> int:
        """How many it has, each of which may have as many requests as the job allows."""

    async def parameters(self) -> bytes:
        """What it says to ``GET /execution-parameters``; empty if nothing.

        Raises:
            ModelGone: it cannot be asked.
        """

    async def ask(self, body: RequestBody, take: Callable[[ModelAnswer], Awaitable[_T]]) -> _T:
        """Ask once, and return what ``take`` makes of the answer.

        Raises:
            AskFailed: there is none, or not in time.
            NoInstanceNow: nobody is there.
        """

    async def there(self) -> None:
        """Wait until somebody is there, for as long as an instance takes to start.

        Raises:
            ModelGone: nobody will be.
        """


def refused(status: int, said: str) -> AskFailed:
    """A container's answer that is none of 2xx.

    Args:
        status: its status.
        said: the beginning of its body.
    """
    lines = safe_lines(said[:FAILURE_BYTES])
    words = f": {cut(' / '.join(lines), FAILURE_BYTES)}" if lines else ", and said nothing"
    return AskFailed(f"the container answered {status}{words}", passing=status >= 500)


def too_late(seconds: int) -> AskFailed:
    """An answer that has not come in time; nothing says that the next would."""
    return AskFailed(
        f"the container has not answered within {seconds} s (InvocationsTimeoutInSeconds)"
    )
