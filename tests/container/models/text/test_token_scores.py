"""The bytes of tokens, for each kind of tokenizer."""

from __future__ import annotations

import json

import pytest

from partway.container.models.text.token_scores import (
    ContentReport,
    ListsReport,
    TokenNames,
    TokenScore,
)


class Named:
    """A tokenizer whose tokens have these names."""

    def __init__(self, *names: str, decoder: str = "") -> None:
        self._names = names
        self.backend_tokenizer = self
        self._decoder = decoder
        self.asked: list[int] = []

    def to_str(self) -> str:
        return self._decoder

    def convert_ids_to_tokens(self, token: int) -> str | None:
        self.asked.append(token)
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


SCORES = [TokenScore(0, -0.5, ((0, -0.5), (1, -1.25))), TokenScore(1, -2.0), TokenScore(0, -0.5)]


def test_the_name_of_a_token_is_found_once() -> None:
    tokenizer = Named("a", "é")
    TokenNames(tokenizer).content_of(SCORES * 10)
    assert tokenizer.asked == [0, 1]


@pytest.mark.parametrize("cut", range(len(SCORES) + 1))
def test_a_report_is_the_same_however_it_grows(cut: int) -> None:
    names = TokenNames(Named("a", 'é\n"'))
    content, lists = ContentReport(names), ListsReport(names)
    for report in (content, lists):
        report.add(SCORES[:cut])
        report.add(SCORES[cut:])
    assert json.loads(b"".join(content.parts())) == names.content_of(SCORES)
    assert json.loads(b"".join(lists.parts())) == names.lists_of(SCORES)
