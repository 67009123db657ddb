"""A record in JSON: the schema of an instance, alone on a line or in an array of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from partway.protocol.json_text import parsed
from partway.protocol.media.batches import Batch, SparseRows
from partway.protocol.media.encoding import ROWS_AT_ONCE, CannotWrite
from partway.protocol.media.number_text import json_rows, json_text, packed_rows
from partway.protocol.media.tensors import TensorRow, tensor_row

LAYOUTS: Final = '{"features": […]} or {"data": {"features": {"values": […]}}}'

_KINDS: Mapping[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    float: "a number",
    type(None): "null",
}


@dataclass(frozen=True, slots=True, eq=False)
class JsonRecord:
    """One record of JSON.

    Attributes:
        row: its numbers.
        configuration: its own, as it came; None where it has none.
        uid: whose it is; None where it does not say.
        metadata: what goes with it; None where nothing does.
    """

    row: TensorRow
    configuration: Mapping[str, Any] | None
    uid: str | None
    metadata: str | None


# --- Many at a time ------------------------------------------------------------------------------


def plain_rows(records: list[Any], text: bytes) -> NDArray[np.float64] | None:
    """The features of records that are all dense, alike, equally long, and have nothing else.

    That is how programs write them; :func:`read_instance` reads the others, and finds faults.

    Args:
        records: what a library has made of the text; at least one.
        text: the records, and nothing between them but commas, line ends and spaces.

    Returns:
        (records, width); None where any record is otherwise.
    """
    try:
        if "features" in records[0]:
            rows, names = [each["features"] for each in records], '"features"'
        else:
            names = '"data" "features" "values"'
            rows = [each["data"]["features"]["values"] for each in records]
    except (KeyError, TypeError):
        return None
    # A member that is unknown or comes twice has a name, in quotes, and a string has them too. Of
    # JSON's words these two are numbers to Python.
    for sign in ('"', "u", "l"):
        if _count(text, sign.encode()) != names.count(sign) * len(records):
            return None
    try:
        return packed_rows(rows, len(rows[0])) if rows[0] else None
    except (struct.error, TypeError):
        return None


def _count(text: bytes, sign: bytes) -> int:
    """As often as a byte that is rare; ``bytes.count`` looks at each byte by itself."""
    return len(text) - len(text.replace(sign, b""))


# --- One at a time -------------------------------------------------------------------------------


def read_instance(text: bytes, width: int | None) -> JsonRecord:
    """Read one record.

    Args:
        text: the record alone.
        width: how wide records must be, where that is known.

    Raises:
        NotJson: the text is not JSON.
        ValueError: the text is no record.
    """
    members = _members(
        _object(parsed(text)), "features", "data", "configuration", "uid", "metadata"
    )
    if ("features" in members) == ("data" in members):
        raise ValueError(f"the record must have either features or data: {LAYOUTS}")
    if "features" in members:
        features = members["features"]
    else:
        data = _object(members["data"])
        if len(data) != 1:
            raise ValueError(f"data has {len(data)} tensors; it must have one: {LAYOUTS}")
        (features,) = data.values()
    configuration = members.get("configuration")
    return JsonRecord(
        _row(features, width),
        None if configuration is None else _object(configuration),
        _text(members, "uid"),
        _text(members, "metadata"),
    )


def _row(features: object, width: int | None) -> TensorRow:
    empty = np.empty(0)
    if not isinstance(features, dict):
        return tensor_row(_numbers(features, "features"), empty, empty, width)
    tensor = _members(features, "keys", "values", "shape")
    if "values" not in tensor:
        raise ValueError(f"features must have values: {LAYOUTS}")
    keys, values, shape = (_numbers(tensor.get(k, []), k) for k in ("keys", "values", "shape"))
    return tensor_row(values, keys, shape, width)


def _members(value: dict[str, Any], *known: str) -> dict[str, Any]:
    if not value.keys() <= set(known):
        raise ValueError(f"an object has an unknown member; known are {', '.join(known)}")
    return value


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{_KINDS[type(value)]} was given; it must be an object: {LAYOUTS}")  # noqa: TRY004 (the client's)
    return value


def _text(members: dict[str, Any], name: str) -> str | None:
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is {_KINDS[type(value)]}; it must be a string")
    return value


def _numbers(value: object, name: str) -> NDArray[np.float64]:
    if not isinstance(value, list):
        raise ValueError(f"{name}: {_KINDS[type(value)]} was given; it must be an array of numbers")  # noqa: TRY004
    if not {*map(type, value)} <= {float}:
        number, wrong = next(each for each in enumerate(value) if type(each[1]) is not float)
        raise ValueError(f"{name}[{number}] is {_KINDS[type(wrong)]}; it must be a number")
    numbers = np.array(value, np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name}[{int(np.isfinite(numbers).argmin())}] is beyond what float64 has")
    return numbers


# --- Writing -------------------------------------------------------------------------------------


def instances_array(batch: Batch) -> Iterator[bytes]:
    """Records of finite numbers as an array of JSON, without its brackets, a piece at a time."""
    if not _is_plain(batch):
        yield b",".join([_one_text(batch, row) for row in range(len(batch))])
        return
    features = batch.dense()
    for start in range(0, len(batch), ROWS_AT_ONCE):
        rows = json_text(features[start : start + ROWS_AT_ONCE])[1:-1]
        # No number has a bracket; single bytes are found much faster than several in a row.
        text = rows.replace(b"[", b'{"features":[').replace(b"]", b"]}")
        yield b"," + text if start else text


def instances_lines(batch: Batch) -> Iterator[bytes]:
    """Records of finite numbers as JSON, a line each, a piece at a time."""
    if not _is_plain(batch):
        yield b"".join([_one_text(batch, row) + b"\n" for row in range(len(batch))])
        return
    features = batch.dense()
    begin, end = b'{"features":[', b"]}\n"
    for start in range(0, len(batch), ROWS_AT_ONCE):
        rows = json_rows(features[start : start + ROWS_AT_ONCE])
        yield b"".join([begin, (end + begin).join(rows), end])


def _is_plain(batch: Batch) -> bool:
    kept = batch.uid or batch.metadata or batch.configurations
    return not (kept or isinstance(batch.features, SparseRows))


def _one_text(batch: Batch, row: int) -> bytes:
    record: dict[str, Any] = {}
    features = batch.features
    if isinstance(features, SparseRows):
        one = features.rows(row, row + 1)
        tensor = {"keys": one.keys, "shape": [one.width], "values": one.values}
        record["data"] = {"features": tensor}
    else:
        record["features"] = features[row]
    kept = {"uid": batch.uid, "metadata": batch.metadata, "configuration": batch.configurations}
    for name, values in kept.items():
        if values is not None and values[row] is not None:
            record[name] = values[row]
    if isinstance(record.get("configuration"), str):
        record["configuration"] = _configuration(record["configuration"])
    return orjson.dumps(record, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY)


def _configuration(text: str) -> object:
    """What a protobuf record has as text, if it is an object."""
    with suppress(orjson.JSONDecodeError):
        found = orjson.loads(text)
        if isinstance(found, dict):
            return found
    raise CannotWrite("a record's configuration is text; in JSON it must be an object")


def _plain(numbers: object) -> object:
    """What orjson does not write of an array as it is."""
    if isinstance(numbers, np.ndarray):
        return numbers.tolist()
    raise TypeError
