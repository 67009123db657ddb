"""The bytes of tokens, for each kind of tokenizer."""

from __future__ import annotations

import pytest

from partway.container.models.text.token_scores import TokenNames


class Named:
    """A tokenizer whose tokens have these names."""

    def __init__(self, *names: str, decoder: str = "") -> None:
        self._names = names
        self.backend_tokenizer = self
        self._decoder = decoder

    def to_str(self) -> str:
        return self._decoder

    def convert_ids_to_tokens(self, token: int) -> str | None:
        return self._names[token] if token < len(self._names) else None


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a", b"a"),
        ("Ġthe", b" the"),
        ("ðŁĺĢ", "😀".encode()),
        ("ðŁ", b"\xf0\x9f"),
        ("Ċ", b"\n"),
        ("Ń", b"\xad"),
        ("<|end|>", b"<|end|>"),
        ("<|終|>", "<|終|>".encode()),
    ],
)
def test_byte_level(name: str, data: bytes) -> None:
    names = TokenNames(Named(name, decoder='{"decoder":{"type":"ByteLevel"}}'))
    assert names.bytes_of(0) == data


@pytest.mark.parametrize(
    ("name", "data"), [("▁the", b" the"), ("<0xF0>", b"\xf0"), ("é", "é".encode())]
)
def test_pieces_of_words_and_byte_fallback(name: str, data: bytes) -> None:
    assert TokenNames(Named(name)).bytes_of(0) == data


def test_a_token_without_a_name() -> None:
    assert TokenNames(Named()).bytes_of(7) == b""


def test_a_part_of_a_character() -> None:
    names = TokenNames(Named("ðŁ", decoder='"ByteLevel"'))
    expected = {"token": "\ufffd", "logprob": -1.0, "bytes": [0xF0, 0x9F]}
    assert names.members_of(0, -1.0) == expected
