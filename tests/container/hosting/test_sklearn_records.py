"""Records for a scikit-learn model, which itself is not needed here: see ``sklearn_check.py``."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest

from partway.container.hosting.sklearn_records import check_readable, read_records
from partway.protocol.formats import MediaFault, OverLimit, UnsupportedMedia
from partway.protocol.limits import MAX_JSON_TABLE_BYTES

CSV, JSON, LINES, NPY = "text/csv", "application/json", "application/jsonlines", "application/x-npy"
NAMES = ["age", "city"]


def npy(value: object) -> bytes:
    content = io.BytesIO()
    np.save(content, np.array(value))
    return content.getvalue()


@pytest.mark.parametrize(
    ("body", "content_type", "rows"),
    [
        ("20,x\n30,y\n", CSV, [[20, "x"], [30, "y"]]),
        ("age,city\n20,x\n", CSV, [[20, "x"]]),
        ('city,"age"\r\nx,20\r\n"a,b",30\r\n', CSV, [[20, "x"], [30, "a,b"]]),
        ("\ufeffcity,age\nx,20\n", CSV, [[20, "x"]]),
        ("20,x", f"{CSV}; header=absent", [[20, "x"]]),
        ("city,age\nx,20", f"{CSV}; header=present", [[20, "x"]]),
        ("1,1\n2,x", CSV, [[1, "1"], [2, "x"]]),
        ('{"instances": [{"city": "x", "age": 20}, {"age": 30, "city": "y"}]}', JSON,
         [[20, "x"], [30, "y"]]),
        ('{"columns": ["city", "age"], "data": [["x", 20]]}', JSON, [[20, "x"]]),
        ('{"inputs": {"city": ["x"], "age": [20]}}', JSON, [[20, "x"]]),
        ('[20, "x"]', JSON, [[20, "x"]]),
        ('["20", "x"]', JSON, [["20", "x"]]),
        ('{"age": 20, "city": "x"}\n\n[30, "y"]\n', LINES, [[20, "x"], [30, "y"]]),
        (npy([20.0, 1.0]), NPY, [[20, 1]]),
        ("1 0:20 1:7", "text/libsvm", [[20, 7]]),
    ],
)  # fmt: skip
def test_rows_of_a_model_that_names_its_columns(body, content_type, rows):
    data = body if isinstance(body, bytes) else body.encode()
    found = read_records(data, content_type, NAMES, 2).rows
    assert [list(row) for row in found] == rows


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("a,b\n1,2\n", [[1, 2]]),
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("x,y\nz,y\n", [["x", "y"], ["z", "y"]]),
        (" 1 , .5\n+2,1e3\n", [[1, 0.5], [2, 1000]]),
    ],
)
def test_csv_of_a_model_without_names(body, rows):
    assert read_records(body.encode(), CSV, None, 2).rows == rows


@pytest.mark.parametrize(
    ("body", "content_type"), [("1,\n,x\n", CSV), ('[[1, null], [null, "x"]]', JSON)]
)
def test_a_value_that_is_missing_is_nan(body, content_type):
    (one, nothing), (nothing_either, x) = read_records(body.encode(), content_type, NAMES, 2).rows
    assert (one, x) == (1, "x")
    assert math.isnan(nothing)
    assert math.isnan(nothing_either)


def test_arrays_are_of_floats_or_of_objects():
    assert read_records(b"[[1, null], [2, true]]", JSON, None, None).array().dtype == np.float64
    mixed = read_records(b'[[1, "x"], [2, "y"]]', JSON, None, None).array()
    assert (mixed.dtype, mixed.tolist()) == (np.dtype(object), [[1, "x"], [2, "y"]])


def test_texts_alone():
    for body, content_type in (
        ('{"instances": ["a", "b"]}', JSON),
        ('["a", "b"]', JSON),
        ('"a"\n"b"\n', LINES),
        ("a\nb\n", CSV),
    ):
        records = read_records(body.encode(), content_type, None, None)
        assert records.are_texts
        assert records.rows == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        ("", CSV, "the body has no record"),
        ("age,city\n", f"{CSV}; header=present", "the body has no record"),
        ("1,x\n2", CSV, "record 1: the record has 1 features; it must have 2, as record 0 has"),
        ("1,x,y", CSV, "record 0: the record has 3 features; it must have 2, as the model was fi"),
        ('1,"x', CSV, "the body is not CSV: unexpected end of data"),
        ("town,age\nx,1", CSV, "the column 'city' is missing; the columns must be age, city"),
        (b"\xff", CSV, "the body is not UTF-8 at byte 0"),
        ("{", JSON, "the body is not JSON: "),
        (
            '[{"age": 1}]',
            JSON,
            "record 0: the column 'city' is missing; the columns must be age, c",
        ),
        ("7", JSON, "a number was given; it must be [[…], …]"),
        (
            "[[1, [2]]]",
            JSON,
            "record 0: features[1] is an array; it must be a number, a string, a ",
        ),
        (
            '[1, 2]\n{"a": \n',
            LINES,
            "record 1 (line 2): the line is not JSON: Expecting value at c",
        ),
        (b"x", NPY, "the body must begin as .npy files do"),
    ],
)
def test_bodies_that_do_not_fit(body, content_type, reason):
    with pytest.raises(MediaFault) as raised:
        read_records(body if isinstance(body, bytes) else body.encode(), content_type, NAMES, 2)
    assert raised.value.status == 400
    assert raised.value.reason.startswith(reason)


def test_types_that_are_not_read():
    for content_type in ("image/png", "text/csv; header=perhaps"):
        with pytest.raises(UnsupportedMedia):
            check_readable(content_type)


def test_json_is_bounded():
    with pytest.raises(OverLimit):
        read_records(b" " * (MAX_JSON_TABLE_BYTES + 1), JSON, None, None)


@pytest.mark.parametrize(
    ("body", "complaint", "place"),
    [
        (
            b"1,2\n3,abc\n",
            "could not convert string to float: 'abc'",
            "such value: record 1, features[1]",
        ),
        (b"1,2\n3,\n", "Input X contains NaN.", "missing value: record 1, features[1]"),
        (b"x,2\ny,\n", "Input X contains NaN.", "missing value: record 1, features[1]"),
        (b"x,1\ny,1e999\n", "Input X contains infinity.", "infinite value: record 1, features[1]"),
    ],
)
def test_the_place_of_a_value_that_is_complained_about(body, complaint, place):
    records = read_records(body, f"{CSV}; header=absent", None, 2)
    assert records.place_of(complaint) == f"the first {place}"


@pytest.mark.parametrize("complaint", ["Found unknown categories ['x']", "Input X contains NaN."])
def test_no_place_where_no_value_is_of_the_kind(complaint):
    assert read_records(b"x,2\n", CSV, None, 2).place_of(complaint) is None
