"""partway.protocol.json_places: values are found where Python's json has them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.json_places import elements_of, kind_of, members_of, place_of
from tests.protocol.test_prediction import VALUES, written

NAMES = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(['"', "\\", "{", "é"])


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.booleans(), st.booleans())
def test_members(value, spaced, ascii_only):
    text = written(value, spaced, ascii_only).decode()
    assert [(name, json.loads(text[at:to])) for name, at, to in members_of(text)] == [
        *value.items()
    ]
    for name, each in value.items():
        begin, end = place_of(text, name)
        assert json.loads(text[begin:end]) == each


@given(st.lists(VALUES, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_elements(value, spaced, ascii_only):
    text = written(value, spaced, ascii_only).decode()
    assert [*map(json.loads, elements_of(text, 0))] == value


def test_kinds():
    values = ([], [1], {}, "", True, None, 1, 0.5)
    said = (
        "an empty array", "an array", "an object", "a string", "a boolean", "null", "a number",
        "a number",
    )  # fmt: skip
    assert [kind_of(each) for each in values] == [f"{each} was given" for each in said]
