"""Encoding of scikit-learn predictions: numbers, text labels, probabilities."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from partway.protocol.formats.batches import is_finite


def encode_predictions(predictions: Any, records: int, media_type: str) -> bytes:
    """Write predictions in one of :data:`PREDICTION_TYPES`.

    Args:
        predictions: the model's result: an array, or a list of arrays, one for each output.
        records: number of records.
        media_type: the media type of the answer.

    Raises:
        ValueError: there is not one prediction for each record, or a number is not finite.
    """
    if isinstance(predictions, list):
        predictions = np.stack([np.asarray(each) for each in predictions], axis=1)
    array = np.asarray(predictions)
    if array.dtype.kind == "O":
        array = np.array(array.tolist())  # strings, mostly
    if array.ndim == 0 or len(array) != records:
        raise ValueError(
            f"the model returned predictions of shape {array.shape} for {records} records; there "
            "must be one for each"
        )
    if array.dtype.kind not in "fiubU":
        raise ValueError(f"the model returned {array.dtype}; it must return numbers or strings")
    if array.dtype.kind == "f" and not is_finite(array):
        raise ValueError("the model returned NaN or infinite numbers")
    return _WRITERS[media_type](array)


def _to_json(array: NDArray[Any]) -> bytes:
    return b'{"predictions": %b}' % orjson.dumps(array.tolist())


def _to_json_lines(array: NDArray[Any]) -> bytes:
    return b"".join([orjson.dumps(each) + b"\n" for each in array.tolist()])


def _to_csv(array: NDArray[Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(array.reshape(len(array), -1).tolist())
    return text.getvalue().encode()


def _to_npy(array: NDArray[Any]) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


_WRITERS: Final[Mapping[str, Callable[[NDArray[Any]], bytes]]] = {
    "application/json": _to_json,
    "application/jsonlines": _to_json_lines,
    "text/csv": _to_csv,
    "application/x-npy": _to_npy,
}
#: Media types of predictions; the first one is for clients that ask for none.
PREDICTION_TYPES: Final = tuple(_WRITERS)
