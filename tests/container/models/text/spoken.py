"""Replies whose tokens are code points, let out by a test, and a tokenizer of them."""

from __future__ import annotations

from partway.container.errors import ModelError
from partway.container.models.text.generation import Finish, Generation
from partway.container.models.text.replies import TextReply
from partway.container.models.text.settings import Sample
from partway.container.models.text.token_scores import TokenScore


class Letters:
    """A tokenizer without an alphabet of bytes: each code point is a token."""

    def convert_ids_to_tokens(self, token: int) -> str:
        return chr(token)


class Said(Generation):
    """An engine's reply whose tokens are code points, let out by the test."""

    def __init__(self, prompt: str) -> None:
        super().__init__(lambda _: None, list(map(ord, prompt)), 100, Sample())

    def say(self, text: str, finish: Finish | None = None, *, scored: bool = False) -> None:
        tokens = list(map(ord, text))
        scores = [TokenScore(token, -0.5, ((token, -0.5),)) for token in tokens]
        self.extend(tokens, finish, scores if scored else ())

    def reply(self, *stop: str) -> TextReply:
        return TextReply(self, lambda tokens: "".join(map(chr, tokens)), stop)


class Spoken(TextReply):
    """A reply that says its pieces as they are asked for."""

    def __init__(
        self,
        generation: Said,
        pieces: tuple[str, ...],
        finish: Finish | ModelError,
        *,
        scored: bool,
    ) -> None:
        super().__init__(generation, lambda tokens: "".join(map(chr, tokens)), ())
        self._said = generation
        self._to_say = list(pieces)
        self._end = finish
        self._is_scored = scored

    async def next(self) -> str:
        if self._to_say:
            self._said.say(self._to_say.pop(0), scored=self._is_scored)
        elif isinstance(self._end, ModelError):
            self._said.fail(self._end)
        else:
            self._said.say("", self._end)
        return await super().next()


def spoken(
    *pieces: str,
    prompt: str = "p",
    finish: Finish | ModelError = "stop",
    scored: bool = False,
) -> TextReply:
    """A reply of these pieces and an empty one, which has the end."""
    return Spoken(Said(prompt), pieces, finish, scored=scored)
