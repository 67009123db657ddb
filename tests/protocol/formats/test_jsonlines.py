"""JSON Lines: an object a line, as AWS's page has them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from partway.protocol.formats import Batch, SparseRows, encode
from tests.protocol.formats.cases import read, refused

LINES = "application/jsonlines"
MUST_BE = '[…], {"COLUMN": …, …}, {"features": […]} or {"data": {"features": {"values": […]}}}'


def test_dense_and_sparse_lines_mix():
    body = (
        b'{"data": {"features": { "keys": [0, 1, 3], "shape": [4], "values": [1, 4, 1] } } }\r\n'
        b'{ "data": { "features": { "values": [ 1.5, 16.0, 14.0, 23.0] } } }\n'
        b'{ "features": [1.5, 16.0, 14.0, 23.0] }\n\n'
    )
    for size in (0, 1, 100):
        for content_type in (LINES, "application/JSONLINES; charset=utf-8", "jsons"):
            batch = read(body, content_type, size=size)
            assert isinstance(batch.features, SparseRows)
            assert batch.dense().tolist() == [[1, 4, 0, 1], [1.5, 16, 14, 23], [1.5, 16, 14, 23]]


def test_what_else_a_record_has():
    body = (
        b'{"features": [1], "configuration": {"k": [true]}, "uid": "a\\u00e4"}\n'
        b'{"features": [2], "metadata": "m"}\n'
    )
    batch = read(body, LINES)
    assert batch.configurations == [{"k": [True]}, None]
    assert (batch.uid, batch.metadata) == (["aä", None], [None, "m"])
    again = read(encode(batch, LINES), LINES)
    assert again.configurations == batch.configurations
    assert (again.uid, again.metadata) == (batch.uid, batch.metadata)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        # As AWS's page has it, a brace too few.
        (b'{"features": [1]}\n{ "data": { "features": { "values": [ 1.5 ] } }\n{"features": [2]}',
         "record 1 (line 2): the line is not JSON: Expecting ',' delimiter at column 48"),
        (b'{"features": [1]\r\n{"features": [1]}',
         "record 0 (line 1): the line is not JSON: Expecting ',' delimiter at column 17"),
        (b'{"features": [1\n2]}', ("record 0 (line 1): the line is not JSON: Expecting ',' "
                                  "delimiter at column 16")),
        (b'{"features": [1]},{"features": [1]}\n{"features": [1\n,2]}',
         "record 0 (line 1): the line is not JSON: Extra data at column 18"),
        (b'{"features": [1]}\n{"features": [1, 2]}',
         "record 1 (line 2): the record has 2 features; it must have 1, as record 0 has"),
        (b'{"features": [1, true]}', ("record 0 (line 1): features[1] is a boolean; it must be a "
                                     "number")),
        (b'{"features": ["1"]}', "record 0 (line 1): features[0] is a string; it must be a number"),
        (b'{"features": [NaN]}', ("record 0 (line 1): the line is not JSON: NaN is not a number in "
                                 "JSON (RFC 8259 §6)")),
        (b'{"features": [1e400]}', "record 0 (line 1): features[0] is too large for float64"),
        (b'{"features": [1], "features": [1]}', "record 0 (line 1): the line is not JSON: an obj"),
        (b'{"features": []}', ("record 0 (line 1): the record has 0 features; it must have 1 to "
                              "2147483647")),
        (b"[1, [2]]", "record 0 (line 1): features[1] is an array; it must be a number"),
        (b"{}", f"record 0 (line 1): an object without members was given; it must be {MUST_BE}"),
        (b"{\"data\": {}}", f"record 0 (line 1): data has 0 tensors; it must have one: {MUST_BE}"),
        (b'{"a": 1, "b": 2}\n{"a": 1}',
         "record 1 (line 2): the columns differ from those of record 0"),
        (b'{"data": {"a": [1], "b": [2]}}',
         f"record 0 (line 1): data has 2 tensors; it must have one: {MUST_BE}"),
        (b'{"features": [1], "uid": 7}', "record 0 (line 1): uid is a number; it must be a string"),
        (b'{"features": {"keys": [0], "values": [1]}}',
         ("record 0 (line 1): there are keys without a shape; there must be one: [number of "
         "features]")),
        (b'{"features": [1]}\n{"features": [\xff]}',
         "record 1 (line 2): the line is not JSON: bytes that are not UTF-8 at column 15"),
        (b'{"features": [1]} \xc3\xa4 x',
         "record 0 (line 1): the line is not JSON: Extra data at column 19"),
        (b'{"features":' + b"[" * 100_000, ("record 0 (line 1): the line is not JSON: it is nested "
                                           "too deeply")),
    ],
)  # fmt: skip
def test_faults(body, reason):
    assert refused(body, LINES).startswith(reason)


def test_rows_and_columns():
    for body in (b"[1, 2]\n[3, 4]\n", b'{"a": 1, "b": 2}\n{"b": 4, "a": 3}\n[3, 4]\n'):
        assert read(body, LINES).features.tolist()[:2] == [[1, 2], [3, 4]]


def test_writing():
    dense = Batch(np.array([[1.5, 2], [3, 4]], np.float32))
    assert encode(dense, LINES) == b'{"features":[1.5,2.0]}\n{"features":[3.0,4.0]}\n'
    rows = SparseRows(np.array([7]), np.array([1]), np.array([0, 1]), 3)
    assert json.loads(encode(Batch(rows), LINES)) == {
        "data": {"features": {"keys": [1], "shape": [3], "values": [7]}}
    }
