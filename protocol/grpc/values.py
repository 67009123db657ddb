"""``google.protobuf.Value`` ↔ JSON: a number there is a double, and nothing else."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson

from partway.protocol.json_text import loads
from partway.protocol.limits import GRPC_VALUE_DEPTH
from partway.protocol.prediction import PredictionFault

#: An element of a ListValue that is a number, as protobuf writes it: both heads, and the double.
#: Vectors are read and written so, in a tenth of the time that an object for each number takes.
_NUMBER_HEADS: Final = b"\x0a\x09\x11"
_NUMBER: Final = struct.Struct("<3sd")
_NUMBERS: Final = struct.Struct("<3xd")

#: Numbers of a vector that are read, or written, by one format, which takes memory for each.
_LONG_VECTOR: Final = 1024

#: Doubles up to here are all the whole numbers that there are (IEEE 754).
_WHOLE: Final = 2.0**53


def json_of(values: Iterable[Any]) -> bytes:
    """An array in JSON of values. A whole number is written as one, as protobuf's own JSON does.

    Args:
        values: of ``google.protobuf.Value``.

    Raises:
        PredictionFault: one is not a number, or infinite, or nothing at all.
    """
    return orjson.dumps(_each_plain([*values]))


def add_json(values: Any, text: bytes) -> None:
    """Put the elements of an array in JSON behind a message's values.

    Args:
        values: repeated ``google.protobuf.Value``.
        text: an array, valid JSON.

    Raises:
        PredictionFault: a number is larger than a double can be, or a string no Unicode, or
            something is nested deeper than clients read.
    """
    try:
        found = loads(text)
    except ValueError:
        raise PredictionFault(
            "a number is larger than a double can be, or a string has half of a surrogate pair"
        ) from None
    for each in found:
        _fill(values.add(), each, GRPC_VALUE_DEPTH)


def _each_plain(values: Sequence[Any]) -> Sequence[object]:
    if {each.WhichOneof("kind") for each in values} == {"list_value"}:
        return _lists([each.list_value for each in values])
    return [_plain(each) for each in values]


def _plain(value: Any) -> object:
    match value.WhichOneof("kind"):
        case "number_value":
            return _number(value.number_value)
        case "list_value":
            (listed,) = _lists([value.list_value])
            return listed
        case "string_value":
            return value.string_value
        case "struct_value":
            return {name: _plain(each) for name, each in value.struct_value.fields.items()}
        case "bool_value":
            return value.bool_value
        case "null_value":
            return None
        case _:
            raise PredictionFault("a google.protobuf.Value has no kind; it must have one")


def _lists(lists: Sequence[Any]) -> list[Sequence[object]]:
    """The elements of each list; those of instances, of which most are all vectors, or none is."""
    texts = [each.SerializeToString() for each in lists]
    aligned = not any(len(each) % _NUMBER.size for each in texts)
    if aligned and _are_numbers(b"".join(texts)):
        return [_vector(each) for each in texts]
    return [
        _vector(text) if _are_numbers(text) else _each_plain(listed.values)
        for text, listed in zip(texts, lists, strict=True)
    ]


def _are_numbers(text: bytes) -> bool:
    """Whether a ListValue, as protobuf writes it, has numbers alone."""
    count, rest = divmod(len(text), _NUMBER.size)
    return not rest and all(
        text[place :: _NUMBER.size] == _NUMBER_HEADS[place : place + 1] * count
        for place in range(len(_NUMBER_HEADS))
    )


def _vector(text: bytes) -> Sequence[float]:
    """The numbers of a ListValue that has them alone."""
    count = len(text) // _NUMBER.size
    if count <= _LONG_VECTOR:
        numbers = _numbers_of(count).unpack(text)
    else:
        numbers = tuple(each for (each,) in _NUMBERS.iter_unpack(text))
    if math.isfinite(sum(numbers)) and not any(map(float.is_integer, numbers)):
        return numbers  # as each of them is written
    return [_number(each) for each in numbers]


def _vector_of(numbers: Sequence[float]) -> bytes:
    """A ListValue of these numbers, as protobuf writes it."""
    count = len(numbers)
    if count > _LONG_VECTOR:
        return b"".join([_NUMBER.pack(_NUMBER_HEADS, each) for each in numbers])
    with_heads: list[object] = [_NUMBER_HEADS] * (2 * count)
    with_heads[1::2] = numbers
    return _heads_and_numbers_of(count).pack(*with_heads)


@functools.lru_cache(16)
def _numbers_of(count: int) -> struct.Struct:
    return struct.Struct("<" + "3xd" * count)


@functools.lru_cache(16)
def _heads_and_numbers_of(count: int) -> struct.Struct:
    return struct.Struct("<" + "3sd" * count)


def _number(number: float) -> float:
    if number.is_integer():  # which is finite
        return int(number) if -_WHOLE <= number <= _WHOLE else number
    if not math.isfinite(number):
        raise PredictionFault(f"a number is {number}; it must be finite")
    return number


def _fill(value: Any, found: object, levels: int) -> None:
    match found:
        case None:
            value.null_value = 0
        case bool():
            value.bool_value = found
        case int() | float():
            value.number_value = found
        case str():
            value.string_value = found
        case list() | dict() if not levels:
            raise PredictionFault(f"it is nested deeper than {GRPC_VALUE_DEPTH} levels")
        case list():
            value.list_value.SetInParent()  # also where it is empty
            if {*map(type, found)} <= {int, float}:
                value.list_value.MergeFromString(_vector_of(found))
                return
            elements = value.list_value.values
            for each in found:
                _fill(elements.add(), each, levels - 1)
        case dict():
            fields = value.struct_value.fields
            value.struct_value.SetInParent()
            for name, each in found.items():
                _fill(fields[name], each, levels - 1)
