"""A job's requests to containers, each with a time limit, on connections of the job's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from partway.gateway.batch.limits import (
    EXECUTION_PARAMETERS_BYTES,
    EXECUTION_PARAMETERS_TIMEOUT,
    FAILURE_BYTES,
)
from partway.gateway.batch.model import ModelAnswer, too_late
from partway.gateway.containers.answers import AnswerHead
from partway.gateway.containers.connections import ContainerConnections
from partway.gateway.containers.container_answer import ContainerAnswer
from partway.gateway.containers.container_requests import ContainerRequest, Destination
from partway.gateway.containers.limits import REFUSAL_BODY_TIMEOUT
from partway.gateway.http.content_codings import decoded_beginning
from partway.gateway.timing.clock import Clock
from partway.protocol.http.content_codings import CONTENT_ENCODING

_T = TypeVar("_T")

#: Makes the error for a status other than 2xx, from the head and the beginning of the body.
Refusal: TypeAlias = Callable[[AnswerHead, bytes], Exception]


class Exchanges:
    """Sends requests and passes on the answers, in few steps, since a job may have millions.

    Args:
        seconds: the limit of request and answer (``InvocationsTimeoutInSeconds``).
    """

    def __init__(self, clock: Clock, seconds: int) -> None:
        self._connections = ContainerConnections(clock)
        self._clock = clock
        self._seconds = seconds

    def close(self) -> None:
        self._connections.close()

    async def ask(
        self,
        there: Destination,
        request: ContainerRequest,
        take: Callable[[ModelAnswer], Awaitable[_T]],
        refusal: Refusal,
        begun: Callable[[ContainerAnswer], object] = lambda _: None,
    ) -> _T:
        """Send a request, and return the result of ``take``.

        Args:
            begun: called with the answer once the request is on its way.

        Raises:
            AskFailed: the answer did not come in time.
            ContainerError: there is no whole answer.
        """
        answer = await self._connections.ask(there, request, self._seconds)
        begun(answer)
        late = self._clock.call_later(self._seconds, self._late, answer)
        try:
            async with answer:
                head = await answer.head()
                if 200 <= head.status < 300:
                    return await take(answer)
                said = await answer.so_far(FAILURE_BYTES, REFUSAL_BODY_TIMEOUT)
                coding = head.headers.get(CONTENT_ENCODING, "")
                raise refusal(head, decoded_beginning(said, coding, FAILURE_BYTES))
        finally:
            late.cancel()

    async def look(self, there: Destination, target: str) -> tuple[int, bytes]:
        """Send a GET; return the status and the beginning of the body.

        Raises:
            ContainerError: there is no answer.
        """
        request = ContainerRequest(target, "", b"", method="GET")
        seconds = EXECUTION_PARAMETERS_TIMEOUT
        async with await self._connections.ask(there, request, seconds) as answer:
            head = await answer.head()
            return head.status, await answer.so_far(EXECUTION_PARAMETERS_BYTES, seconds)

    def _late(self, answer: ContainerAnswer) -> None:
        answer.fail(too_late(self._seconds))
