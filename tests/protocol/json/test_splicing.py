"""partway.protocol.json.splicing: values are found where Python's json has them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.json.splicing import elements_of, kind_of, members_of, rows_of
from tests.protocol.prediction.test_bodies import VALUES, written

NAMES = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(['"', "\\", "{", "é"])


#: Half of a surrogate pair, which msgspec does not read.
HALF = st.sampled_from(["", "\ud800", "x\udc00"])


@given(st.dictionaries(NAMES, VALUES, max_size=4), HALF, st.booleans())
def test_members(value, half, spaced):
    value = {**value, f"half{half}": half}
    found = members_of(written(value, spaced, ascii_only=True))
    assert [(name, json.loads(bytes(each))) for name, each in found.items()] == [*value.items()]


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.booleans())
def test_members_in_utf_8(value, spaced):
    found = members_of(written(value, spaced, ascii_only=False))
    assert [(name, json.loads(bytes(each))) for name, each in found.items()] == [*value.items()]


@given(st.lists(VALUES, max_size=4), HALF, st.booleans())
def test_elements(value, half, spaced):
    value = [*value, half]
    found = elements_of(written(value, spaced, ascii_only=True))
    assert [json.loads(bytes(each)) for each in found] == value


def test_nothing_within():
    for space in (b"", b" \n"):
        assert dict(members_of(b"{%b}" % space)) == {}
        assert list(elements_of(b"[%b]" % space)) == []


def test_parts_of_parts():
    members = members_of(b'{"a": [1, {"b": [2 ]}]}')
    first, second = elements_of(members["a"])
    assert bytes(first) == b"1"
    assert bytes(members_of(second)["b"]) == b"[2 ]"


@given(st.integers(1, 3), st.integers(1, 600))
def test_rows_are_made_of_columns(width, count):
    columns = [[b"%d.%d" % (column, row) for row in range(count)] for column in range(width)]
    seams = [b"<", *[b"|"] * (width - 1), b">"]
    expected = [b"<%b>" % b"|".join(row) for row in zip(*columns, strict=True)]
    assert b", ".join(rows_of(seams, columns)) == b", ".join(expected)


def test_kinds():
    values = ([], [1], {}, "", True, None, 1, 0.5)
    said = (
        "an empty array", "an array", "an object", "a string", "a boolean", "null", "a number",
        "a number",
    )  # fmt: skip
    assert [kind_of(each) for each in values] == [f"{each} was given" for each in said]
