"""LibSVM: labels or none, indices from 0 or 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from partway.protocol.formats import (
    Batch,
    CannotWrite,
    SparseRows,
    Tabular,
    UnsupportedMedia,
    decoder_for,
    encode,
)
from tests.protocol.formats.cases import SPARSE, read, refused

LIBSVM = "text/libsvm"


@pytest.mark.parametrize(
    ("body", "labels", "rows"),
    [
        (b"1 0:1.5 3:2\n0 1:-1\n", [[1], [0]], [[1.5, 0, 0, 2], [0, -1, 0, 0]]),
        (b"1 0:1.5 3:2 \r\n0 1:-1 \r\n", [[1], [0]], [[1.5, 0, 0, 2], [0, -1, 0, 0]]),
        (b"1\t3:2  0:1.5 # a comment: 7\n-1", [[1], [-1]], [[1.5, 0, 0, 2], [0, 0, 0, 0]]),
        (b"0:1.5 3:2\n1:-1", None, [[1.5, 0, 0, 2], [0, -1, 0, 0]]),
        (b"# a\n#\n1 3:1.5\n  # 0:7\n0 1:-1\n# b\n", [[1], [0]], [[0, 0, 0, 1.5], [0, -1, 0, 0]]),
        (b"+1 3:.5\n0", [[1], [0]], [[0, 0, 0, 0.5], [0, 0, 0, 0]]),
    ],
)
def test_lines(body, labels, rows):
    for size in (0, 1, 5):
        for wanted in (SPARSE, Tabular(width=4, sparse=True), Tabular(width=4)):
            batch = read(body, "text/x-libsvm", wanted, size=size)
            assert isinstance(batch.features, SparseRows) == wanted.sparse
            assert batch.dense().tolist() == rows
            assert (None if batch.labels is None else batch.labels.tolist()) == labels


@pytest.mark.parametrize(
    ("body", "queries"),
    [
        (b"1 qid:7 0:1.5 3:2\n0 qid:8 1:-1\n", [7, 8]),
        (b"1 qid:7 0:1.5 3:2 # a comment\n0 1:-1\n", [7, None]),
        (b"qid:7 0:1.5 3:2\nqid:123456789012345678 1:-1\n", [7, 123456789012345678]),
    ],
)
def test_records_may_name_their_query(body, queries):
    for size in (0, 1, 5):
        batch = read(body, LIBSVM, size=size)
        assert batch.queries == queries
        assert batch.dense().tolist() == [[1.5, 0, 0, 2], [0, -1, 0, 0]]


def test_queries_are_written_again_where_there_is_a_place_for_them():
    body = b"1.0 qid:7 0:1.5 3:2.0\n0.0 1:-1.0\n"
    batch = read(body, LIBSVM)
    assert encode(batch, LIBSVM) == body
    for media_type in (
        "text/csv",
        "application/json",
        "application/jsonlines",
        "application/x-recordio-protobuf",
        "application/x-npy",
    ):
        with pytest.raises(CannotWrite, match=r"the record has a query's number \(qid\)"):
            encode(replace(batch, labels=None), media_type)


def test_indices_from_1():
    batch = read(b"1 1:5 3:7\n", LIBSVM, Tabular(width=3, index_base=1))
    assert batch.features.tolist() == [[5, 0, 7]]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"1 0:1\nx 0:1", "record 1 (line 2): the label is not a number"),
        (b"1 0:1 1:a", "record 0 (line 1): pair 2 is not <index>:<value>, two numbers"),
        (b"1 0:1 1", "record 0 (line 1): pair 2 is not <index>:<value>, two numbers"),
        (b"1 0:1:2", "record 0 (line 1): pair 1 is not <index>:<value>, two numbers"),
        (b"1 4:1", "record 0 (line 1): pair 1: the index must be a whole number from 0 to 3"),
        (b"1 0.5:1", "record 0 (line 1): pair 1: the index must be a whole number from 0 to 3"),
        (b"1 1e300:1", "record 0 (line 1): pair 1: the index must be a whole number from 0 to 3"),
        (b"1 2:1 2:1", "record 0 (line 1): pair 2: the index appears twice; it must appear once"),
        (b"# a\n1 0:1 # b\n #\n1 9:1", "record 1 (line 4): pair 1: the index must be"),
        (b"1 0:\t1\n", "record 0 (line 1): pair 1 is not <index>:<value>, two numbers"),
        (b"1 0:\r1\n", "record 0 (line 1): pair 1 is not <index>:<value>, two numbers"),
        (b"1,0:1", "record 0 (line 1): pair 1 is not <index>:<value>, two numbers"),
        (b"1 0:1,2", "record 0 (line 1): pair 1 is not <index>:<value>, two numbers"),
        (b" \n1 0:1", "record 1 (line 2): either all lines must have a label or none"),
        (b"1 2:nan", "record 0 (line 1): feature 2 is NaN or infinite; it must be a finite number"),
        (b"1 0:1\n0:1", "record 1 (line 2): either all lines must have a label or none"),
        (b"1 qid:x 0:1", "record 0 (line 1): the query's number (qid) must be a whole number"),
        (b"1 qid: 0:1", "record 0 (line 1): the query's number (qid) must be a whole number"),
        (b"1 qid:1234567890123456789 0:1", "record 0 (line 1): the query's number (qid) must be"),
        (b"1 0:1 qid:7", "record 0 (line 1): pair 2 is a query's number (qid); it must appear"),
        (b"1 qid:7 qid:8 0:1", "record 0 (line 1): pair 1 is a query's number (qid); it must"),
        (b"1 0:1\n\n1 0:1", "record 1 (line 2): the line is empty; it must be a record"),
    ],
)  # fmt: skip
def test_faults(body, reason):
    assert refused(body, LIBSVM, Tabular(width=4, sparse=True)).startswith(reason)


def test_comments_alone_are_no_record():
    assert refused(b"# a\n# b\n", LIBSVM) == "the body has no record"


def test_a_fault_says_how_indices_are_counted():
    reason = refused(b"1 0:1", LIBSVM, Tabular(width=4, index_base=1))
    assert reason.endswith("pair 1: the index must be a whole number from 1 to 4")


def test_dense_records_need_a_width():
    with pytest.raises(UnsupportedMedia, match="neither text/libsvm nor the model states"):
        decoder_for(LIBSVM, Tabular())


def test_writing():
    rows = SparseRows(np.array([1.5, 2, -1]), np.array([0, 3, 1]), np.array([0, 2, 2, 3]), 4)
    body = encode(Batch(rows, np.array([[1], [0], [2]])), LIBSVM)
    assert body == b"1 0:1.5 3:2.0\n0\n2 1:-1.0\n"
    assert encode(Batch(np.array([[0.0, 2.5]])), LIBSVM) == b"0.0 0:0.0 1:2.5\n"
