"""Signatures that are good for one request of all workers: the parent decides about each."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

from partway.gateway.access.replay_protection import UsedSignatures
from partway.gateway.workers.limits import FORWARD_TIMEOUT
from partway.gateway.workers.messages import SignatureAnswer, UseSignature
from partway.gateway.workers.parent_link import ParentUnavailable
from partway.protocol.errors import InvalidSignature, ServiceUnavailable

_ERRORS: Final = {each.name: each for each in (InvalidSignature, ServiceUnavailable)}


class SignaturesOfParent:
    """The worker's side.

    Args:
        send: sends the parent a message.
        check_up: raises ParentUnavailable while there is no parent.
    """

    def __init__(
        self, send: Callable[[UseSignature], object], check_up: Callable[[], None]
    ) -> None:
        self._send = send
        self._check_up = check_up
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[SignatureAnswer]] = {}

    async def use(self, signature: str, good_until: float) -> None:
        """Use a signature, which must have been verified, until an epoch second.

        Raises:
            InvalidSignature: it has been used, by a request to any process.
            ServiceUnavailable: the parent does not answer, or has no room to remember it.
        """
        self._check_up()
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(FORWARD_TIMEOUT):
                self._send(UseSignature(number, signature, good_until))
                answer = await waiting
        except TimeoutError:
            raise ParentUnavailable(
                "the part of the gateway that knows used signatures does not answer; sign another "
                "request"
            ) from None
        finally:
            del self._waiting[number]
        if answer.error:
            raise _ERRORS[answer.error](answer.message)

    def answered(self, answer: SignatureAnswer) -> None:
        """Take an answer of the parent; a late one has no effect."""
        waiting = self._waiting.get(answer.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)


def signature_answer(used: UsedSignatures, asked: UseSignature, now: float) -> SignatureAnswer:
    """Use a signature for a worker; return the parent's answer.

    Args:
        used: the used ones.
        asked: the worker's message.
        now: epoch seconds.
    """
    try:
        used.use(asked.signature, asked.good_until, now)
    except (InvalidSignature, ServiceUnavailable) as error:
        return SignatureAnswer(asked.number, error.name, error.message)
    return SignatureAnswer(asked.number)
