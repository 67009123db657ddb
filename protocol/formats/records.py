"""Protobuf records ↔ rows of numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from partway.protocol.formats.batches import Batch, Numbers, SparseRows
from partway.protocol.formats.record_schema import TENSORS, Record
from partway.protocol.formats.tensors import TensorRow, tensor_row

#: The usual name of a record's only tensor.
VALUES: Final = "values"


@dataclass(frozen=True, slots=True, eq=False)
class RecordRow:
    row: TensorRow
    labels: Numbers | None
    uid: str | None
    metadata: str | None
    configuration: str | None


def read_record(payload: bytes, width: int | None) -> RecordRow:
    """Read one record; raises ValueError if the bytes are not a record of numbers."""
    record = Record()
    try:
        record.ParseFromString(payload)
    except DecodeError:
        raise ValueError(
            "the bytes are not a protobuf message; they must be an aialgs.data.Record"
        ) from None
    if record.label and not record.features:
        raise ValueError(
            "the record has labels and no features, like a model's answer; it must have features"
        )
    labels = _tensor(record.label, "label", None) if record.label else None
    if labels is not None and labels.keys is not None:
        raise ValueError("label is sparse; it must be dense")
    return RecordRow(
        _tensor(record.features, "features", width),
        None if labels is None else labels.values,
        *(
            getattr(record, name) if record.HasField(name) else None
            for name in ("uid", "metadata", "configuration")
        ),
    )


def _tensor(values: Mapping[str, Any], what: str, width: int | None) -> TensorRow:
    if len(values) != 1:
        raise ValueError(f"{what} has {len(values)} tensors; it must have one")
    (value,) = values.values()
    kind = value.WhichOneof("value")
    for dtype, (member, _, _, _) in TENSORS.items():
        if member == kind:
            tensor = getattr(value, member)
            return tensor_row(
                np.array(tensor.values, dtype),
                np.array(tensor.keys, np.uint64),
                np.array(tensor.shape, np.uint64),
                width,
            )
    raise ValueError(
        f"{what}: it is not a tensor of numbers; it must be a tensor of float32, float64 or int32"
    )


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The byte layout of dense records that differ only in their numbers.

    Attributes:
        template: a record with this layout; its numbers do not matter.
        features: the place of the features in the record.
        labels: the place of the labels; an empty slice if there are none.
    """

    template: NDArray[np.uint8]
    features: slice
    labels: slice
    dtype: np.dtype[Any]
    label_dtype: np.dtype[Any]

    def fitting(self, payloads: NDArray[np.uint8]) -> int:
        """Count the leading rows of bytes that have this layout."""
        if payloads.shape[1] != len(self.template):
            return 0
        last = max(self.features.stop, self.labels.stop)
        between = slice(self.features.stop, self.labels.start or self.features.stop)
        alike = np.ones(len(payloads), np.bool_)
        for part in (slice(self.features.start), between, slice(last, None)):
            alike &= (payloads[:, part] == self.template[part]).all(axis=1)
        return len(alike) if alike.all() else int(alike.argmin())

    def numbers(self, payloads: NDArray[np.uint8]) -> tuple[Numbers, Numbers | None]:
        labels = None
        if self.labels.stop:
            labels = _numbers(payloads, self.labels, self.label_dtype)
        return _numbers(payloads, self.features, self.dtype), labels

    def payloads(self, features: Numbers, labels: Numbers | None) -> NDArray[np.uint8]:
        """Encode numbers of these types as records, one per row of bytes."""
        rows = np.tile(self.template, (len(features), 1))
        rows[:, self.features] = _bytes(features, self.dtype)
        if labels is not None:
            rows[:, self.labels] = _bytes(labels, self.label_dtype)
        return rows


def layout_of(
    width: int, dtype: np.dtype[Any], labels: int, label_dtype: np.dtype[Any]
) -> RecordLayout | None:
    """Return the layout as protobuf writes it; None for integers, whose lengths vary."""
    if dtype.kind != "f" or (labels and label_dtype.kind != "f"):
        return None
    # Bytes that nothing else in a record has: the other values are names, all printable.
    mark = np.frombuffer(b"\xf3" * dtype.itemsize, dtype).repeat(width)
    label_mark = np.frombuffer(b"\xf5" * label_dtype.itemsize, label_dtype).repeat(labels)
    record = bytes(_record(mark, None, width, label_mark if labels else None).SerializeToString())
    features = _place(record, mark.tobytes())
    return RecordLayout(
        np.frombuffer(record, np.uint8),
        features,
        _place(record, label_mark.tobytes()) if labels else slice(0, 0),
        dtype,
        label_dtype,
    )


def written_records(batch: Batch) -> Iterator[bytes]:
    """Yield records of any kind, one by one."""
    for row in range(len(batch)):
        features = batch.features
        keys = None
        if isinstance(features, SparseRows):
            one = features.rows(row, row + 1)
            values, keys = one.values, one.keys
        else:
            values = features[row]
        record = _record(
            values, keys, batch.width, None if batch.labels is None else batch.labels[row]
        )
        for name, kept in (("uid", batch.uid), ("metadata", batch.metadata)):
            if kept is not None and kept[row] is not None:
                setattr(record, name, kept[row])
        configuration = None if batch.configurations is None else batch.configurations[row]
        if configuration is not None:
            is_text = isinstance(configuration, str)
            record.configuration = configuration if is_text else json.dumps(configuration)
        yield bytes(record.SerializeToString(deterministic=True))


def tensor_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which a tensor holds such numbers without loss."""
    for name in (dtype.name, *TENSORS):
        if name in TENSORS and np.can_cast(dtype, name):
            return np.dtype(name)
    return np.dtype(np.float64)  # integers over 2^53 are rounded


def put_tensor(value: Any, numbers: Numbers) -> Any:
    """Store numbers in a ``Value``; return its tensor."""
    dtype = tensor_dtype(numbers.dtype)
    tensor = getattr(value, TENSORS[dtype.name][0])
    tensor.values.extend(numbers.tolist())
    return tensor


def _record(
    values: Numbers, keys: NDArray[np.int64] | None, width: int, labels: Numbers | None
) -> Any:
    record = Record()
    tensor = put_tensor(record.features[VALUES], values)
    if keys is not None:
        tensor.keys.extend(keys.tolist())
        tensor.shape.append(width)
    if labels is not None:
        put_tensor(record.label[VALUES], labels)
    return record


def _place(record: bytes, mark: bytes) -> slice:
    assert record.count(mark) == 1, "a mark is in the record once"
    start = record.index(mark)
    return slice(start, start + len(mark))


def _numbers(payloads: NDArray[np.uint8], place: slice, dtype: np.dtype[Any]) -> Numbers:
    raw = np.ascontiguousarray(payloads[:, place])
    return raw.view(dtype.newbyteorder("<")).astype(dtype, copy=False)


def _bytes(numbers: Numbers, dtype: np.dtype[Any]) -> NDArray[np.uint8]:
    ordered = np.ascontiguousarray(numbers, dtype.newbyteorder("<"))
    return ordered.view(np.uint8).reshape(len(numbers), -1)
