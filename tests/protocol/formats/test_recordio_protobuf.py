"""Protobuf records: golden bytes, what is alike and what is not."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import descriptor_pool

from partway.protocol.formats import Batch, Malformed, SparseRows, Tabular, encode
from partway.protocol.formats.record_schema import Record
from partway.protocol.formats.recordio import framed
from tests.protocol.formats.cases import SPARSE, read, refused

RECORDIO = "application/x-recordio-protobuf"
DENSE = bytes.fromhex(
    "0a23d7ce200000000a1e0a0676616c756573121412120a100000c03f00008041000060410000b841"
)
SPARSE_RECORD = bytes.fromhex(
    "0a23d7ce240000000a220a0676616c756573121812160a0c0000803f000080400000803f12030001031a0104"
)


def record(**members: object) -> bytes:
    """A frame, by protobuf's own serializer: ``float32``, ``keys``, ``shape``, ``label`` …"""
    made = Record()
    for kind in ("float32", "float64", "int32"):
        if kind in members:
            tensor = getattr(made.features[str(members.get("name", "values"))], f"{kind}_tensor")
            tensor.values.extend(members[kind])
            tensor.keys.extend(members.get("keys", ()))
            tensor.shape.extend(members.get("shape", ()))
    if "label" in members:
        made.label["values"].float32_tensor.values.extend(members["label"])
    for name in ("uid", "metadata", "configuration"):
        if name in members:
            setattr(made, name, members[name])
    return framed(made.SerializeToString())


def test_golden_bytes():
    features = np.array([[1.5, 16, 14, 23]], np.float32)
    assert encode(Batch(features), RECORDIO) == DENSE
    batch = read(DENSE, RECORDIO)
    assert batch.features.tolist() == features.tolist()
    assert batch.features.dtype == np.float32
    rows = SparseRows(np.array([1, 4, 1], np.float32), np.array([0, 1, 3]), np.array([0, 3]), 4)
    assert encode(Batch(rows), RECORDIO) == SPARSE_RECORD
    batch = read(SPARSE_RECORD, RECORDIO)
    assert batch.dense().tolist() == [[1, 4, 0, 1]]
    assert batch.features.keys.tolist() == [0, 1, 3]


def test_a_bare_record():
    for size in (0, 1, 5):
        assert read(DENSE[8:], RECORDIO, size=size).features.tolist() == [[1.5, 16, 14, 23]]


def test_the_pool_is_our_own():
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("aialgs.data.Record")


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
@pytest.mark.parametrize("labels", [0, 1, 3])
def test_many_that_are_alike(kind, labels):
    features = (np.arange(6000).reshape(1500, 4) * 3).astype(kind)
    label = np.arange(1500 * labels, dtype=np.float32).reshape(1500, labels) if labels else None
    body = encode(Batch(features, label), RECORDIO)
    expected = [
        record(**{kind: row, **({"label": label[number]} if labels else {})})
        for number, row in enumerate(features)
    ]
    assert body == b"".join(expected)
    for size in (0, 999):
        batch = read(body, RECORDIO, size=size)
        assert batch.features.dtype == kind
        assert np.array_equal(batch.features, features)
        assert labels == 0 if batch.labels is None else np.array_equal(batch.labels, label)


def test_those_that_are_not():
    """Records of one length that differ in more than their numbers, among many that do not."""
    plain = [record(float32=[number, 2]) for number in range(40)]
    odd = [
        record(float32=[5, 6], name="feature"),  # longer
        record(float32=[5, 6], name="VALUES"),
        record(float32=[5, 6], uid="a", metadata="b", configuration="c"),
    ]
    assert len(odd[1]) == len(plain[0])
    body = b"".join([*plain, *odd, *plain, *odd[1:2] * 9, *plain])
    batch = read(body, RECORDIO)
    rows = [[float(number), 2.0] for number in range(40)]
    assert batch.features.tolist() == [*rows, *[[5, 6]] * 3, *rows, *[[5, 6]] * 9, *rows]
    assert (batch.uid[42], batch.metadata[42], batch.configurations[42]) == ("a", "b", "c")
    assert [each for each in batch.uid if each] == ["a"]
    assert read(body, RECORDIO, size=33).features.tolist() == batch.features.tolist()


def test_numbers_of_several_types():
    body = record(float32=[1.5, 2]) + record(int32=[16777217, -2]) + record(float64=[0.1, 1])
    batch = read(body, RECORDIO)
    assert batch.features.dtype == np.float64
    assert batch.features.tolist() == [[1.5, 2], [16777217, -2], [0.1, 1]]


def test_sparse_records():
    body = record(float32=[], shape=[2, 3]) + record(float32=[7], keys=[5], shape=[2, 3])
    batch = read(body, RECORDIO)
    assert isinstance(batch.features, SparseRows)
    assert batch.dense().tolist() == [[0] * 6, [0, 0, 0, 0, 0, 7]]
    without = record(float32=[7], keys=[5])
    assert read(without, RECORDIO, Tabular(width=6)).features.tolist() == [[0, 0, 0, 0, 0, 7]]
    assert refused(without, RECORDIO) == (
        "record 0: there are keys without a shape; there must be one: [number of features]"
    )


def test_everything_survives_a_round():
    rows = SparseRows(np.array([1.5, 2.5]), np.array([3, 0]), np.array([0, 2, 2]), 4)
    batch = Batch(
        rows, np.array([[1.0], [2.0]], np.float32), ["a", None], [None, "b"], ["{}", None]
    )
    again = read(encode(batch, RECORDIO), RECORDIO, SPARSE)
    assert again.features.keys.tolist() == [3, 0]
    assert again.features.values.tolist() == [1.5, 2.5]
    assert (again.uid, again.metadata, again.configurations) == (
        ["a", None], [None, "b"], ["{}", None],
    )  # fmt: skip
    assert again.labels.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (framed(b"\xff\xff"), "record 0: the bytes are not a protobuf message; they must be an "),
        (record(), "record 0: features has 0 tensors; it must have one"),
        (record(float32=[1]) + record(float32=[1, 2]), "record 1: the record has 2 features; it "),
        (record(float32=[1], label=[1]) + record(float32=[1]), "record 1: the record has 0 labels"),
        (record(float32=[1, 2], keys=[1], shape=[4]), "record 0: there are 1 keys and 2 values"),
        (
            record(float32=[1], keys=[4], shape=[4]),
            "record 0: keys must be whole numbers from 0 to ",
        ),
        (record(float32=[1, 2], keys=[1, 1], shape=[4]), "record 0: a key appears twice"),
        (
            record(float32=[1, 2], shape=[4]),
            "record 0: there are 2 values for a shape of 4 features",
        ),
        (record(float32=[1]) * 3 + record(float32=[np.nan]), "record 3: feature 0 is NaN or "),
        (b"", "the body has no record"),
        (b"\x0a", "record 0: the bytes are not a protobuf message"),
        (record(float32=[1])[:-1], "record 0: the frame at byte 0 is cut"),
    ],
)
def test_faults(body, reason):
    assert refused(body, RECORDIO).startswith(reason)


def test_features_of_bytes_are_refused():
    made = Record()
    made.features["values"].bytes.value.append(b"jpeg")
    assert refused(framed(made.SerializeToString()), RECORDIO) == (
        "record 0: features: it is not a tensor of numbers; it must be a tensor of float32, "
        "float64 or int32"
    )


def test_sparse_records_are_filled_up_in_bounds():
    body = record(float32=[1], keys=[0], shape=[1 << 20]) * 33
    with pytest.raises(
        Exception, match="the sparse records have more than 33554432 numbers"
    ) as caught:
        read(body, RECORDIO, Tabular(width=1 << 20))
    assert not isinstance(caught.value, Malformed)
    assert len(read(body, RECORDIO)) == 33
