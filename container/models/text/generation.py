"""One reply of a language model, token by token, between its engine and its client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from partway.container.errors import ModelError
from partway.container.models.text.settings import Sample
from partway.container.models.text.token_scores import TokenScore

if TYPE_CHECKING:
    from partway.container.models.text.row_sampling import RowSampler

#: The reason for a reply's end.
Finish = Literal["stop", "length", "cancelled"]


class Generation(AsyncIterator[list[int]]):
    """One reply as an iterator; each item has the tokens sampled since the last item.

    It is a context manager: leaving it cancels an unfinished reply.

    Args:
        forget: called when the reply is cancelled, so that its engine stops computing it.
        prompt: the tokens of the prompt.
        most: most tokens of the reply.
        sample: the sampling of the reply's tokens.

    Attributes:
        tokens: all tokens of the reply so far, without its end token.
        scores: of each token, if the sampling asks for them.
        row: the row sampler that draws its tokens; None if the engine draws them.
        finish: the reason for the end: the model ended it, it reached ``most``, or it was
            cancelled. It is set before the last item is taken.
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
        self.scores: list[TokenScore] = []
        self.row: RowSampler | None = None
        self.finish: Finish | None = None
        self._taken = 0
        self._error: ModelError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def over(self) -> bool:
        return self.finish is not None or self._error is not None

    def cancel(self, finish: Finish = "cancelled") -> None:
        """End the reply; its cache is freed by the next step.

        Args:
            finish: the reason; ``cancelled`` also ends the iteration at once.
        """
        if not self.over:
            self.finish = finish
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
            # The wait is limited: the engine watches replies that get no tokens.
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

    def extend(
        self, tokens: Sequence[int], finish: Finish | None, scores: Sequence[TokenScore] = ()
    ) -> None:
        self.tokens += tokens
        self.scores += scores
        self.finish = finish
        self._wake()

    def fail(self, error: ModelError) -> None:
        """End with an error; received tokens can still be taken."""
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
