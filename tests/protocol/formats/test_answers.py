"""Answers in each format, as AWS's page has them for k-means."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from partway.protocol.formats import (
    ANSWER_TYPES,
    AnswerColumns,
    UnsupportedMedia,
    encode_answers,
)
from partway.protocol.formats.record_schema import Record
from partway.protocol.formats.recordio import RecordIOReader

TWO = AnswerColumns(
    {"closest_cluster": np.array([5, 2]), "distance_to_cluster": np.array([36.5, 90.3])},
    uid=["abc123", None],
    metadata=[None, "{}"],
)
PROJECTED = AnswerColumns({"projection": np.array([[5.0, 1], [2, 2]])}, "projections")

#: One Record per instance: label {closest_cluster: [5.0], distance_to_cluster: [36.5]}.
GOLDEN = (
    "0a23d7ce 46000000 121b 0a0f 636c6f736573745f636c7573746572 1208 1206 0a04 0000a040"
    "121f 0a13 64697374616e63655f746f5f636c7573746572 1208 1206 0a04 00001242"
    "1a06 616263313233 0000"
)


@pytest.mark.parametrize(
    ("answers", "media_type", "body"),
    [
        (TWO, "application/json",
         (b'{"predictions": [{"closest_cluster": 5, "distance_to_cluster": 36.5}, '
         b'{"closest_cluster": 2, "distance_to_cluster": 90.3}]}')),
        (TWO, "application/jsonlines",
         (b'{"closest_cluster": 5, "distance_to_cluster": 36.5}\n'
         b'{"closest_cluster": 2, "distance_to_cluster": 90.3}\n')),
        (TWO, "text/csv", b"5,36.5\n2,90.3\n"),
        (PROJECTED, "application/json",
         b'{"projections": [{"projection": [5.0,1.0]}, {"projection": [2.0,2.0]}]}'),
        (PROJECTED, "text/csv", b"5.0,1.0\n2.0,2.0\n"),
        (AnswerColumns({"a%s\"": np.array([1], np.int32)}), "application/jsonlines",
         b'{"a%s\\"": 1}\n'),
        (AnswerColumns({"score": np.empty(0)}), "application/json", b'{"predictions": []}'),
    ],
)  # fmt: skip
def test_text(answers, media_type, body):
    assert encode_answers(answers, media_type) == body


def test_one_record_each():
    body = encode_answers(TWO, "application/x-recordio-protobuf")
    golden = bytes.fromhex(GOLDEN)
    assert body[: len(golden)] == golden
    (run,) = RecordIOReader().feed(body[len(golden) :])
    second = Record.FromString(run.tobytes())
    assert second.label["distance_to_cluster"].float32_tensor.values == [np.float32(90.3)]
    assert (second.metadata, second.HasField("uid")) == ("{}", False)


def test_what_is_too_much_for_float32_stays_whole():
    body = encode_answers(
        AnswerColumns({"d": np.array([1e300])}), "application/x-recordio-protobuf"
    )
    assert Record.FromString(body[8:].rstrip(b"\0")).label["d"].float64_tensor.values == [1e300]


def test_one_row_each():
    body = encode_answers(TWO, "application/x-npy")
    assert np.load(io.BytesIO(body)).tolist() == [[5, 36.5], [2, 90.3]]
    assert np.load(io.BytesIO(encode_answers(PROJECTED, "application/x-npy"))).shape == (2, 2)


def test_rows_in_any_order_of_memory():
    rows = np.arange(6.0).reshape(3, 2)
    for each in (rows, np.asfortranarray(rows), np.repeat(rows, 2, axis=1)[:, ::2]):
        body = encode_answers(AnswerColumns({"projection": each}), "application/x-npy")
        assert body == encode_answers(AnswerColumns({"projection": rows}), "application/x-npy")
        assert np.array_equal(np.load(io.BytesIO(body)), rows)


def test_many():
    answers = AnswerColumns({"n": np.arange(10_000), "x": np.arange(20_000.0).reshape(-1, 2)})
    found = json.loads(encode_answers(answers, "application/json"))["predictions"]
    assert [each["n"] for each in found] == [*range(10_000)]
    assert found[-1]["x"] == [19998, 19999]


def test_what_is_the_model_s_fault():
    for columns, why in [
        ({}, "columns"),
        ({"a": np.ones(2), "b": np.ones(3)}, "must have the same length"),
        ({"a": np.ones((1, 1, 1))}, "3 dimensions"),
        ({"a": np.array(["x"])}, "of numbers"),
        ({"a": np.array([np.inf])}, "NaN or infinite"),
    ]:
        with pytest.raises(ValueError, match=why):
            AnswerColumns(columns)


def test_other_formats():
    with pytest.raises(UnsupportedMedia, match=", ".join(ANSWER_TYPES)):
        encode_answers(TWO, "text/libsvm")
