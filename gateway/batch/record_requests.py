"""One request of a job, with its retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from partway.gateway.batch.answer_types import WholeAnswer
from partway.gateway.batch.limits import ANSWER_BYTES, RETRY_FACTOR, RETRY_PAUSE
from partway.gateway.batch.model import (
    AskFailed,
    ModelAnswer,
    NoInstanceNow,
    RequestBody,
    TransformModel,
)
from partway.gateway.batch.options import TransformOptions
from partway.gateway.containers.answers import AnswerHead
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause
from partway.protocol.http.content_codings import CONTENT_ENCODING, CodingFault, decoded, is_coded

_T = TypeVar("_T")

#: Characters of a coding's name that a message repeats.
_SHOWN: Final = 64


class Requests:
    """Sends requests to a model with the retries of a job's ``ModelClientConfig``."""

    def __init__(self, model: TransformModel, options: TransformOptions, clock: Clock) -> None:
        self._model = model
        self._retries = options.max_retries
        self._clock = clock

    async def whole(self, body: RequestBody) -> WholeAnswer:
        """Send a request, and return the whole answer.

        Raises:
            AskFailed: no try has an answer.
            AskFailed: the answer's content coding cannot be undone.
            ModelGone: the model is gone.
        """
        return await self.answered(body, _whole)

    async def answered(self, body: RequestBody, take: Callable[[ModelAnswer], Awaitable[_T]]) -> _T:
        """Send a request until one answer is whole; pass each answer to ``take``.

        Args:
            take: takes an answer; it discards the part of an earlier answer that broke off.

        Returns:
            The result of ``take``.

        Raises:
            AskFailed: no try has an answer.
            ModelGone: the model is gone.
        """
        tried = 0
        while True:
            try:
                return await self._model.ask(body, take)
            except NoInstanceNow:
                await self._model.there()
            except AskFailed as error:
                if not error.passing or tried == self._retries:
                    raise AskFailed(f"{error}{_tries(tried)}") from None
                await pause(self._clock, RETRY_PAUSE * RETRY_FACTOR**tried)
                tried += 1


def check_uncoded(head: AnswerHead) -> None:
    """Raise AskFailed if an answer that is passed on unchanged has a content coding."""
    coding = head.headers.get(CONTENT_ENCODING, "")
    if is_coded(coding):
        raise AskFailed(
            f"the container's answer has the Content-Encoding {coding[:_SHOWN]!r}; it must "
            "have none if MaxPayloadInMB is 0"
        )


async def _whole(answer: ModelAnswer) -> WholeAnswer:
    headers = (await answer.head()).headers
    body = await _body(answer)
    coding = headers.get(CONTENT_ENCODING, "")
    if is_coded(coding):
        try:
            body = await asyncio.to_thread(decoded, body, coding, ANSWER_BYTES)
        except CodingFault as fault:
            raise AskFailed(f"the container's answer: {fault}") from None
    return WholeAnswer(body, headers.get("Content-Type", ""))


async def _body(answer: ModelAnswer) -> bytes:
    said = await answer.read()
    if not (more := await answer.read()):
        return said  # the usual case
    whole = bytearray(said)  # A list would hold an object for each byte that comes by itself.
    while more:
        whole += more
        if len(whole) > ANSWER_BYTES:
            raise AskFailed(f"the container's answer has more than {ANSWER_BYTES} bytes")
        more = await answer.read()
    return bytes(whole)


def _tries(tried: int) -> str:
    return f" (the last of {tried + 1} tries)" if tried else ""
