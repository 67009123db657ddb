"""The JSON schema of a record, alone on a line or in an array."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from partway.protocol.formats.batches import Batch, SparseRows
from partway.protocol.formats.column_order import ColumnOrder
from partway.protocol.formats.encoding import ROWS_AT_ONCE, CannotWrite
from partway.protocol.formats.number_text import json_rows, json_text, packed_rows
from partway.protocol.formats.tensors import TensorRow, tensor_row
from partway.protocol.json.strict import parsed

LAYOUTS: Final = (
    '[…], {"COLUMN": …, …}, {"features": […]} or {"data": {"features": {"values": […]}}}'
)

#: JSON's name of each Python type.
KINDS: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


@dataclass(frozen=True, slots=True, eq=False)
class JsonRecord:
    row: TensorRow
    configuration: Mapping[str, Any] | None
    uid: str | None
    metadata: str | None


# --- Many at a time ------------------------------------------------------------------------------


def plain_rows(records: list[Any], text: bytes, order: ColumnOrder) -> NDArray[np.float64] | None:
    """Return the features of dense records of one form and length, without other members.

    Programs usually write such records. :func:`read_instance` reads all others, and reports faults.

    ``records`` is the parsed ``text``; it has at least one record. Only commas, line ends and
    spaces stand between the records of ``text``.

    Returns:
        (records, width); None if any record has another form.
    """
    first = records[0]
    try:
        if isinstance(first, list):
            rows, names = records, ""
        elif not isinstance(first, dict):
            rows, names = [[each] for each in records], ""
        elif not is_of_the_schema(first, order):
            return _named_rows(records, text, order)
        elif "features" in first:
            rows, names = [each["features"] for each in records], '"features"'
        else:
            names = '"data" "features" "values"'
            rows = [each["data"]["features"]["values"] for each in records]
    except (KeyError, TypeError):
        return None
    return _packed(rows, names, text)


def _named_rows(records: list[Any], text: bytes, order: ColumnOrder) -> NDArray[np.float64] | None:
    """Do the same for records that are objects of columns, in the order of the first record."""
    names = [*records[0]]
    if not names or order.names not in {None, tuple(names)}:
        return None
    if any(not isinstance(each, dict) or [*each] != names for each in records):
        return None
    written = "".join([orjson.dumps(name).decode() for name in names])
    rows = _packed([[*each.values()] for each in records], written, text)
    if rows is not None:
        order.values(records[0])
    return rows


def _packed(rows: list[list[Any]], names: str, text: bytes) -> NDArray[np.float64] | None:
    """Return rows as an array, if they are numbers and no record has further names."""
    # An unknown or repeated member has a name in quotes, and so has a string. Among JSON's words,
    # true and false are numbers to Python; they hold a "u" or an "l".
    for sign in ('"', "u", "l"):
        if _count(text, sign.encode()) != names.count(sign) * len(rows):
            return None
    try:
        return packed_rows(rows, len(rows[0])) if rows[0] else None
    except (struct.error, TypeError):
        return None


def _count(text: bytes, sign: bytes) -> int:
    """Count a rare byte, faster than ``bytes.count``, which looks at each byte by itself."""
    return len(text) - len(text.replace(sign, b""))


# --- One at a time -------------------------------------------------------------------------------


def read_instance(text: bytes, width: int | None, order: ColumnOrder) -> JsonRecord:
    """Read one record.

    Raises:
        NotJson: the text is not JSON.
        ValueError: the text is not a record.
    """
    return record_of(parsed(text), width, order)


def record_of(value: object, width: int | None, order: ColumnOrder) -> JsonRecord:
    """Read one record from parsed JSON; raises ValueError as :func:`read_instance` does."""
    if is_of_the_schema(value, order):
        return _of_the_schema(_object(value), width)
    numbers = _numbers(cells_of(value, width, order), "features")
    return JsonRecord(TensorRow(numbers, None, len(numbers)), None, None, None)


def is_of_the_schema(value: object, order: ColumnOrder) -> bool:
    """Whether a record is an object as in SageMaker's algorithms, with features or data."""
    return isinstance(value, dict) and any(
        name in value and not order.knows(name) for name in ("features", "data")
    )


def cells_of(value: object, width: int | None, order: ColumnOrder) -> list[Any]:
    """Return the values of a record that is an array, an object of columns, or a single value.

    A column's value may be in an array, as in a tensor of the shape [n, 1]. An object whose only
    member is an array is a record with a named tensor.

    Raises:
        ValueError: the value is not such a record.
    """
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        if width not in {None, 1}:
            raise ValueError(
                f"{KINDS[type(value)]} was given; it must be an array of {width} values: "
                f"send one record as [[…]], or as a tensor of the shape [1, {width}]"
            )
        return [value]
    if not value:
        raise ValueError(f"an object without members was given; it must be {LAYOUTS}")
    only = next(iter(value.values()))
    if len(value) == 1 and isinstance(only, list):
        return only
    return [
        each[0] if isinstance(each, list) and len(each) == 1 else each
        for each in order.values(value)
    ]


def _of_the_schema(record: dict[str, Any], width: int | None) -> JsonRecord:
    members = _members(record, "features", "data", "configuration", "uid", "metadata")
    if ("features" in members) == ("data" in members):
        raise ValueError(f"the record must have either features or data: {LAYOUTS}")
    features = members.get("features", members.get("data"))
    if "data" in members and not isinstance(features, list):
        data = _object(features)
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
        raise ValueError(f"an object has an unknown member; it may have {', '.join(known)}")
    return value


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{KINDS[type(value)]} was given; it must be an object: {LAYOUTS}")  # noqa: TRY004 (the client's)
    return value


def _text(members: dict[str, Any], name: str) -> str | None:
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is {KINDS[type(value)]}; it must be a string")
    return value


def _numbers(value: object, name: str) -> NDArray[np.float64]:
    if not isinstance(value, list):
        raise ValueError(f"{name}: {KINDS[type(value)]} was given; it must be an array of numbers")  # noqa: TRY004
    if not {*map(type, value)} <= {float, int}:
        number, wrong = next(each for each in enumerate(value) if type(each[1]) not in {float, int})
        raise ValueError(f"{name}[{number}] is {KINDS[type(wrong)]}; it must be a number")
    numbers = np.array(value, np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name}[{int(np.isfinite(numbers).argmin())}] is too large for float64")
    return numbers


# --- Writing -------------------------------------------------------------------------------------


def instances_array(batch: Batch) -> Iterator[bytes]:
    """Yield records of finite numbers as a JSON array without its brackets, in pieces."""
    if not _is_plain(batch):
        yield b",".join([_one_text(batch, row) for row in range(len(batch))])
        return
    features = batch.dense()
    for start in range(0, len(batch), ROWS_AT_ONCE):
        rows = json_text(features[start : start + ROWS_AT_ONCE])[1:-1]
        # Numbers have no brackets, and searching single bytes is much faster than longer strings.
        text = rows.replace(b"[", b'{"features":[').replace(b"]", b"]}")
        yield b"," + text if start else text


def instances_lines(batch: Batch) -> Iterator[bytes]:
    """Yield records of finite numbers as JSON, one per line, in pieces."""
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
    """Parse a protobuf record's configuration text, if it is an object."""
    with suppress(orjson.JSONDecodeError):
        found = orjson.loads(text)
        if isinstance(found, dict):
            return found
    raise CannotWrite("a record's configuration is text; in JSON it must be an object")


def _plain(numbers: object) -> object:
    """Convert parts of an array that orjson cannot write itself."""
    if isinstance(numbers, np.ndarray):
        return numbers.tolist()
    raise TypeError
