"""TF Serving's columns: a tensor for each input, in the place of an instance for each row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from partway.protocol.json_places import array_of, elements_of, kind_of, members_of, place_of
from partway.protocol.limits import NAMES_ANYWAY, NAMES_PER_BYTE
from partway.protocol.signatures import SignatureFault

COLUMNS: Final = '{"inputs": […]} or {"inputs": {"NAME": […], …}}'

#: Characters of a name that a message repeats.
_MAX_NAME: Final = 60


def as_instances(
    text: bytes, members: dict[str, Any], *, wrap: bool = False
) -> tuple[bytes, list[Any] | dict[str, list[Any]]]:
    """The same body with instances in the place of columns.

    Args:
        text: the body, which is valid JSON.
        members: as it was read; there are inputs.
        wrap: whether rows of a table are wrapped, ``{"data": …}``, unless its only column is that.

    Returns:
        The body; and what instances are made of, as it was read: an array of them, or an object of
        columns.

    Raises:
        SignatureFault: there are instances too, or the columns are not alike; or their names, which
            each instance has, are too long.
    """
    if "instances" in members:
        raise SignatureFault(
            "instances and inputs are both there; there must be exactly one of the two"
        )
    inputs, body = members["inputs"], text.decode()
    begin, end = place_of(body, "inputs")
    if isinstance(inputs, dict) and inputs and inputs.keys() != {"b64"}:
        written = _transposed(inputs, body[begin:end], wrap=wrap and inputs.keys() != {"data"})
    elif isinstance(inputs, list) and inputs:
        written = body[begin:end]
    else:
        raise SignatureFault(f"inputs: {kind_of(inputs)}; it must have tensors: {COLUMNS}")
    rest = "".join(
        f", {json.dumps(name)}: {body[at:to]}"
        for name, at, to in members_of(body)
        if name != "inputs"
    )
    return f'{{"instances": {written}{rest}}}'.encode(), inputs


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


def check_names_fit(names: Iterable[str], instances: int, size: int) -> None:
    """Refuse names that would be most of a body once each instance has them: it has no bound else.

    Args:
        names: of the tensors.
        instances: how many there are.
        size: bytes of what came.

    Raises:
        SignatureFault: they would take more than :data:`NAMES_PER_BYTE` times that.
    """
    most = max(NAMES_ANYWAY, NAMES_PER_BYTE * size)
    written = instances * sum(len(json.dumps(name)) for name in names)
    if written > most:
        raise SignatureFault(
            f"the inputs' names have {written} bytes together where each of {instances} instances "
            f"has them; they must have at most {most}: shorter names, or fewer instances at a time"
        )


def _transposed(inputs: dict[str, Any], text: str, *, wrap: bool) -> str:
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
    check_names_fit(inputs, lengths.popitem()[1], len(text))
    columns = [_named(name, text[at:to]) for name, at, to in members_of(text)]
    before, behind = ('{"data": {', "}}") if wrap else ("{", "}")
    return array_of(f"{before}{', '.join(row)}{behind}" for row in zip(*columns, strict=True))


def _named(name: str, column: str) -> Iterator[str]:
    """A column's values, each as a row's member."""
    member = json.dumps(name)
    return (f"{member}: {each}" for each in elements_of(column, 0))
