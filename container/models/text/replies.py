"""A reply as text: what its tokens say, up to its end or a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from partway.container.models.text.chat_completions import Usage
from partway.container.models.text.detokenizer import Detokenizer
from partway.container.models.text.generation import Finish, Generation
from partway.container.models.text.stop_strings import Stops


class TextReply:
    """The pieces of one reply.

    Args:
        generation: the reply's tokens, which nobody else takes.
        decode: the text of some tokens.
        stop: strings that end the reply.

    Whoever has one owes it :meth:`close`.

    Attributes:
        finish: why the reply is over; None until the last piece has been taken.
    """

    def __init__(
        self, generation: Generation, decode: Callable[[list[int]], str], stop: Sequence[str]
    ) -> None:
        self._generation = generation
        self._detokenizer = Detokenizer(decode)
        self._stops = Stops(stop)
        self._pieces: list[str] = []
        self.finish: Finish | None = None

    @property
    def usage(self) -> Usage:
        """How many tokens the prompt and the reply so far have."""
        return Usage(len(self._generation.prompt), len(self._generation.tokens))

    @property
    def text(self) -> str:
        """All pieces that have been taken, as one text."""
        return "".join(self._pieces)

    def close(self) -> None:
        """Spend nothing more on the reply; harmless when it is over."""
        self._generation.cancel()

    async def next(self) -> str:
        """The next piece of text, as soon as there is one; the last piece may be empty.

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
        piece = self._stops.add(self._detokenizer.add(tokens))
        if generation.finish is not None and not self._stops.stopped:
            self.finish = generation.finish
            if self.finish != "cancelled":
                piece += self._stops.add(self._detokenizer.flush())
        if self._stops.stopped:
            self.finish = "stop"
            generation.cancel()
        elif self.finish is not None:
            piece += self._stops.flush()
        return piece
