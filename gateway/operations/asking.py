"""What an invocation is given, and what it gives: a request, how it is admitted, and an answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

from partway.gateway.containers.answers import AnswerHead
from partway.gateway.containers.container_answer import ContainerAnswer
from partway.gateway.fleet.routing.router import Lease
from partway.gateway.http.connection_admission import Visitor


class Asking(Protocol):
    """A request for a container: an exchange's, or one whose client has its answer already."""

    peer: str
    visitor: Visitor
    request_id: str
    noted: dict[str, str]

    @property
    def stated_length(self) -> int | None:
        """The length of the body, where it is known; None where it is not."""

    @property
    def gathered(self) -> bool:
        """Whether the whole body is there already."""

    def body_at_hand(self, limit: int) -> bytes | None:
        """Return the whole body, of so many bytes at most; None if it has to be waited for."""

    async def body(self, limit: int) -> bytes:
        """Return the whole body, of so many bytes at most."""

    def chunks(self, limit: int) -> AsyncGenerator[bytes, None]:
        """Yield the body as it comes, of so many bytes at most."""

    def let_go_of_body(self) -> None:
        """Hold the body no more; nobody asks for it again."""


@dataclass(frozen=True, slots=True)
class AdmittedAlready:
    """Of a request that does not count as one under way: what holds in place of the settings.

    Attributes:
        most_bytes: of its body.
        within: seconds for the container's answer to begin, and for all of it to come.
    """

    most_bytes: int
    within: float


class Invoked(Protocol):
    """An instance's answer of 2xx, whose body is still to come.

    Attributes:
        lease: the place on the instance.
        head: the answer's.
        answer: whose body is to be taken.
    """

    lease: Lease
    head: AnswerHead
    answer: ContainerAnswer

    def kept_as_stream(self, end: Callable[[], object]) -> None:
        """Note that the answer is a stream from here on, which may take any time.

        The request's time is over, and its body let go of. To be called once, and before anything
        is waited for in the block: the time of a request that has its response is nobody's.

        Args:
            end: called where the instance stops, in place of what ends a request then.
        """
