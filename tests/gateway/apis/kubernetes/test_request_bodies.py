"""Merge patches, whole objects, and bodies of other types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.apis.kubernetes.errors import PatchTypeUnsupported
from partway.gateway.apis.kubernetes.request_bodies import (
    merged,
    read_merge_patch,
    read_object,
)
from tests.gateway.apis.kubernetes.served import MERGE

#: RFC 7386, appendix A, but for those whose result is no object.
EXAMPLES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("live", "patch", "result"), EXAMPLES)
def test_the_rfcs_examples(live, patch, result):
    assert merged(live, patch) == result


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_is_done_once(live, patch):
    once = merged(live, patch)
    assert merged(once, patch) == once


@pytest.mark.parametrize("content_type", ["application/yaml", "text/plain", "application/jsonx"])
def test_other_types_are_refused_by_name(content_type):
    for read in (
        lambda: read_object(content_type, b"{}"),
        lambda: read_merge_patch(content_type, b"{}"),
    ):
        with pytest.raises(PatchTypeUnsupported) as caught:
            read()
        assert content_type in caught.value.message


def test_a_body_is_json_whatever_its_parameters_and_an_empty_one_an_object():
    assert read_object("application/json; charset=utf-8", b"") == {}
    assert read_merge_patch(f"{MERGE}; charset=utf-8", b"") == {}
