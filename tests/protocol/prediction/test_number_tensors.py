"""Tensors of numbers: where they are and how long, beside what Python's own json reads."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.json.strict import NotJson, parsed
from partway.protocol.prediction.number_tensors import TensorFinder

FINDER = TensorFinder("instances")

_NUMBERS = st.sampled_from(
    [
        "0",
        "-0",
        "1",
        "10",
        "1.5",
        "-2.25e-3",
        "1E5",
        "1e999",
        "99999999999999999999",
        "true",
        "null",
        "{}",
    ]
)
_NO_NUMBERS = st.sampled_from(
    [
        "01",
        "1.",
        ".5",
        "-",
        "+",
        "+1",
        "1e",
        "NaN",
        "-Infinity",
        "tru",
        "0x1",
        "1_0",
        "1.5.5",
        "--1",
        "1e5.5",
    ]
)
_BETWEEN = st.sampled_from(["", "", " ", "\n", "\t", "\f", "\0", "\u00a0"])


@st.composite
def arrays(draw, depth=3):
    """The text of an array, now and then of none."""
    inner = depth and not draw(st.integers(0, 2))
    elements = draw(st.lists(arrays(depth=depth - 1) if inner else _NUMBERS, max_size=4))
    if draw(st.integers(0, 9)) == 0:
        elements.append(draw(_NO_NUMBERS))
    between = draw(_BETWEEN)
    return f"[{between}{f',{between}'.join(elements)}{between}]"


_OTHERS = st.sampled_from(
    [
        "",
        ', "parameters": {"k": [1, [2]]}',
        ', "p": "]"',
        ', "instances": [1]',
        ', "a": 1, "a": 1',
        ",",
        "]",
        ', "a": "\\ud800"',
        ', "a": {"instances": [[1]]}',
        ', "b64": {"b64": "A"}',
    ]
)
_BEFORE = st.sampled_from(
    [
        '{"instances": ',
        ' {\n"signature_name":"serving_default" , "instances" :',
        '{"signature_name": "instances", "instances":\t',
        '{"a": 1, "instances": ',
        '{"a": {"instances": ',
        '"instances": ',
        '[{"instances": ',
        "",
    ]
)
_END = st.sampled_from([*["}"] * 6, "}}", "", "} x", "}]"])
_DEEPER = st.builds(
    lambda array, levels: f"{'[' * levels}{array}{']' * levels}",
    arrays(),
    st.sampled_from([0, 0, 0, 1, 3, 5]),
)
BODIES = st.tuples(_BEFORE, _DEEPER, _OTHERS, _END).map("".join)


@st.composite
def harmed(draw):
    """A body in which a character is another one, or gone."""
    body = draw(BODIES)
    at = draw(st.integers(0, len(body) - 1))
    return body[:at] + draw(st.sampled_from(["", *'[]{},:"\\0.-e '])) + body[at + 1 :]


def read(body):
    try:
        return parsed(body)
    except NotJson:
        return None


@given(BODIES | harmed())
def test_the_rest_is_json_where_the_whole_is(body):
    text = body.encode()
    found = FINDER.find(text)
    if found is None:
        return
    array = json.loads(text[found.begin : found.end])
    assert len(array) == found.length
    whole, rest = read(text), read(b"%b0%b" % (text[: found.begin], text[found.end :]))
    assert (whole is None) == (rest is None)
    if whole is not None:
        assert whole == {**rest, "instances": array}


@pytest.mark.parametrize(
    ("array", "length"),
    [
        ("[]", 0),
        ("[ \n]", 0),
        ("[{}]", 1),
        ("[1, -0.5e-7, true, null, { } ]", 5),
        ("[ [1, 2] , [3] ]", 2),
        ("[[[1, 2], []], [], [[3]]]", 3),
        ("[[[[1, 2]], [[3]]]]", 1),
        ("[[%s]]" % ("9" * 5000), 1),
        ("[[[[[1]]]], [ [[[-2.5e1]]] ]]", 2),
        ("[[[[[[[[1, 2], [3, true]]]]]]], [[[[[[[1, 2], [3, {}]]]]]]]]", 2),
        ("[[[[[1]], [[2]], [[3]]]]]", 1),
    ],
)
def test_what_is_found(array, length):
    for before in ('{"instances":', '{ "signature_name" : "a_b" , "instances" :\n'):
        for behind in ("}", ' , "p": [[1]], "s": "]" }'):
            text = f"{before}{array}{behind}".encode()
            assert FINDER.find(text) == (len(before), len(before) + len(array), length)


@pytest.mark.parametrize(
    "array",
    [
        "1",
        "[",
        "[1",
        "[1,]",
        "[[1], 2]",
        "[2, [1]]",
        "[[1, [2]]]",
        "[[], [[1]]]",
        "[[[1], [[2]]]]",
        "[[[[[1], 2]]]]",
        "[[[[[1, 2]], [[3]]]]]",
        "[[[[[1]]], [[[2]], [[3]]]]]",
        "[[[[[1, [2]]]]]]",
        "[[[[[[[[[1]]]]]]]]]",
        "[[[[[01]]]]]",
        '["a"]',
        '[[1], ["a"]]',
        '[{"a": 1}]',
        "[[01]]",
        "[NaN]",
        "[1\u00a0]",
        "[" * 100_000,
        "[[1], %s]" % ("[" * 100_000),
    ],
)
def test_what_is_not(array):
    assert FINDER.find(b'{"instances": %b}' % array.encode()) is None


@pytest.mark.parametrize(
    "before",
    ["", "[", '{"a": ', '{"a": 1, "instances": ', '{"signature_name": "\\"", "instances": '],
)
def test_only_the_first_member_is_looked_at(before):
    assert FINDER.find(before.encode() + b"[1]}") is None


@pytest.mark.parametrize("element", ["1", "0.25", "{}", "[1]"])
def test_numbers_are_not_held(element):
    text = b'{"instances": [%b]}' % ",".join([element] * 100_000).encode()
    FINDER.find(text)
    tracemalloc.start()
    found = FINDER.find(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.length == 100_000
    assert peak < 30 * found.length  # a row is one object of 16 bytes, and has a place in a list


@pytest.mark.parametrize(
    ("array", "effort"),
    [("[1,22,333]", 10 + 48), ("[[1],[2]]", 9 + 3 * 48), ("[[[1]],[[],[2]]]", 16 + 6 * 48)],
)
def test_what_takes_more_effort_is_not_read(array, effort):
    text = b'{"instances":%b}' % array.encode()
    assert FINDER.find(text, effort) == FINDER.find(text) is not None
    assert FINDER.find(text, effort - 1) is None
