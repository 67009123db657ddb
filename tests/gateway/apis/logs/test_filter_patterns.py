"""partway.gateway.apis.logs.filter_patterns: CloudWatch's terms, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.apis.control.limits import MAX_PATTERN_TERMS
from partway.gateway.apis.logs.filter_patterns import read_pattern
from partway.gateway.apis.logs.inputs import InvalidParameter


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("", ["", "anything"], []),
        ("  ", ["anything"], []),
        ("ERROR", ["ERROR 1", "xERRORx"], ["error", ""]),
        ("ERROR disk", ["disk: ERROR"], ["ERROR", "disk"]),
        ('"out of memory"', ["now out of memory!"], ["out of", "memory"]),
        ('"say \\"no\\""', ['I say "no".'], ["say no"]),
        ("?ERROR ?WARN", ["an ERROR", "a WARN"], ["INFO", ""]),
        ('?ERROR ?"out of"', ["out of it"], ["out"]),
        ("ERROR -retried", ["ERROR"], ["ERROR, retried"]),
        ('-"a b"', ["a", "b"], ["a b"]),
        ("?a -b", ["a"], ["ab", "c"]),
        ("a " * MAX_PATTERN_TERMS, ["a"], ["b"]),
        ("größer_1", ["größer_1"], ["groesser"]),
    ],
)
def test_what_fits(pattern, fits, fits_not):
    fitting = read_pattern(pattern)
    assert [text for text in fits if not fitting(text)] == []
    assert [text for text in fits_not if fitting(text)] == []


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ('{ $.level = "error" }', "it is a pattern of JSON members"),
        ("[ip, user]", "it is a pattern of space-delimited fields"),
        ("%err.r%", "it is a regular expression"),
        ("a.b", "the term that begins with 'a.b' must be in quotes"),
        ('"open', "must be in quotes"),
        ('a"b"', "must be in quotes"),
        ("- a", "must be in quotes"),
        ("?a b", "AWS ignores the ?"),
        (" ".join("abc" for _ in range(MAX_PATTERN_TERMS + 1)), "it has more than 32 terms"),
        (" ".join("?a" for _ in range(MAX_PATTERN_TERMS + 1)), "it has more than 32 terms"),
    ],
)
def test_what_is_refused(pattern, said):
    with pytest.raises(InvalidParameter, match="Invalid filter pattern: ") as refused:
        read_pattern(pattern)
    assert said in refused.value.message


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_a_pattern_or_refused(pattern, message):
    try:
        fits = read_pattern(pattern)
    except InvalidParameter:
        return
    assert fits(message) in (True, False)
