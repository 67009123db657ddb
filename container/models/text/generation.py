"""One reply of a language model, token by token: what its engine puts in, and its client takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Literal, Self

from partway.container.errors import ModelError
from partway.container.models.text.settings import Sample

#: Why a reply is over.
Finish = Literal["stop", "length", "cancelled"]


class Generation(AsyncIterator[list[int]]):
    """One reply: its tokens as they are sampled, in each item those since the last one.

    A context manager: leaving it cancels what is not finished.

    Args:
        forget: called when the reply is cancelled, so that its engine spends nothing more on it.
        prompt: the prompt's tokens.
        most: how many tokens the reply may have.
        sample: how tokens are chosen.

    Attributes:
        prompt: the prompt as it was given; ``most`` and ``sample`` likewise.
        tokens: all tokens of the reply so far, without the one that ended it.
        finish: why the reply is over: the model ended it, it is long enough, or was cancelled. Set
            before the last item is taken.
    """

    def __init__(
        self,
        forget: Callable[[Generation], None],
        prompt: Sequence[int],
        most: int,
        sample: Sample,
    ) -> None:
        self._forget = forget
        self.prompt = list(prompt)
        self.most = most
        self.sample = sample
        self.tokens: list[int] = []
        self.finish: Finish | None = None
        self._taken = 0
        self._error: ModelError | None = None
        self._waiter: asyncio.Future[None] | None = None
        #: When the last token came, or it began; ``time.monotonic()``.
        self.moved_at = time.monotonic()

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.finish is not None or self._error is not None

    def cancel(self) -> None:
        """Give the reply up: the iteration ends, and its cache is free with the next step."""
        if not self.over:
            self.finish = "cancelled"
            self._forget(self)
            self._wake()

    async def __anext__(self) -> list[int]:
        while True:
            if self.finish == "cancelled":
                raise StopAsyncIteration
            if self._taken < len(self.tokens):
                new = self.tokens[self._taken :]
                self._taken = len(self.tokens)
                return new
            if self._error is not None:
                raise self._error
            if self.finish is not None:
                raise StopAsyncIteration
            # Not for ever: the engine looks after those that get nothing.
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    # --- For the engine --------------------------------------------------------------------------

    def extend(self, tokens: Sequence[int], finish: Finish | None) -> None:
        """Take new tokens in."""
        self.tokens += tokens
        self.finish = finish
        self.moved_at = time.monotonic()
        self._wake()

    def fail(self, error: ModelError) -> None:
        """End with an error; what has come can still be taken."""
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
