"""Patches of the two RFCs, and bodies that are none of what is read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.control.errors import SerializationException
from partway.gateway.kubernetes.errors import (
    BadKubernetesRequest,
    InvalidObject,
    PatchTypeUnsupported,
)
from partway.gateway.kubernetes.limits import MAX_PATCH_OPERATIONS
from partway.gateway.kubernetes.patches import (
    JSON_PATCH,
    MERGE_PATCH,
    applied_object,
    merged,
    patched,
    read_object,
)

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


def made(operations, live=None):
    return patched(JSON_PATCH, json.dumps(operations).encode(), live or {"a": {"b": [1, 2]}})


def test_a_json_patch():
    operations = [
        {"op": "test", "path": "/a/b/0", "value": 1},
        {"op": "add", "path": "/a/b/-", "value": 3},
        {"op": "move", "from": "/a/b/0", "path": "/c"},
        {"op": "replace", "path": "/a/b/0", "value": {"x/y": 1}},
        {"op": "remove", "path": "/a/b/0/x~1y"},
    ]
    assert made(operations) == {"a": {"b": [{}, 3]}, "c": 1}


@pytest.mark.parametrize(
    ("operations", "error"),
    [
        ([{"op": "test", "path": "/a", "value": 1}], InvalidObject),
        ([{"op": "remove", "path": "/none"}], InvalidObject),
        ([{"op": "add", "path": "a", "value": 1}], InvalidObject),
        ([{"op": "add", "path": 3, "value": 1}], InvalidObject),
        ([{"op": "add", "path": "/a"}], InvalidObject),
        ([{"op": "replace", "path": "", "value": 3}], SerializationException),
        ([{"op": "copy", "from": "/a", "path": "/b"}], BadKubernetesRequest),
        ({"op": "add"}, BadKubernetesRequest),
        ([3], BadKubernetesRequest),
        ([{"op": ["add"], "path": "/a"}], BadKubernetesRequest),
        ([{"op": {}}], BadKubernetesRequest),
        ([{"op": "remove", "path": "/a"}] * (MAX_PATCH_OPERATIONS + 1), BadKubernetesRequest),
        (
            [{"op": "add", "path": "/a" * depth, "value": {}} for depth in range(1, 100)],
            SerializationException,
        ),
    ],
)
def test_a_json_patch_that_does_not_fit(operations, error):
    with pytest.raises(error):
        made(operations)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)
POINTERS = st.lists(st.sampled_from(["a", "b", "c", "0", "-", "~0"]), max_size=3).map(
    lambda each: "".join(f"/{name}" for name in each)
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "test"]), "path": POINTERS},
    optional={"value": VALUES, "from": POINTERS},
)


@given(OBJECTS, st.lists(OPERATIONS, max_size=4))
def test_a_json_patch_leaves_an_object_or_is_refused(live, operations):
    before = json.dumps(live)
    try:
        result = made(operations, live)
    except (InvalidObject, BadKubernetesRequest, SerializationException):
        result = {}
    assert isinstance(result, dict)
    assert json.dumps(live) == before


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_is_done_once(live, patch):
    once = patched(MERGE_PATCH, json.dumps(patch).encode(), live)
    assert patched(MERGE_PATCH, json.dumps(patch).encode(), once) == once


@pytest.mark.parametrize("content_type", ["application/yaml", "text/plain", "application/jsonx"])
def test_other_types_are_refused_by_name(content_type):
    for read in (
        lambda: read_object(content_type, b"{}"),
        lambda: patched(content_type, b"{}", {}),
    ):
        with pytest.raises(PatchTypeUnsupported) as caught:
            read()
        assert content_type in caught.value.message


def test_what_is_applied_is_json():
    assert applied_object(b' {"a": 1}') == {"a": 1}
    with pytest.raises(PatchTypeUnsupported):
        applied_object(b"a: 1")
    assert read_object("application/json; charset=utf-8", b"") == {}
