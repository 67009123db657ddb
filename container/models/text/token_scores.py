"""Log probabilities of a reply's tokens, in the form of OpenAI's API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

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
    """The bytes of a tokenizer's tokens, each by itself.

    Args:
        tokenizer: the model's.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        is_byte_level = backend is not None and '"ByteLevel"' in backend.to_str()
        self._bytes = _byte_level() if is_byte_level else None

    def bytes_of(self, token: int) -> bytes:
        name = str(self._tokenizer.convert_ids_to_tokens(token) or "")
        if self._bytes is not None and all(letter in self._bytes for letter in name):
            return bytes(self._bytes[letter] for letter in name)
        if found := _BYTE.fullmatch(name):
            return bytes.fromhex(found[1])
        return name.replace("\u2581", " ").encode()  # SentencePiece's mark for a space

    def members_of(self, token: int, logprob: float) -> dict[str, object]:
        """Return a token as a chat completion lists it; its bytes may be a part of a character."""
        data = list(self.bytes_of(token))
        return {"token": self._text_of(token), "logprob": logprob, "bytes": data}

    def content_of(self, scores: Sequence[TokenScore]) -> dict[str, object]:
        """Return the member ``logprobs`` of a chat completion's choice."""
        content = [
            {
                **self.members_of(score.token, score.logprob),
                "top_logprobs": [self.members_of(*each) for each in score.top],
            }
            for score in scores
        ]
        return {"content": content, "refusal": None}

    def lists_of(self, scores: Sequence[TokenScore]) -> dict[str, object]:
        """Return the member ``logprobs`` of a completion's choice."""
        return {
            "tokens": [self._text_of(score.token) for score in scores],
            "token_logprobs": [score.logprob for score in scores],
            "top_logprobs": [
                {self._text_of(token): logprob for token, logprob in score.top} for score in scores
            ],
        }

    def _text_of(self, token: int) -> str:
        return self.bytes_of(token).decode("utf-8", "replace")


def _byte_level() -> dict[str, int]:
    """Return byte level's alphabet: printable bytes stand for themselves, others come after 255."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(256 + at): byte for at, byte in enumerate(others)}
