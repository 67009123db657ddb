"""CSV: what is a number, where a line has a fault."""

from __future__ import annotations

import numpy as np
import pytest

from partway.protocol.formats import Batch, OverLimit, SparseRows, Tabular, encode
from partway.protocol.limits import MAX_RECORD_BYTES
from tests.protocol.formats.cases import read, refused

CSV = "text/csv"


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (b"1.5,16.0,14,23.0", [[1.5, 16, 14, 23]]),
        (b"1.5,16\r\n-2.0,100.2\r\n\r\n", [[1.5, 16], [-2, 100.2]]),
        (b'"1.5", +16,"14",2.3e1\n-2,.5, 15. ,9.2\n', [[1.5, 16, 14, 23], [-2, 0.5, 15, 9.2]]),
        (b"\xef\xbb\xbf1\n2\n3", [[1], [2], [3]]),
        (b"5", [[5]]),
        (b"1e-400,123456789012345678901234567890", [[0, 1.2345678901234568e29]]),
        (b"0.1000000000000000055511151231257827,9007199254740993", [[0.1, 9007199254740992]]),
    ],
)
def test_lines(body, rows):
    for size in (0, 1, 3):
        batch = read(body, CSV, size=size)
        assert batch.features.tolist() == rows
        assert batch.features.dtype == np.float64
        assert batch.labels is None


def test_leading_columns_are_labels():
    batch = read(b"1,0,5,6\n0,1,7,8\n", "text/CSV; Label_Size=2")
    assert batch.labels.tolist() == [[1, 0], [0, 1]]
    assert batch.features.tolist() == [[5, 6], [7, 8]]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"a,b\n1,2", "record 0 (line 1): column 1 is not a number; "),
        (b"1,2\n3\n", ("record 1 (line 2): the line has 1 columns; it must have 2, one for each "
                      "feature")),
        (b"1,2\n\n3,4\n", "record 1 (line 2): the line is empty; it must be a record"),
        (b"\n1,2", "record 0 (line 1): the line is empty; it must be a record"),
        (b"1,2\r\n\r\n3,4", "record 1 (line 2): the line is empty; it must be a record"),
        (b"1,2\n1,nan\n3", ("record 1 (line 2): feature 1 is NaN or infinite; it must be a finite "
                           "number")),
        (b"1,2\n1,1e400", ("record 1 (line 2): feature 1 is NaN or infinite; it must be a finite "
                          "number")),
        (b"1,,3", "record 0 (line 1): column 2 is not a number; "),
        (b"1,1_0", "record 0 (line 1): column 2 is not a number; "),
        (b"1,[2]", "record 0 (line 1): column 2 is not a number; "),
        (b"1,true", "record 0 (line 1): column 2 is not a number; "),
        ("1,\u0663".encode(), "record 0 (line 1): column 2 is not a number; "),
        (b"", "the body has no record"),
        (b"\n\n", "the body has no record"),
    ],
)  # fmt: skip
def test_faults(body, reason):
    assert refused(body, CSV).startswith(reason)


def test_how_many_columns_there_must_be():
    begin = "record 0 (line 1): the line has 2 columns; it must have"
    reason = refused(b"1,2\n", CSV, Tabular(width=3))
    assert reason == f"{begin} 3, one for each feature"
    reason = refused(b"1,2\n", "text/csv; label_size=2")
    assert reason == f"{begin} more: 2 for labels, then the features"


def test_a_header_is_told_by_its_column():
    assert refused(b"1,b\n1,2", CSV) == (
        "record 0 (line 1): column 2 is not a number; the body must have only numbers, and no "
        "header line"
    )


def test_what_is_not_finite_where_it_may_be():
    batch = read(b"nan,inf\n1,-Infinity\n", CSV, Tabular(finite=False))
    assert str(batch.features.tolist()) == "[[nan, inf], [1.0, -inf]]"


def test_a_line_has_an_end():
    with pytest.raises(OverLimit, match=f"line 1.* longer than {MAX_RECORD_BYTES} bytes") as caught:
        read(b"1" * (MAX_RECORD_BYTES + 1), CSV)
    assert caught.value.status == 413


def test_writing():
    batch = Batch(np.array([[1.5, -2], [0.1, 1e16]]), np.array([[1.0], [0.0]]))
    assert encode(batch, CSV) == b"1.0,1.5,-2.0\n0.0,0.1,1e+16\n"
    assert encode(Batch(np.array([[1, 2]], np.int8)), CSV) == b"1,2\n"
    assert encode(Batch(np.array([[True]])), CSV) == b"1\n"
    assert encode(Batch(np.array([[0.1]], np.float16)), CSV) == b"0.099975586\n"
    rows = SparseRows(np.array([7.0]), np.array([1]), np.array([0, 1, 1]), 3)
    assert encode(Batch(rows), CSV) == b"0.0,7.0,0.0\n0.0,0.0,0.0\n"
