"""Filters: what of a record each path selects, and which paths are refused."""

from __future__ import annotations

from typing import Any

import jsonpath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.batch.json_paths import BadFilter, JsonPath, NotSelected

RECORD = {"id": 7, "user_id": "a", "features": [1, 2, 3], "deep": {"x": 1, "y": [{"z": 2}]}}
ROW = ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("path", "record", "selected"),
    [
        ("", RECORD, RECORD),
        ("$", RECORD, RECORD),
        ("$.features", RECORD, [1, 2, 3]),
        ("$.user_id", RECORD, "a"),
        ("$['user_id']", RECORD, "a"),
        ('$["id"]', RECORD, 7),
        ("$.['features']", RECORD, [1, 2, 3]),
        ("$.deep.['x','y']", RECORD, {"x": 1, "y": [{"z": 2}]}),
        ("$.deep.y[0].z", RECORD, 2),
        ("$['id', 'deep']", RECORD, {"id": 7, "deep": RECORD["deep"]}),
        ("$['id','none']", RECORD, {"id": 7}),
        ("$['deep','id']", RECORD, {"deep": RECORD["deep"], "id": 7}),
        ("$['a.[b','c']", {"a.[b": 1, "c": 2}, {"a.[b": 1, "c": 2}),
        ("$.*", {"a": 1, "b": 2}, [1, 2]),
        ("$[*]", ROW, ROW),
        ("$[*]", [], []),
        ("$[1]", ROW, "b"),
        ("$[-1]", ROW, "f"),
        ("$[1:]", ROW, ROW[1:]),
        ("$[:2]", ROW, ["a", "b"]),
        ("$[0,-1]", ROW, ["a", "f"]),
        ("$[0,5:]", ROW, ["a", "f"]),
        ("$[5,:2]", ROW, ["f", "a", "b"]),
        ("$['x,:','y']", {"x,:": 1}, {"x,:": 1}),
        ("$[0:2,4:]", ROW, ["a", "b", "e", "f"]),
        ("$[4:99]", ROW, ["e", "f"]),
        ("$[0:6:2]", ROW, ["a", "c", "e"]),
        ("$[*]['a','b']", [{"a": 1, "c": 2}, {"b": 3}], [{"a": 1}, {"b": 3}]),
        ("$['a','b'].c", {"a": {"c": 1}, "b": {"c": 2}}, [1, 2]),
        ("$[*].a", [{"a": 1}, {"b": 2}, 3], [1]),
        ("$.SageMakerOutput.score", {"SageMakerOutput": {"score": 1}}, 1),
    ],
)
def test_what_a_path_selects(path: str, record: Any, selected: Any) -> None:
    assert JsonPath.of(path).selected(record) == selected


def test_names_are_put_out_in_the_paths_order() -> None:
    assert list(JsonPath.of("$['deep','id']").selected(RECORD)) == ["deep", "id"]


@pytest.mark.parametrize(
    ("path", "end_too"),
    [
        ("$[0:2]", ["a", "b", "c"]),
        ("$[0:-2]", ["a", "b", "c", "d", "e"]),
        ("$[3:-1]", ["d", "e", "f"]),
        ("$[2:]", ["c", "d", "e", "f"]),
        ("$[0,3:4]", ["a", "d", "e"]),
        ("$[3:1:-1]", ["d", "c", "b"]),
        ("$[2:0:-1]", ["c", "b", "a"]),
        ("$[0]", "a"),
    ],
)
def test_the_end_of_a_range_is_in_it_where_that_is_asked_for(path: str, end_too: Any) -> None:
    assert JsonPath.of(path, slices_include_end=True).selected(ROW) == end_too


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("$[6]", "there is no element 6; the number of elements is 6"),
        ("$[0,9]", "there is no element 9; the number of elements is 6"),
        ("$[-7]", "there is no element -7; the number of elements is 6"),
        ("$.name", "'name' is a name, and the value is not an object"),
    ],
)
def test_what_a_row_has_not(path: str, says: str) -> None:
    with pytest.raises(NotSelected) as refused:
        JsonPath.of(path).selected(ROW)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("$.none", "there is no 'none'"),
        ("$['none','neither']", "the record has none of its names"),
        ("$[0]", "0 is a number, and the value is not an array"),
        ("$[1:]", "a range needs an array"),
        ("$.id[*]", "* needs an array or an object"),
        ("$.deep.none[*]", "there is no 'none'"),
    ],
)
def test_what_an_object_has_not(path: str, says: str) -> None:
    with pytest.raises(NotSelected) as refused:
        JsonPath.of(path).selected(RECORD)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("features", "is not a JSONPath"),
        ("$[", "is not a JSONPath"),
        ("$[01]", "is not a JSONPath"),
        ("$..features", "has '..'"),
        ("$[?@.a > 1]", "must be a name, a number, a range or *"),
        ("$[?match(@.a, '(a+)+b')]", "must be a name, a number, a range or *"),
        ("$.a | $.b", "is not a JSONPath"),
        ("$[~]", "is not a JSONPath"),
        ("$." + "a" * 62, "has 64 characters; a filter must have at most 63"),
    ],
)
def test_what_is_refused(path: str, says: str) -> None:
    with pytest.raises(BadFilter) as refused:
        JsonPath.of(path)
    assert says in str(refused.value)


_ENDS = st.none() | st.integers(-4, 4)
_SELECTORS = st.one_of(
    st.integers(-3, 3).map(str),
    st.tuples(_ENDS, _ENDS).map(
        lambda ends: ":".join("" if each is None else str(each) for each in ends)
    ),
    st.sampled_from("ab").map(repr),
    st.just("*"),
)
_PATHS = st.lists(st.lists(_SELECTORS, min_size=1, max_size=3), max_size=3).map(
    lambda segments: "$" + "".join(f"[{', '.join(each)}]" for each in segments)
)
_VALUES = st.recursive(
    st.integers(0, 9),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("abc"), below),
    max_leaves=12,
)


@given(_PATHS, _VALUES)
def test_it_selects_what_the_library_does(text: str, record: Any) -> None:
    """But for the form: names at the end of a path make an object of what they select."""
    path = JsonPath.of(text)
    found = jsonpath.findall(text, record, strict=True)
    try:
        selected = path.selected(record)
    except NotSelected:
        assert not found or "," in text  # one of several numbers
        return
    last = path.segments[-1] if path.segments else ()
    if len(last) > 1 and all(isinstance(each, str) for each in last):
        objects = selected if isinstance(selected, list) else [selected]
        assert [each[name] for each in objects for name in last if name in each] == found
    elif all(len(each) == 1 and isinstance(each[0], str | int) for each in path.segments):
        assert [selected] == found
    else:
        assert selected == found
