"""A reply as text, up to its end or a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from partway.container.models.text.chat_completions import Usage
from partway.container.models.text.detokenizer import Detokenizer
from partway.container.models.text.generation import Finish, Generation
from partway.container.models.text.stop_strings import Stops


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
        self.finish: Finish | None = None

    @property
    def usage(self) -> Usage:
        """Token counts of the prompt and the reply so far."""
        return Usage(len(self._generation.prompt), len(self._generation.tokens))

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def close(self) -> None:
        """Cancel the reply; no effect when it is over."""
        self._generation.cancel()

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
