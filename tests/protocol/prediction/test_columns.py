"""protocol.prediction.columns: columns to rows and back, beside a model by Python's json."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.prediction.bodies import PredictionFault, read_answer, read_request
from partway.protocol.prediction.columns import as_outputs
from partway.protocol.prediction.model_signature import Signature, TensorSpec
from tests.protocol.prediction.test_bodies import VALUES, written

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4).filter("b64".__ne__)
TABLES = st.integers(1, 4).flatmap(
    lambda rows: st.dictionaries(
        NAMES, st.lists(VALUES, min_size=rows, max_size=rows), min_size=1, max_size=3
    )
)


def by_rows(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@given(TABLES, st.booleans(), st.booleans(), st.booleans())
def test_columns_are_rows_to_a_container_and_columns_again(columns, first, spaced, ascii_only):
    inputs, others = {"inputs": columns}, {"signature_name": "a", "inputs ": [1]}
    body = written(inputs | others if first else others | inputs, spaced, ascii_only)
    found = read_request(body, columns=True)
    rows = by_rows(columns)
    assert json.loads(found.body) == {"instances": rows} | others
    assert (found.instances, found.columns) == (len(rows), True)
    answer = written({"predictions": rows}, spaced, ascii_only)
    assert json.loads(as_outputs(read_answer(answer, len(rows)))) == columns


@given(st.lists(VALUES, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_an_only_tensor_has_no_name(values, spaced, ascii_only):
    found = read_request(written({"inputs": values}, spaced, ascii_only), columns=True)
    assert json.loads(found.body) == {"instances": values}
    alike = all(isinstance(each, dict) and each.keys() == values[0].keys() for each in values)
    if not alike or not values[0] or values[0].keys() == {"b64"}:
        answer = written(values, spaced, ascii_only)
        assert as_outputs(answer) == answer


def test_rows_are_wrapped_unless_they_are_already():
    body = b'{"inputs": {"a": [1, 2], "b": ["x", "y"]}}'
    assert json.loads(read_request(body, columns=True, wrap=True).body) == {
        "instances": [{"data": {"a": 1, "b": "x"}}, {"data": {"a": 2, "b": "y"}}]
    }
    for body in (b'{"inputs": {"data": [1, 2]}}', b'{"inputs": [1, 2]}'):
        assert json.loads(read_request(body, columns=True, wrap=True).body) == {
            "instances": [{"data": 1}, {"data": 2}]
        }


def test_a_signature_is_held_against_columns_as_against_rows():
    two = Signature({"a": TensorSpec("int8"), "b": TensorSpec("string")}, {})
    one = Signature({"a": TensorSpec("int8")}, {})
    for signature, columns, wrap in (
        (two, {"a": [1, 2], "b": ["x", "y"]}, False),
        (two, {"a": [1, 2], "b": ["x", 3]}, False),
        (two, {"a": [1, 2]}, False),
        (one, {"a": [1, 200]}, False),
        (one, {"b": [1, 2]}, False),
        (one, {"data": [1, 200]}, True),
        (one, {"data": [1, 2]}, True),
    ):
        said = []
        for body in ({"inputs": columns}, {"instances": by_rows(columns)}):
            text = json.dumps(body).encode()
            try:
                read_request(text, columns=True, wrap=wrap, signature=signature)
                said.append("")
            except PredictionFault as fault:
                said.append(str(fault))
        assert said[0] == said[1]


def test_numbers_keep_each_of_their_digits():
    digits = b"9" * 5000
    body = b'{"inputs": {"x": [%b, 0.10], "y": [1E5, -0]}}' % digits
    assert read_request(body, columns=True).body == (
        b'{"instances": [{"x": %b, "y": 1E5}, {"x": 0.10, "y": -0}]}' % digits
    )
    assert as_outputs(b'[{"a": %b}, {"a" : 1e999}]' % digits) == b'{"a": [%b, 1e999]}' % digits


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            '{"instances": [1], "inputs": [1]}',
            "the body has both instances and inputs; it must have o",
        ),
        ('{"inputs": 5}', "inputs: a number was given; it must have tensors"),
        ('{"inputs": []}', "inputs: an empty array was given; it must have tensors"),
        ('{"inputs": {}}', "inputs: an object was given; it must have tensors"),
        ('{"inputs": {"b64": "AA"}}', "inputs: an object was given; it must have tensors"),
        (
            '{"inputs": {"x": 5}}',
            "inputs: 'x': a number was given; it must be an array of one value",
        ),
        (
            '{"inputs": {"x": []}}',
            "inputs: 'x': an empty array was given; it must be an array of o",
        ),
        (
            '{"inputs": {"x": [1, 2], "y": [1], "z": [1, 2, 3]}}',
            "inputs: 'y' has 1 values and 'z' 3; there must be one for each instance",
        ),
    ],
)
def test_what_is_refused(body, said):
    with pytest.raises(PredictionFault) as caught:
        read_request(body.encode(), columns=True)
    assert str(caught.value).startswith(said)


def test_names_that_each_instance_has_have_a_bound():
    """A megabyte and a half would become hundreds of gigabytes."""
    rows = 4000
    fits = 16 * 2 * (rows + rows // 20) // rows
    for length in (rows, 10 * rows):
        body = written({"inputs": {"n" * length: [0] * rows}}, spaced=False, ascii_only=True)
        with pytest.raises(PredictionFault, match=f" have {rows * (length + 2)} bytes; they must "):
            read_request(body, columns=True)
    body = written({"inputs": {"n" * fits: [0] * 40_000}}, spaced=False, ascii_only=True)
    tracemalloc.start()
    try:
        assert read_request(body, columns=True).instances == 40_000
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 100 * len(body)


def test_where_they_are_not_read_there_are_no_instances():
    with pytest.raises(PredictionFault, match="instances: missing"):
        read_request(b'{"inputs": [1]}')
