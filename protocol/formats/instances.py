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

from partway.protocol.formats.batches import Batch, SparseRows
from partway.protocol.formats.column_order import ColumnOrder
from partway.protocol.formats.encoding import ROWS_AT_ONCE, CannotWrite
from partway.protocol.formats.number_text import json_rows, json_text, packed_rows
from partway.protocol.formats.tensors import TensorRow, tensor_row
from partway.protocol.json.strict import parsed

LAYOUTS: Final = (
    '[…], {"COLUMN": …, …}, {"features": […]} or {"data": {"features": {"values": […]}}}'
)

#: Each type of Python in JSON's words.
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


def plain_rows(records: list[Any], text: bytes, order: ColumnOrder) -> NDArray[np.float64] | None:
    """The features of records that are all dense, alike, equally long, and have nothing else.

    That is how programs write them; :func:`read_instance` reads the others, and finds faults.

    Args:
        records: what a library has made of the text; at least one.
        text: the records, and nothing between them but commas, line ends and spaces.
        order: of columns that records name.

    Returns:
        (records, width); None where any record is otherwise.
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
    """The same of records that are objects of columns, each in the same order as the first."""
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
    """Rows as an array, if they are numbers and each record has these names alone."""
    # A member that is unknown or comes twice has a name, in quotes, and a string has them too. Of
    # JSON's words these two are numbers to Python.
    for sign in ('"', "u", "l"):
        if _count(text, sign.encode()) != names.count(sign) * len(rows):
            return None
    try:
        return packed_rows(rows, len(rows[0])) if rows[0] else None
    except (struct.error, TypeError):
        return None


def _count(text: bytes, sign: bytes) -> int:
    """As often as a byte that is rare; ``bytes.count`` looks at each byte by itself."""
    return len(text) - len(text.replace(sign, b""))


# --- One at a time -------------------------------------------------------------------------------


def read_instance(text: bytes, width: int | None, order: ColumnOrder) -> JsonRecord:
    """Read one record.

    Args:
        text: the record alone.
        width: how wide records must be, where that is known.
        order: of columns that records name.

    Raises:
        NotJson: the text is not JSON.
        ValueError: the text is no record.
    """
    return record_of(parsed(text), width, order)


def record_of(value: object, width: int | None, order: ColumnOrder) -> JsonRecord:
    """One record of what JSON has become; the same as :func:`read_instance` does.

    Raises:
        ValueError: the value is no record.
    """
    if is_of_the_schema(value, order):
        return _of_the_schema(_object(value), width)
    numbers = _numbers(cells_of(value, width, order), "features")
    return JsonRecord(TensorRow(numbers, None, len(numbers)), None, None, None)


def is_of_the_schema(value: object, order: ColumnOrder) -> bool:
    """Whether a record is an object as SageMaker's algorithms take it, with features or data."""
    return isinstance(value, dict) and any(
        name in value and not order.knows(name) for name in ("features", "data")
    )


def cells_of(value: object, width: int | None, order: ColumnOrder) -> list[Any]:
    """The values of a record that is an array, an object of columns, or one value by itself.

    A column's value may be in an array, as a tensor of the shape [n, 1] has it. An object with one
    member that is an array is a record whose tensor has a name.

    Raises:
        ValueError: the value is no such record.
    """
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        if width not in {None, 1}:
            raise ValueError(
                f"{KINDS[type(value)]} was given; it must be an array of {width} values: "
                f"[[…]] is one record, and so is a tensor of the shape [1, {width}]"
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
        raise ValueError(f"an object has an unknown member; known are {', '.join(known)}")
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
