"""TF Serving's columns: a tensor for each input, in the place of an instance for each row."""

from __future__ import annotations

import json
from typing import Any, Final

from partway.protocol.json_places import elements_of, kind_of, members_of, place_of
from partway.protocol.signatures import SignatureFault

COLUMNS: Final = '{"inputs": […]} or {"inputs": {"NAME": […], …}}'

#: Characters of a name that a message repeats.
_MAX_NAME: Final = 60


def as_instances(text: bytes, members: dict[str, Any]) -> tuple[bytes, list[Any]]:
    """The same body with instances in the place of columns.

    Args:
        text: the body, which is valid JSON.
        members: as it was read; there are inputs.

    Returns:
        The body, and the instances as they were read.

    Raises:
        SignatureFault: there are instances too, or the columns are not alike.
    """
    if "instances" in members:
        raise SignatureFault(
            "instances and inputs are both there; there must be exactly one of the two"
        )
    inputs, body = members["inputs"], text.decode()
    begin, end = place_of(body, "inputs")
    if isinstance(inputs, dict) and inputs and inputs.keys() != {"b64"}:
        rows, written = _transposed(inputs, body[begin:end])
    elif isinstance(inputs, list) and inputs:
        rows, written = inputs, body[begin:end]
    else:
        raise SignatureFault(f"inputs: {kind_of(inputs)}; it must have tensors: {COLUMNS}")
    rest = "".join(
        f", {json.dumps(name)}: {body[at:to]}"
        for name, at, to in members_of(body)
        if name != "inputs"
    )
    return f'{{"instances": {written}{rest}}}'.encode(), rows


def as_outputs(predictions: bytes) -> bytes:
    """Predictions by columns, as TF Serving answers who has asked by columns.

    Args:
        predictions: an array's text.

    Returns:
        The text of an object of columns, where each prediction is an object of the same members;
        else the array itself.
    """
    text, rows = predictions.decode(), json.loads(predictions, parse_int=len, parse_float=len)
    first = rows[0] if rows else None
    if not isinstance(first, dict) or not first or first.keys() == {"b64"}:
        return predictions
    if any(not isinstance(row, dict) or row.keys() != first.keys() for row in rows):
        return predictions
    columns: dict[str, list[str]] = {name: [] for name in first}
    for row in elements_of(text, 0):
        for name, begin, end in members_of(row):
            columns[name].append(row[begin:end])
    written = (f"{json.dumps(name)}: [{', '.join(each)}]" for name, each in columns.items())
    return f"{{{', '.join(written)}}}".encode()


def _transposed(inputs: dict[str, Any], text: str) -> tuple[list[Any], str]:
    for name, column in inputs.items():
        if not isinstance(column, list) or not column:
            raise SignatureFault(
                f"inputs: {name[:_MAX_NAME]!r}: {kind_of(column)}; it must be an array of one "
                "value for each instance"
            )
    lengths = {name: len(column) for name, column in inputs.items()}
    if len({*lengths.values()}) > 1:
        (least, most) = sorted(lengths.items(), key=lambda each: each[1])[:: len(lengths) - 1]
        raise SignatureFault(
            f"inputs: {least[0][:_MAX_NAME]!r} has {least[1]} values and {most[0][:_MAX_NAME]!r} "
            f"{most[1]}; there must be one for each instance"
        )
    texts = [
        [f"{json.dumps(name)}: {each}" for each in elements_of(text[at:to], 0)]
        for name, at, to in members_of(text)
    ]
    rows = [dict(zip(inputs, row, strict=True)) for row in zip(*inputs.values(), strict=True)]
    written = ", ".join(f"{{{', '.join(row)}}}" for row in zip(*texts, strict=True))
    return rows, f"[{written}]"
