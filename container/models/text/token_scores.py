"""Log probabilities of a reply's tokens, in the form of OpenAI's API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from partway.container.models.openai_events import json_of

Buffer = bytes | bytearray

#: Tokens whose names are kept, at some 300 bytes each: replies repeat few tokens of a vocabulary.
_NAMES_KEPT: Final = 16_384

#: A token that stands for one byte, in tokenizers with byte fallback.
_BYTE: Final = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token that was taken, and the likeliest ones in its place.

    Attributes:
        logprob: natural logarithm of the probability that the model gave to the token. Options of
            the request have no influence on it.
        top: tokens with their log probabilities, the likeliest first.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class TokenNames:
    """The bytes and texts of a tokenizer's tokens, each by itself. The names of some are kept.

    Args:
        tokenizer: the model's.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        is_byte_level = backend is not None and '"ByteLevel"' in backend.to_str()
        self._bytes = _byte_level() if is_byte_level else None
        self._name = lru_cache(_NAMES_KEPT)(self._find_name)

    def bytes_of(self, token: int) -> bytes:
        name = str(self._tokenizer.convert_ids_to_tokens(token) or "")
        if self._bytes is not None and all(letter in self._bytes for letter in name):
            return bytes(self._bytes[letter] for letter in name)
        if found := _BYTE.fullmatch(name):
            return bytes.fromhex(found[1])
        return name.replace("\u2581", " ").encode()  # SentencePiece's mark for a space

    def members_of(self, token: int, logprob: float) -> dict[str, object]:
        """Return a token as a chat completion lists it; its bytes may be a part of a character."""
        text, data = self._name(token)
        return {"token": text, "logprob": logprob, "bytes": data}

    def entry_of(self, score: TokenScore) -> dict[str, object]:
        """Return a token as an item of ``content`` in a chat completion's ``logprobs``."""
        top = [self.members_of(*each) for each in score.top]
        return {**self.members_of(score.token, score.logprob), "top_logprobs": top}

    def content_of(self, scores: Sequence[TokenScore]) -> dict[str, object]:
        """Return the member ``logprobs`` of a chat completion's choice."""
        return {"content": [self.entry_of(score) for score in scores], "refusal": None}

    def lists_of(self, scores: Sequence[TokenScore]) -> dict[str, object]:
        """Return the member ``logprobs`` of a completion's choice."""
        return {
            "tokens": [self.text_of(score.token) for score in scores],
            "token_logprobs": [score.logprob for score in scores],
            "top_logprobs": [self.top_of(score) for score in scores],
        }

    def top_of(self, score: TokenScore) -> dict[str, float]:
        """Return a token's item of ``top_logprobs`` in a completion's ``logprobs``."""
        return {self.text_of(token): logprob for token, logprob in score.top}

    def text_of(self, token: int) -> str:
        return self._name(token)[0]

    def _find_name(self, token: int) -> tuple[str, list[int]]:
        data = self.bytes_of(token)
        return data.decode("utf-8", "replace"), list(data)


class ContentReport:
    """The member ``logprobs`` of a whole chat completion, as JSON that grows with the reply.

    Serialized at once, the tokens of a long reply would hold up the event loop for a second.
    """

    def __init__(self, names: TokenNames) -> None:
        self._names = names
        self._entries = bytearray()

    def add(self, scores: Sequence[TokenScore]) -> None:
        for score in scores:
            _append(self._entries, self._names.entry_of(score))

    def parts(self) -> list[Buffer]:
        """Return the JSON in parts: copying megabytes takes milliseconds."""
        return [b'{"content":[', self._entries, b'],"refusal":null}']


class ListsReport:
    """The member ``logprobs`` of a whole completion, as JSON that grows with the reply."""

    def __init__(self, names: TokenNames) -> None:
        self._names = names
        self._tokens, self._logprobs, self._top = bytearray(), bytearray(), bytearray()

    def add(self, scores: Sequence[TokenScore]) -> None:
        for score in scores:
            _append(self._tokens, self._names.text_of(score.token))
            _append(self._logprobs, score.logprob)
            _append(self._top, self._names.top_of(score))

    def parts(self) -> list[Buffer]:
        """Return the JSON in parts: copying megabytes takes milliseconds."""
        return [
            *(b'{"tokens":[', self._tokens),
            *(b'],"token_logprobs":[', self._logprobs),
            *(b'],"top_logprobs":[', self._top, b"]}"),
        ]


def _append(items: bytearray, value: object) -> None:
    """Append a value to the items of a JSON array."""
    if items:
        items += b","
    items += json_of(value)


def _byte_level() -> dict[str, int]:
    """Return byte level's alphabet: printable bytes stand for themselves, others come after 255."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(256 + at): byte for at, byte in enumerate(others)}
