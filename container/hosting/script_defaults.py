"""Default functions of a classic inference script.

Bodies become arrays, and predictions become bodies, as in ``sagemaker-inference-toolkit``. One
record is a row of a two-dimensional array.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from partway.container.errors import ModelError
from partway.protocol.formats.json_table import JsonTable, NotATable, table_of
from partway.protocol.formats.negotiation import accept_given, type_given
from partway.protocol.http.content_types import media_type_of

JSON: Final = "application/json"
CSV: Final = "text/csv"
NPY: Final = "application/x-npy"

#: Members that only a prediction request's body has.
_ASKS: Final = frozenset({"instances", "dataframe_split", "dataframe_records"})


class Decoded(NamedTuple):
    """A decoded body.

    Attributes:
        data: an array; of two dimensions or more if the body is a table.
        asks_for_predictions: whether a JSON answer must be ``{"predictions": […]}``.
    """

    data: Any
    asks_for_predictions: bool = False


def decode(body: str | bytes, content_type: str) -> Decoded:
    """The default ``input_fn``: JSON, CSV or NPY as an array.

    Pickled objects in NPY, which the toolkit accepts, are refused: a pickle can run code.

    Raises:
        ModelError: 415 for another type; 400 if the body does not have its type's form.
    """
    media_type = media_type_of(content_type)
    decoder = _DECODERS.get(media_type)
    if decoder is None:
        given = type_given(media_type)
        raise ModelError(f"{given}; it must be one of {', '.join(_DECODERS)}", status=415)
    try:
        return decoder(body)
    except NotATable as fault:
        place = "" if fault.record is None else f"record {fault.record}: "
        raise ModelError(f"{place}{fault}", status=400) from fault
    except (ValueError, MemoryError, RecursionError) as error:
        reason = f"the body is not {media_type}, although its Content-Type says so"
        raise ModelError(reason, status=400) from error


def encode(
    prediction: object, accepted: list[str], *, as_predictions: bool = False
) -> tuple[bytes, str]:
    """The default ``output_fn``: JSON, CSV or NPY, whichever is accepted first.

    Args:
        prediction: the result of ``predict_fn``.
        accepted: media types, the preferred one first.
        as_predictions: whether JSON must be ``{"predictions": […]}``; an object stays as it is.

    Raises:
        ModelError: 406 if none of these types is accepted.
    """
    for media_type in accepted:
        if media_type in _ENCODERS:
            if as_predictions and media_type == JSON and not isinstance(prediction, dict):
                prediction = {"predictions": prediction}
            return _ENCODERS[media_type](prediction), media_type
    raise ModelError(accept_given(", ".join(accepted), _ENCODERS), status=406)


# --- Reading -------------------------------------------------------------------------------------


def _from_json(text: str) -> Decoded:
    value = json.loads(text)
    try:
        table = table_of(value)
    except NotATable:
        inputs = value.get("inputs") if isinstance(value, dict) else None
        if isinstance(inputs, list | dict) or (isinstance(value, dict) and _ASKS & value.keys()):
            raise
        return Decoded(np.array(value))
    if isinstance(value, dict) and not table.asks_for_predictions and not _is_numbers(table):
        return Decoded(np.array(value))  # an object in the script's own form
    return Decoded(_array_of(table), table.asks_for_predictions)


def _array_of(table: JsonTable) -> Any:
    """Convert a table to a two-dimensional array; single strings make a one-dimensional one."""
    rows = table.rows
    if table.of_scalars and all(isinstance(row[0], str) for row in rows):
        return np.array([row[0] for row in rows])
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise NotATable(
                f"the record has {len(row)} values; it must have {len(rows[0])}, as record 0 has",
                number,
            )
    kinds = {type(cell) for row in rows for cell in row}
    if kinds <= {int, float, type(None)} and type(None) in kinds:
        return np.array(rows, np.float64)  # null becomes NaN
    # numpy would convert mixed numbers and strings to strings.
    return np.array(rows, object if str in kinds and len(kinds) > 1 else None)


def _is_numbers(table: JsonTable) -> bool:
    return all(isinstance(cell, int | float) for row in table.rows for cell in row)


def _from_csv(text: str) -> Decoded:
    if not text.strip():
        raise ValueError("the body is empty")  # numpy would only warn
    array = np.genfromtxt(io.StringIO(text), dtype=None, delimiter=",", encoding=None, ndmin=2)
    if array.dtype.names is not None:  # columns of several types
        array = np.array([list(row) for row in array[:, 0].tolist()], object)
    return Decoded(array)


def _from_npy(body: bytes) -> Decoded:
    array = np.lib.format.read_array(io.BytesIO(body), allow_pickle=False)
    if array.size > len(body):
        raise ValueError(
            "the array has elements of zero bytes"
        )  # any number of which fits a few bytes
    return Decoded(array[None] if array.ndim == 1 else array)


# --- Writing -------------------------------------------------------------------------------------


def to_json(value: object) -> bytes:
    """Convert a value to JSON; it may contain arrays and tensors."""

    def as_list(item: Any) -> object:
        if hasattr(item, "tolist"):
            return item.tolist()
        raise TypeError(f"a {type(item).__name__} cannot be written as JSON")

    return json.dumps(value, default=as_list).encode()


def _to_csv(value: Any) -> bytes:
    text = io.StringIO()
    np.savetxt(text, value, delimiter=",", fmt="%s")
    return text.getvalue().encode()


def _to_npy(value: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, value, allow_pickle=False)
    return content.getvalue()


_DECODERS: Final[Mapping[str, Callable[[Any], Decoded]]] = {
    JSON: _from_json,
    CSV: _from_csv,
    NPY: _from_npy,
}
_ENCODERS: Final[Mapping[str, Callable[[Any], bytes]]] = {
    JSON: to_json,
    CSV: _to_csv,
    NPY: _to_npy,
}
