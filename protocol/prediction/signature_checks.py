"""Checks of instances and predictions against the tensors of a signature.

An instance of a model with one input is its tensor, or an object with that one member. An instance
of a model with several inputs is an object with a member for each, by their aliases. The same holds
for predictions. This is TF Serving's row format. A tensor has a shape; a ragged array has none.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from partway.protocol.prediction.model_signature import LARGEST_FLOATS, WHOLE_RANGES, TensorSpec

#: Characters of a shape that a message repeats.
_MAX_SHOWN: Final = 100


class SignatureFault(ValueError):
    """A value does not match the signature; the text says where, what was found and required."""


def check_tensors(specs: Mapping[str, TensorSpec], rows: Sequence[Any], what: str) -> None:
    """Check instances or predictions against the declared tensors.

    The time grows linearly with the values.

    Args:
        specs: by alias; one at least.
        rows: the values as parsed JSON; numbers are int or float.
        what: ``instances`` or ``predictions``.

    Raises:
        SignatureFault: a value does not match its declaration.
    """
    if len(specs) == 1:
        ((alias, spec),) = specs.items()
        bare = [row[alias] if type(row) is dict and row.keys() == {alias} else row for row in rows]
        _check_column(spec, bare, what, "")
        return
    for number, row in enumerate(rows):
        if type(row) is not dict or row.keys() != specs.keys():
            raise SignatureFault(_members_fault(specs, row, f"{what}[{number}]"))
    for alias, spec in specs.items():
        _check_column(spec, [row[alias] for row in rows], what, f".{alias}")


def check_columns(
    specs: Mapping[str, TensorSpec], columns: Mapping[str, Sequence[Any]], what: str
) -> None:
    """Check instances in columns against the declared tensors.

    There is at least one spec. Each column has one value per instance, and at least one.

    Raises:
        SignatureFault: as in :func:`check_tensors`.
    """
    if columns.keys() != specs.keys():  # the first row shows the fault as well as any other
        check_tensors(specs, [{name: column[0] for name, column in columns.items()}], what)
        return
    for alias, spec in specs.items():
        _check_column(spec, columns[alias], what, f".{alias}" if len(specs) > 1 else "")


def as_b64(value: Any) -> Any:
    """Return a tensor of strings with each string's UTF-8 bytes as ``{"b64": …}``."""
    if isinstance(value, str):
        return {"b64": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}
    return [as_b64(each) for each in value] if isinstance(value, list) else value


# --- One tensor of all rows ----------------------------------------------------------------------


def _check_column(spec: TensorSpec, values: Sequence[Any], what: str, member: str) -> None:
    if _are_tensors(spec, values):  # all at once; nearly all tensors match
        return
    for number, value in enumerate(values):
        if not _are_tensors(spec, (value,)):
            raise SignatureFault(f"{what}[{number}]{member}: {_fault(spec, value)}")


def _are_tensors(spec: TensorSpec, values: Sequence[Any]) -> bool:
    level: Sequence[Any] = values
    for size in spec.shape:
        if not set(map(type, level)) <= {list}:
            return False
        lengths = set(map(len, level))
        if len(lengths) > 1 or (size >= 0 and lengths - {size}):
            return False
        level = list(chain.from_iterable(level))
    return _are_elements(spec.type, level)


def _are_elements(kind: str, values: Sequence[Any]) -> bool:
    found = set(map(type, values))
    if kind == "string":
        texts = found <= {str, dict}
        return texts and all(type(each) is str or each.keys() == {"b64"} for each in values)
    if kind == "bool":
        return found <= {bool}
    if bounds := WHOLE_RANGES.get(kind):
        return found <= {int} and (not values or _within(values, *bounds))
    most = LARGEST_FLOATS[kind]
    return found <= {int, float} and (not values or _within(values, -most, most))


def _within(values: Iterable[Any], least: float, most: float) -> bool:
    return bool(least <= min(values) and max(values) <= most)


# --- What is wrong with one ----------------------------------------------------------------------


def _fault(spec: TensorSpec, value: Any) -> str:
    shape: list[int] = []
    level = [value]
    while level and any(type(each) is list for each in level):
        lengths = sorted({len(each) if type(each) is list else -1 for each in level})
        if len(lengths) > 1:
            return f"it is ragged: it has {_ragged(shape, lengths)}; it must be {spec}"
        shape.append(lengths[0])
        level = list(chain.from_iterable(level))
    fits = len(shape) == len(spec.shape) and all(
        must in (-1, is_) for is_, must in zip(shape, spec.shape, strict=True)
    )
    if not fits:
        found = f"its shape is {_cut(str(shape))}" if shape else "it is a single value"
        return f"{found}; it must be {spec}"
    wrong = next(each for each in level if not _are_elements(spec.type, (each,)))
    return f"a value is {_named(wrong)}; it must be {_element(spec.type)}"


def _ragged(shape: list[int], lengths: list[int]) -> str:
    within = f", within the shape {_cut(str(shape))}" if shape else ""
    if lengths[0] < 0:
        return f"lists and single values side by side{within}"
    return f"lists of {lengths[0]} and of {lengths[-1]} values side by side{within}"


def _element(kind: str) -> str:
    if bounds := WHOLE_RANGES.get(kind):
        return f"{kind}, a whole number from {bounds[0]} to {bounds[1]}"
    if kind in LARGEST_FLOATS:
        return f"{kind}, a number from -{LARGEST_FLOATS[kind]:.8g} to {LARGEST_FLOATS[kind]:.8g}"
    return {"bool": "bool, true or false", "string": 'string, "…" or {"b64": "…"}'}[kind]


def _named(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float() if math.isinf(value):
            return "a number that is too large for any type"
        case int() | float():
            return f"the number {_cut(repr(value))}"
        case str():
            return "a string"
        case None:
            return "null"
        case dict():
            return "an object"
    return "an array"


def _members_fault(specs: Mapping[str, TensorSpec], row: Any, where: str) -> str:
    must = f"it must be an object with the members {', '.join(specs)}"
    if type(row) is not dict:
        return f"{where}: it is {_named(row)}; {must}"
    if lacking := [alias for alias in specs if alias not in row]:
        return f"{where}: {lacking[0]} is missing; {must}"
    unknown = next(alias for alias in row if alias not in specs)
    return f"{where}: {_cut(repr(unknown))} is not a tensor of the signature; {must}"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
