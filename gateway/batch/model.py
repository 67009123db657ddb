"""The model as a job sees it: requests, answers and failures."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol, TypeAlias, TypeVar

from partway.gateway.batch.limits import FAILURE_BYTES
from partway.gateway.containers.answers import AnswerHead
from partway.gateway.plain_text import cut, safe_lines

#: A request's body: bytes, or a function that makes a new stream of chunks for each try.
RequestBody: TypeAlias = bytes | Callable[[], AsyncGenerator[bytes, None]]

_T = TypeVar("_T")


class AskFailed(Exception):
    """A request has no answer; the message gives the reason in the container's own words.

    Args:
        passing: whether a retry may succeed: the container answered 5xx, or broke off.
    """

    def __init__(self, why: str, *, passing: bool = False) -> None:
        super().__init__(why)
        self.passing = passing


class NoInstanceNow(Exception):
    """No instance is in service now; instances are starting, or restarting."""


class ModelGone(Exception):
    """No instance will be in service again; the message says why. The job ends."""


class ModelAnswer(Protocol):
    async def head(self) -> AnswerHead: ...

    async def read(self) -> bytes:
        """Return more of the body; empty at its end.

        Raises:
            AskFailed, ContainerError: the answer broke off.
        """


class TransformModel(Protocol):
    @property
    def instances(self) -> int:
        """The number of instances; each takes as many requests at a time as the job allows."""

    async def parameters(self) -> bytes:
        """Return the answer to ``GET /execution-parameters``, or empty bytes.

        Raises:
            ModelGone: the model cannot be reached.
        """

    async def ask(self, body: RequestBody, take: Callable[[ModelAnswer], Awaitable[_T]]) -> _T:
        """Send one request, and return the result of ``take``.

        Raises:
            AskFailed: there is no answer in time.
            NoInstanceNow: no instance is in service.
        """

    async def there(self) -> None:
        """Wait until an instance is in service, at most as long as an instance takes to start.

        Raises:
            ModelGone: no instance will be in service.
        """


def refused(status: int, said: str) -> AskFailed:
    """Return the error for a container's status other than 2xx.

    Args:
        said: the beginning of the body.
    """
    lines = safe_lines(said[:FAILURE_BYTES])
    words = f": {cut(' / '.join(lines), FAILURE_BYTES)}" if lines else ", and said nothing"
    return AskFailed(f"the container answered {status}{words}", passing=status >= 500)


def too_late(seconds: int) -> AskFailed:
    """Return the error for an answer that is late; a retry is not likely to be faster."""
    return AskFailed(
        f"the container has not answered within {seconds} s (InvocationsTimeoutInSeconds)"
    )
