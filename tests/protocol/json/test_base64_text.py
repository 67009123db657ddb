"""Base64, tolerantly read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.json.base64_text import decoded, encoded


@given(st.binary(max_size=100))
def test_there_and_back_with_padding_or_without(data):
    text = encoded(data)
    assert decoded(text) == data
    assert decoded(text.rstrip("=")) == data
    assert decoded(text.replace("+", "-").replace("/", "_")) == data


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("X5ad6u", "5f969dea"),  # the document's own: unpadded, and its tail has bits too many
        ("IA9j4nx", "200f63e27c"),
        ("ASa8asdf", "0126bc6ac75f"),
        ("", ""),
    ],
)
def test_the_documents_samples(text, data):
    assert decoded(text).hex() == data


@pytest.mark.parametrize("text", ["A", "AAAAA", "AA=A", "A A=", "AAA\n", "é===", "A+_A", "===="])
def test_what_is_none(text):
    with pytest.raises(ValueError, match="base64"):
        decoded(text)
