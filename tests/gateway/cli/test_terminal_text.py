"""partway.gateway.cli.terminal_text: a model's words on a terminal, whatever is in them."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.cli.terminal_text import TerminalText

SEQUENCES = [
    "\x1b[2J",  # clears the screen
    "\x1b[31;1m",
    "\x1b[?1049h",
    "\x1b[3 q",  # with an intermediate
    "\x9b2J",  # the same in one character
    "\x1b]0;a title\x07",
    "\x1b]8;;http://evil.example\x1b\\",
    "\x1b]52;c;aGk=\x9c",  # writes the clipboard
    "\x1bP1$r\x1b\\",
    "\x90q\x9c",
    "\x1b(0",  # another character set
    "\x1bc",  # resets the terminal
    "\x1b7",
    "\x9dtitle\x07",
    "\r",
    "\b",
    "\x07",
    "\x0e",
    "\x7f",
    "\x85",
    "\u202e",
    "\u2066",
    "\x1b[1\x1b[2J",  # begins anew in the middle
    "\x1b]0;\x18",  # cancelled
]


def shown(*parts: bytes) -> str:
    text = TerminalText()
    return "".join(
        text.shown(part, ends=number == len(parts)) for number, part in enumerate(parts, 1)
    )


@pytest.mark.parametrize("sequence", SEQUENCES, ids=ascii)
def test_what_steers_is_left_out_whole_wherever_it_is_cut(sequence):
    data = f"a{sequence}b".encode()
    assert shown(data) == "ab"
    for at in range(len(data) + 1):
        assert shown(data[:at], data[at:]) == "ab"
    assert shown(*(data[at : at + 1] for at in range(len(data)))) == "ab"


@pytest.mark.parametrize(
    "text",
    [
        "Grüße,\n\tмир 世界 🌍",
        "\U0001f469\u200d\U0001f467",  # a family: what joins them is no control
        "می\u200cخواهم",
        "[31m is no sequence",
        "cafe\u0301\u00ad",
    ],
    ids=ascii,
)
def test_text_of_any_script_stays(text):
    data = text.encode()
    for at in range(len(data) + 1):
        assert shown(data[:at], data[at:]) == text


def test_a_line_end_ends_what_was_never_ended():
    assert shown(b"\x1b]0;and so on\nnext") == "\nnext"
    assert shown(b"\x1b[12\nnext") == "\nnext"


def test_a_message_ends_what_began_with_it():
    text = TerminalText()
    assert text.shown(b"one\x1b]0;", ends=True) == "one"
    assert text.shown(b"two \xf0\x9f", ends=True) == "two \N{REPLACEMENT CHARACTER}"
    assert text.shown(b"three", ends=True) == "three"


@given(st.lists(st.one_of(st.text(), st.sampled_from(SEQUENCES), st.binary().map(str))), st.data())
def test_nothing_that_steers_ever_comes_through(pieces, data):
    encoded = "".join(pieces).encode("utf-8", "surrogatepass")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(encoded)), max_size=5)))
    edges = [0, *cuts, len(encoded)]
    parts = [encoded[a:b] for a, b in pairwise(edges)]
    text = shown(*parts)
    assert text == shown(encoded)
    assert not {char for char in text if unicodedata.category(char) == "Cc"} - {"\n", "\t"}
