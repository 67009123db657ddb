"""A client's words in a message."""

from __future__ import annotations

import pytest

from partway.protocol.quoted import QUOTED_CHARACTERS, quoted


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("image/png", "'image/png'"),
        ("", "''"),
        ("a\x1b[2J\r\nb", r"'a\x1b[2J\r\nb'"),
        ("é\u202e\udc80", r"'\xe9\u202e\udc80'"),
        ("x" * QUOTED_CHARACTERS, f"'{'x' * QUOTED_CHARACTERS}'"),
        ("x" * 10_000, f"'{'x' * (QUOTED_CHARACTERS - 3)}...'"),
    ],
)
def test_words_are_printable_and_cut(words: str, expected: str) -> None:
    assert quoted(words) == expected
