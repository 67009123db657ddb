"""A body's bytes as records, and answers as bytes: JSON, JSON Lines, CSV.

Python code runs for each number or each line here, though C could read a whole body: what reads
25 MiB in C holds the interpreter, and with it the event loop and ``/ping``, for seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from partway.container.errors import ModelError
from partway.container.models.kmeans.records import MAX_RECORDS, BadRecord, Record, dense, sparse
from partway.protocol.media.negotiation import MediaType

JSON: Final = "application/json"
JSON_LINES: Final = "application/jsonlines"
CSV: Final = "text/csv"

_LAYOUTS = '{"features": […]} or {"data": {"features": {"values": […]}}}'
_KINDS: Mapping[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    float: "a number",
    type(None): "null",
}


def check_content_type(content_type: MediaType) -> None:
    """See that a body's type can be read, before the body is.

    Raises:
        ModelError: 415, the type is another one, or has labels.
    """
    if content_type.name not in DECODERS:
        raise ModelError(f"the body's type must be one of {', '.join(DECODERS)}", status=415)
    if content_type.name == CSV and content_type.parameters.get("label_size", "0") != "0":
        raise ModelError(
            "label_size must be 0: records must have features alone, without labels", status=415
        )


def decode(body: bytes, format_name: str, width: int) -> list[Record]:
    """Read the records of a body.

    Args:
        body: the whole body.
        format_name: one of :data:`DECODERS`.
        width: features that each record must have.

    Raises:
        BadRecord: the body is not what its type says, or a record in it is not as wide.
        ModelError: 413, the body has too many records.
    """
    records: list[Record] = []
    for record in DECODERS[format_name](body, width):
        if len(records) == MAX_RECORDS:
            raise ModelError(f"there are more than {MAX_RECORDS} records: send fewer", status=413)
        records.append(record)
    if not records:
        raise BadRecord("the body has no record")
    return records


def encode(clusters: NDArray[np.int64], distances: NDArray[np.float64], format_name: str) -> bytes:
    """Write answers, one for each record, in one of the formats in :data:`ENCODERS`.

    Clusters are whole numbers in every format: any reader takes ``5`` for ``5.0``, few the reverse.
    """
    return ENCODERS[format_name](clusters.tolist(), distances.tolist()).encode()


def encode_error(reason: str) -> bytes:
    """Write what a stream is told in place of an answer, whatever format it speaks."""
    return json.dumps({"error": reason}).encode()


# --- JSON ----------------------------------------------------------------------------------------


def _from_json(body: bytes, width: int) -> Iterator[Record]:
    request = _parsed(_text(body), "the body")
    if not isinstance(request, dict) or "instances" not in request:
        raise BadRecord(f'the body must be {{"instances": [{_LAYOUTS}, …]}}')
    try:
        instances = _array(_members(request, "instances", "configuration")["instances"])
    except ValueError as error:
        raise BadRecord(f"the body: instances: {error}") from None
    for number, instance in enumerate(instances):
        yield _record(instance, width, f"record {number}")


def _from_json_lines(body: bytes, width: int) -> Iterator[Record]:
    for number, line in enumerate(_lines(_text(body))):
        where = f"record {number} (line {number + 1})"
        yield _record(_parsed(line, where), width, where)


def _record(instance: object, width: int, where: str) -> Record:
    try:
        return _instance(instance, width)
    except ValueError as error:
        raise BadRecord(f"{where}: {error}") from None


def _instance(instance: object, width: int) -> Record:
    members = _members(_object(instance), "features", "data", "configuration")
    if ("features" in members) == ("data" in members):
        raise ValueError(f"the record must have either features or data: {_LAYOUTS}")
    if "features" in members:
        features = members["features"]
    else:
        features = _members(_object(members["data"]), "features").get("features")
    if not isinstance(features, dict):
        return dense(_numbers(features, "features", width), width)
    tensor = _members(features, "keys", "values", "shape")
    if "values" not in tensor:
        raise ValueError(f"features must have values: {_LAYOUTS}")
    keys, values, shape = (
        _numbers(tensor.get(name, []), name, width) for name in ("keys", "values", "shape")
    )
    return sparse(keys, values, shape, width)


def _members(value: dict[str, object], *known: str) -> dict[str, object]:
    """An object's members, if all are known and nothing is configured."""
    if not value.keys() <= set(known):
        raise ValueError(f"an object has an unknown member; known are {', '.join(known)}")
    if value.get("configuration"):
        raise ValueError("configuration must be empty: k-means has nothing to configure")
    return value


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{_KINDS[type(value)]} was given; it must be an object: {_LAYOUTS}")  # noqa: TRY004 (the client's)
    return value


def _array(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{_KINDS[type(value)]} was given; it must be an array")  # noqa: TRY004
    return value


def _numbers(value: object, name: str, most: int) -> list[float]:
    try:
        numbers = _array(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error} of numbers") from None
    if len(numbers) > most:
        raise ValueError(f"{name} are {len(numbers)}; they must be {most}, as the centroids have")
    if not {*map(type, numbers)} <= {float}:
        number, wrong = next(each for each in enumerate(numbers) if type(each[1]) is not float)
        raise ValueError(f"{name}[{number}] is {_KINDS[type(wrong)]}; it must be a number")
    return numbers


def _parsed(text: str, what: str) -> object:
    try:
        return json.loads(
            text,
            object_pairs_hook=_no_repetition,
            parse_float=_float,
            parse_int=_float,
            parse_constant=_refused,
        )
    except json.JSONDecodeError as error:
        place = f"column {error.colno}"
        if error.lineno > 1:
            place = f"line {error.lineno}, {place}"
        raise BadRecord(f"{what} is not JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise BadRecord(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise BadRecord(f"{what} is not JSON: {error}") from None


def _float(text: str) -> float:
    """A number of JSON, always as a float, so that its type tells it from a boolean."""
    return float(text)


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number in JSON (RFC 8259 §6)")


def _no_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object has a member twice")
    return members


# --- CSV -----------------------------------------------------------------------------------------


def _from_csv(body: bytes, width: int) -> Iterator[Record]:
    text = _text(body)
    plain = text.isascii() and "_" not in text and '"' not in text
    for number, line in enumerate(_lines(text)):
        try:
            # Counted before it is split: no longer than that the interpreter is held.
            columns = line.count(",") + 1
            if columns != width:
                raise ValueError(  # noqa: TRY301 (the two kinds of faults are told alike)
                    f"the line has {columns} columns; it must have {width}, one for each feature"
                )
            record = dense(_cells(line.split(","), plain), width)
        except ValueError as error:
            raise BadRecord(f"record {number} (line {number + 1}): {error}") from None
        yield record


def _cells(cells: list[str], plain: bool) -> list[float]:
    """The numbers of a line; ``plain`` says that no cell needs a look before it is converted."""
    if plain:
        with suppress(ValueError):
            return [*map(float, cells)]
    return [_number(cell.strip(), column + 1) for column, cell in enumerate(cells)]


def _number(cell: str, column: int) -> float:
    if len(cell) > 1 and cell[0] == cell[-1] == '"':  # RFC 4180 §2
        cell = cell[1:-1]
    try:
        if cell.isascii() and "_" not in cell:  # float() takes any script's digits, and 1_000
            return float(cell)
    except ValueError:
        pass
    raise ValueError(f"column {column} is not a number; lines must be numbers, without a header")


# --- Text ----------------------------------------------------------------------------------------


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRecord(f"the body is not UTF-8 at byte {error.start}") from None


def _lines(text: str) -> Iterator[str]:
    """Lines, one at a time. What a CR before a line's end is to a number or to JSON is white space.

    Line ends at the end of the text make no lines of their own.
    """
    end = len(text.rstrip("\r\n"))
    start = 0
    while start < end:
        stop = text.find("\n", start, end)
        if stop < 0:
            stop = end
        yield text[start:stop]
        start = stop + 1


# --- Answers -------------------------------------------------------------------------------------


def _objects(clusters: Sequence[int], distances: Sequence[float]) -> Iterator[str]:
    # Whole numbers, and floats that are finite, are written in JSON as in Python.
    for cluster, distance in zip(clusters, distances, strict=True):
        yield f'{{"closest_cluster": {cluster}, "distance_to_cluster": {distance}}}'


def _to_json(clusters: Sequence[int], distances: Sequence[float]) -> str:
    return f'{{"predictions": [{", ".join(_objects(clusters, distances))}]}}'


def _to_json_lines(clusters: Sequence[int], distances: Sequence[float]) -> str:
    return "".join([f"{each}\n" for each in _objects(clusters, distances)])


def _to_csv(clusters: Sequence[int], distances: Sequence[float]) -> str:
    answers = zip(clusters, distances, strict=True)
    return "".join([f"{cluster},{distance}\n" for cluster, distance in answers])


#: Read a body's records, each of so many features.
DECODERS: Final[Mapping[str, Callable[[bytes, int], Iterator[Record]]]] = {
    JSON: _from_json,
    JSON_LINES: _from_json_lines,
    CSV: _from_csv,
}
#: Write answers; the first one is for who asks for none.
ENCODERS: Final[Mapping[str, Callable[[Sequence[int], Sequence[float]], str]]] = {
    JSON: _to_json,
    JSON_LINES: _to_json_lines,
    CSV: _to_csv,
}
