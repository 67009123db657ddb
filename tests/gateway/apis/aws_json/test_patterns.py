"""Patterns of AWS's match here what they match in Java."""

from __future__ import annotations

import sys
import time
import unicodedata

import pytest

from partway.gateway.apis.aws_json.patterns import compiled
from partway.gateway.apis.aws_json.shapes import read_inputs
from tests.gateway.apis.control.operations import OPERATIONS

TAG = r"([\p{L}\p{Z}\p{N}_.:/=+\-@]*)"


def test_categories_of_unicode_are_those_of_every_character():
    every = [chr(point) for point in range(sys.maxunicode + 1)]
    expected = {
        char for char in every if unicodedata.category(char)[0] in "LZN" or char in "_.:/=+-@"
    }
    assert set(compiled(f"{TAG[:-2]})").findall("".join(every))) == expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"\d{2}", "12", True),
        (r"\d{2}", "\N{ARABIC-INDIC DIGIT ONE}\N{ARABIC-INDIC DIGIT TWO}", False),
        (r"[\S]+", "a\N{NO-BREAK SPACE}b", True),
        (r"[\S]+", "a b", False),
        (r".*", "a\tb", True),
        (r".*", "a\nb", False),
        (r".*", "a\rb", False),
        (r".*", "a\u2028b", False),
        (r"[.]", "a", False),
        (r"\.", "a", False),
        (r"[\s\S]+", "a\n\r", True),
        (r"^[a-z]$", "a", True),
        (r"(?!\s*$).+", "  ", False),
        (r"[^/]", "\n", True),
        (r"[a-z]", "a\n", False),
    ],
)  # fmt: skip
def test_matches(pattern, text, expected):
    assert (compiled(pattern).fullmatch(text) is not None) is expected


@pytest.mark.parametrize("pattern", [r"\p{Lu}", r"[\p{L}]", r"[a-z&&[b]]", "(", "[b-a]"])
def test_what_has_no_equal_here_is_an_error(pattern):
    with pytest.raises(ValueError, match="a pattern of AWS's"):
        compiled(pattern)


def test_no_pattern_takes_long_with_any_text_of_the_length_that_is_tried():
    """A pattern that tries all ways to part a text would not come to an end."""
    found = {}

    def walk(shape):
        if shape.pattern is not None:
            assert shape.most is not None
            found[shape.written] = shape
        for inner in (*shape.members.values(), shape.item, shape.key):
            if inner is not None:
                walk(inner)

    for shape in read_inputs("sagemaker", "2017-07-24", OPERATIONS).values():
        walk(shape)
    assert len(found) > 20
    for shape in found.values():
        for piece in ("a", "-", "a-", "0", "/", ".", "+a", "-a.", "\n", "é", " "):
            text = (piece * int(shape.most))[: int(shape.most)]
            for beginning in ("", "s3://", "arn:aws:sagemaker::000000000000:", "a/a", "mig-1g.5gb"):
                began = time.thread_time()
                shape.pattern.fullmatch(beginning + text + "\0")
                assert time.thread_time() - began < 1, (shape.written, piece)
