"""A reply as text, up to its end or a stop string."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from partway.container.models.text.detokenizer import Detokenizer
from partway.container.models.text.generation import Finish, Generation
from partway.container.models.text.stop_strings import Stops
from partway.container.models.text.token_scores import TokenScore


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int


class TextReply:
    """The text pieces of one reply.

    Args:
        generation: the reply's tokens; no other reader may take them.

    Its owner must call :meth:`close`.

    Attributes:
        finish: the reason for the end; None until the last piece has been taken.
    """

    def __init__(
        self, generation: Generation, decode: Callable[[list[int]], str], stop: Sequence[str]
    ) -> None:
        self._generation = generation
        self._detokenizer = Detokenizer(decode)
        self._stops = Stops(stop)
        self._pieces: list[str] = []
        self._taken = 0
        self.finish: Finish | None = None
        self._scores: list[TokenScore] = []

    @property
    def is_cut(self) -> bool:
        """Whether something else than the model has ended the reply: a stop string or a limit."""
        return self.finish != "stop" or self._stops.stopped

    @property
    def usage(self) -> Usage:
        """Token counts of the prompt and the reply so far."""
        return Usage(len(self._generation.prompt), len(self._generation.tokens))

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def take_scores(self) -> list[TokenScore]:
        """Return the scores of the pieces' tokens that were not taken, if the request has any.

        The tokens of a stop string are among them.
        """
        taken, self._scores = self._scores, []
        return taken

    def close(self) -> None:
        """Cancel the reply; no effect when it is over."""
        self._generation.cancel()

    async def pieces(self) -> AsyncGenerator[str]:
        """Yield the pieces of text that have not been taken; the last one may be empty.

        Raises:
            ModelError: the reply failed.
        """
        while self.finish is None:
            yield await self.next()

    async def until_end(self) -> None:
        """Take all pieces.

        Raises:
            ModelError: the reply failed.
        """
        async for _ in self.pieces():
            pass

    async def next(self) -> str:
        """Return the next piece of text; the last piece may be empty.

        Raises:
            ModelError: the reply failed.
        """
        while self.finish is None:
            piece = await self._advance()
            if piece or self.finish is not None:
                self._pieces.append(piece)
                return piece
        return ""

    async def _advance(self) -> str:
        generation = self._generation
        try:
            tokens = await anext(generation)
        except StopAsyncIteration:
            tokens = []
        self._scores += generation.scores[self._taken : self._taken + len(tokens)]
        self._taken += len(tokens)
        piece = self._stops.add(self._detokenizer.add(tokens))
        if generation.finish is not None and not self._stops.stopped:
            self.finish = generation.finish
            if self.finish != "cancelled":
                piece += self._stops.add(self._detokenizer.flush())
        if self._stops.stopped:
            self.finish = "stop"
            generation.cancel("stop")
        elif self.finish is not None:
            piece += self._stops.flush()
        return piece
