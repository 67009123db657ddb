"""Bodies are JSON objects, bounded before they are parsed."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partway.gateway.apis.aws_json.bodies import members_of
from partway.gateway.apis.control.errors import SerializationException
from partway.gateway.apis.control.limits import MAX_CONTROL_BODY, MAX_JSON_DEPTH, MAX_JSON_VALUES

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=30)
@given(st.dictionaries(st.text(), JSON), st.booleans())
def test_objects_come_as_they_were_sent(members, ascii_only):
    body = json.dumps(members, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert members_of(body) == members


@pytest.mark.parametrize("body", [b"", b"  \r\n", b"{}"])
def test_an_empty_body_is_an_empty_object(body):
    assert members_of(body) == {}


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"{]", b"nul", b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": \xff}', b'{"a": "\xff"}',
        b'{"a": "\\ud800"}', b'{"\\udfff": 1}', b'{"a": "\xed\xa0\x80"}', b'{"a": ' + b"9" * 5000
        + b"}", b'{"a": "\\', b"\xef\xbb\xbf{}", b"{}{}", b"\x00",
    ],
)  # fmt: skip
def test_what_is_no_json_in_utf_8_is_refused(body):
    with pytest.raises(SerializationException, match="must be JSON in UTF-8"):
        members_of(body)


@pytest.mark.parametrize("body", [b"[]", b"1", b'"a"', b"null"])
def test_what_is_no_object_is_refused(body):
    with pytest.raises(SerializationException, match="must be a JSON object"):
        members_of(body)


def test_a_pair_of_surrogates_is_a_character():
    assert members_of(b'{"a": "\\ud83d\\ude00"}') == {"a": "\N{GRINNING FACE}"}


def nested(depth):
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def test_depth_is_bounded():
    assert members_of(nested(MAX_JSON_DEPTH))
    with pytest.raises(SerializationException, match="nested too deeply"):
        members_of(nested(MAX_JSON_DEPTH + 1))
    with pytest.raises(SerializationException, match="nested too deeply"):
        members_of(b"[" * MAX_CONTROL_BODY)


def test_values_are_bounded():
    # The object and the array are values too.
    body = b'{"a":[' + b",".join([b"1"] * (MAX_JSON_VALUES - 1)) + b"]}"
    assert len(members_of(body)["a"]) == MAX_JSON_VALUES - 1
    with pytest.raises(SerializationException, match="too many values"):
        members_of(body[:-2] + b",1]}")


def test_marks_in_strings_do_not_count():
    text = '[{,"\\' * MAX_JSON_VALUES
    assert members_of(json.dumps({"a": text}).encode()) == {"a": text}


@pytest.mark.parametrize(
    "piece", [b'"', b"\\", b'\\"', b'"\\', b'"\\"', b'",', b" ", b"\\\\", b"1", b"e1", b"-"]
)
def test_the_largest_body_costs_one_pass(piece):
    """A scan that begins anew at each quotation mark would take hours."""
    body = b'{"a":' + piece * (MAX_CONTROL_BODY // len(piece))
    began = time.thread_time()
    with pytest.raises(SerializationException):
        members_of(body)
    assert time.thread_time() - began < 5
