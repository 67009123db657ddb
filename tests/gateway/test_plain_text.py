"""partway.gateway.plain_text: what strangers say, as it may be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.plain_text import cut, safe, safe_lines


@pytest.mark.parametrize(
    "char",
    ["\x1b", "\x00", "\n", "\r", "\x7f", "\x9b", "\u202e", "\u2066", "\ud800", "\ufeff"],
    ids=repr,
)
def test_what_steers_a_terminal_is_replaced(char):
    assert safe(f"a{char}b") == "a\N{REPLACEMENT CHARACTER}b"


def test_letters_of_any_script_stay():
    assert safe("Grüße, мир, 世界 🌍") == "Grüße, мир, 世界 🌍"


@given(st.text(st.characters(codec=None)))
def test_whatever_is_said_is_one_printable_line(text):
    assert safe(text).isprintable()
    assert len(safe(text)) == len(text)


def test_lines_keep_their_columns_and_the_last_ones_are_kept():
    text = "first\n\tsecond\x1b[2J\nthird\n\n"
    assert safe_lines(text) == ["first", "    second\N{REPLACEMENT CHARACTER}[2J", "third"]
    assert safe_lines(text, most=1) == ["third"]


@pytest.mark.parametrize(("most", "shown"), [(5, "12345"), (4, "123…"), (1, "…")])
def test_a_long_text_is_cut(most, shown):
    assert cut("12345", most) == shown
