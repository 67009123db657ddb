"""``google.protobuf.Value`` ↔ JSON: a number there is a double, and nothing else.

Values are read and written level by level, all of one kind together. So a nested array costs as
much as so many arrays beside each other, and vectors of numbers are read and written in one call.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from operator import add, attrgetter, methodcaller
from typing import Any, Final

import orjson

from partway.protocol.checkpoints import checkpoint
from partway.protocol.json_text import loads
from partway.protocol.limits import GRPC_VALUE_DEPTH
from partway.protocol.prediction import PredictionFault

#: An element of a ListValue that is a number, as protobuf writes it: both heads, and the double.
#: Vectors are read and written so, in a tenth of the time that an object for each number takes.
_NUMBER_HEADS: Final = b"\x0a\x09\x11"
_NUMBER: Final = struct.Struct("<3sd")
_NUMBERS: Final = struct.Struct("<3xd")

#: Where the Value itself begins in such an element.
_NUMBER_VALUE: Final = 2

#: Numbers of a vector that are read, or written, by one format, which takes memory for each.
_LONG_VECTOR: Final = 1024

#: Doubles up to here are all the whole numbers that there are (IEEE 754).
_WHOLE: Final = 2.0**53

#: A Value that is null, and those that are false and true.
_NULL: Final = b"\x08\x00"
_BOOLEANS: Final = (b"\x20\x00", b"\x20\x01")

#: Tags of fields that begin with their length: a Value's string, struct and list, an element of a
#: ListValue or an entry of a Struct, and an entry's name and Value.
_STRING, _STRUCT, _LIST = b"\x1a", b"\x2a", b"\x32"
_ELEMENT, _NAME, _VALUE = b"\x0a", b"\x0a", b"\x12"

_kind_of: Final = methodcaller("WhichOneof", "kind")
_list_of: Final = attrgetter("list_value")
_fields_of: Final = attrgetter("struct_value.fields")


def json_of(values: Iterable[Any]) -> bytes:
    """An array in JSON of values. A whole number is written as one, as protobuf's own JSON does.

    Args:
        values: of ``google.protobuf.Value``.

    Raises:
        PredictionFault: one is not a number, or infinite, or nothing at all.
    """
    return orjson.dumps(_plain([*values]))


def values_of(text: bytes) -> bytes:
    """The elements of an array in JSON, as a message has them whose field 1 repeats ``Value``.

    Args:
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
    return _elements([found], GRPC_VALUE_DEPTH)[0]


# --- From values ---------------------------------------------------------------------------------


def _plain(values: Sequence[Any]) -> Sequence[Any]:
    """Values as orjson writes them."""
    checkpoint()
    kinds = [*map(_kind_of, values)]
    several = {*kinds}
    if len(several) > 1:
        found: list[Any] = [None] * len(values)
        for kind in several:
            places = [place for place, each in enumerate(kinds) if each == kind]
            plain = _plain_of(kind, [values[place] for place in places])
            for place, each in zip(places, plain, strict=True):
                found[place] = each
        return found
    return _plain_of(kinds[0], values) if kinds else []


def _plain_of(kind: str | None, values: Sequence[Any]) -> Sequence[Any]:
    """Values of one kind."""
    match kind:
        case "number_value":
            return [_number(each.number_value) for each in values]
        case "list_value":
            return _lists([*map(_list_of, values)])
        case "struct_value":
            return _objects([*map(_fields_of, values)])
        case "string_value":
            return [each.string_value for each in values]
        case "bool_value":
            return [each.bool_value for each in values]
        case "null_value":
            return [None] * len(values)
        case _:
            raise PredictionFault("a google.protobuf.Value has no kind; it must have one")


def _lists(lists: Sequence[Any]) -> list[Sequence[Any]]:
    found = _vectors(lists)
    places = [place for place, each in enumerate(found) if each is None]
    elements = [[*lists[place].values] for place in places]
    plain = iter(_plain([*chain.from_iterable(elements)]))
    for place, each in zip(places, elements, strict=True):
        found[place] = [*islice(plain, len(each))]
    return found  # type: ignore[return-value]


def _vectors(lists: Sequence[Any]) -> list[Sequence[float] | None]:
    """The numbers of each list that has numbers alone; None for any other."""
    texts = [each.SerializeToString() if _begins_with_number(each) else b"" for each in lists]
    aligned = not any(len(each) % _NUMBER.size for each in texts)
    if aligned and all(texts) and _are_numbers(b"".join(texts)):
        return [_vector(each) for each in texts]
    return [_vector(each) if each and _are_numbers(each) else None for each in texts]


def _begins_with_number(listed: Any) -> bool:
    values = listed.values
    return bool(values) and _kind_of(values[0]) == "number_value"


def _objects(objects: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = [[*each] for each in objects]
    values = chain.from_iterable(
        [each[name] for name in of_it] for each, of_it in zip(objects, names, strict=True)
    )
    plain = iter(_plain([*values]))
    return [dict(zip(each, islice(plain, len(each)), strict=True)) for each in names]


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


@functools.lru_cache(16)
def _numbers_of(count: int) -> struct.Struct:
    return struct.Struct("<" + "3xd" * count)


def _number(number: float) -> float:
    if number.is_integer():  # which is finite
        return int(number) if -_WHOLE <= number <= _WHOLE else number
    if not math.isfinite(number):
        raise PredictionFault(f"a number is {number}; it must be finite")
    return number


# --- To values -----------------------------------------------------------------------------------


def _values(found: list[Any], levels: int) -> list[bytes]:
    """What JSON has, each as the bytes of a Value.

    Args:
        found: as Python has it.
        levels: how deep arrays and objects may be nested.
    """
    checkpoint()
    several = {*map(type, found)}
    if len(several) > 1:
        texts = [b""] * len(found)
        for kind in several:
            places = [place for place, each in enumerate(found) if type(each) is kind]
            written = _values_of(kind, [found[place] for place in places], levels)
            for place, each in zip(places, written, strict=True):
                texts[place] = each
        return texts
    return _values_of(several.pop(), found, levels) if several else []


def _values_of(kind: type, found: list[Any], levels: int) -> list[bytes]:
    """What is of one kind, each as the bytes of a Value."""
    if kind is str:
        return _with_lengths(_STRING, [each.encode() for each in found])
    if kind is bool:
        return [_BOOLEANS[each] for each in found]
    if kind is type(None):
        return [_NULL] * len(found)
    if kind is list or kind is dict:
        if not levels:
            raise PredictionFault(f"it is nested deeper than {GRPC_VALUE_DEPTH} levels")
        if kind is list:
            return _with_lengths(_LIST, _elements(found, levels - 1))
        return _with_lengths(_STRUCT, _entries(found, levels - 1))
    packed, size = _packed(found), _NUMBER.size
    places = range(_NUMBER_VALUE, len(packed), size)
    return [packed[place : place + size - _NUMBER_VALUE] for place in places]


def _elements(lists: list[list[Any]], levels: int) -> list[bytes]:
    """Arrays, each as the bytes of a ListValue."""
    flat = [*chain.from_iterable(lists)]
    if {*map(type, flat)} <= {int, float}:
        packed, size, end = _packed(flat), _NUMBER.size, 0
        return [packed[end : (end := end + len(each) * size)] for each in lists]
    return _joined(lists, _with_lengths(_ELEMENT, _values(flat, levels)))


def _entries(objects: list[dict[str, Any]], levels: int) -> list[bytes]:
    """Objects, each as the bytes of a Struct."""
    names = [name.encode() for name in chain.from_iterable(objects)]
    values = _values([*chain.from_iterable(map(dict.values, objects))], levels)
    entries = map(add, _with_lengths(_NAME, names), _with_lengths(_VALUE, values))
    return _joined(objects, _with_lengths(_ELEMENT, [*entries]))


def _joined(groups: Iterable[list[Any] | dict[str, Any]], texts: list[bytes]) -> list[bytes]:
    """Texts joined, as many to one as each group has members."""
    left = iter(texts)
    return [b"".join(islice(left, len(each))) for each in groups]


def _packed(numbers: list[float]) -> bytes:
    """The elements of a ListValue of these numbers."""
    pieces = []
    for place in range(0, len(numbers), _LONG_VECTOR):
        some = numbers[place : place + _LONG_VECTOR]
        with_heads: list[object] = [_NUMBER_HEADS] * (2 * len(some))
        with_heads[1::2] = some
        pieces.append(_heads_and_numbers_of(len(some)).pack(*with_heads))
    return b"".join(pieces)


@functools.lru_cache(16)
def _heads_and_numbers_of(count: int) -> struct.Struct:
    return struct.Struct("<" + "3sd" * count)


def _with_lengths(tag: bytes, texts: list[bytes]) -> list[bytes]:
    """Fields of a message: each text behind its tag and its length (a varint)."""
    short = _short_heads(tag)
    return [
        (short[len(each)] if len(each) < len(short) else tag + _varint(len(each))) + each
        for each in texts
    ]


@functools.cache
def _short_heads(tag: bytes) -> Sequence[bytes]:
    """Tag and length of texts of less than 128 bytes, by their lengths."""
    return [tag + _varint(size) for size in range(128)]


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    digits.append(number)
    return bytes(digits)
