"""``google.protobuf.Value`` ↔ JSON. The only numbers in a Value are doubles.

Values are read and written as protobuf's bytes, level by level, and all values of one kind
together: a message object for each would cost microseconds. Only bytes that protobuf itself has
written are read here.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from json.encoder import encode_basestring
from operator import add
from typing import Any, Final, TypeVar

import orjson

from partway.protocol.json.strict import loads
from partway.protocol.limits import GRPC_VALUE_DEPTH
from partway.protocol.prediction.bodies import PredictionFault
from partway.protocol.prediction.checkpoints import checkpoint

_T = TypeVar("_T")
_K = TypeVar("_K")

#: A number as an element of a ListValue: the heads of element and Value, and the double.
_NUMBER_HEADS: Final = b"\x0a\x09\x11"
_ELEMENTS: Final = struct.Struct("<3xd")
_ELEMENT_BYTES: Final = _ELEMENTS.size

#: A number as a Value.
_NUMBERS: Final = struct.Struct("<xd")
_NUMBER_BYTES: Final = _NUMBERS.size

#: Numbers written by one ``struct`` format, which takes memory for each number.
_LONG_VECTOR: Final = 1024

#: Up to here a double holds every whole number (IEEE 754).
_WHOLE: Final = 2.0**53

#: The Values null, false and true.
_NULL: Final = b"\x08\x00"
_BOOLEANS: Final = (b"\x20\x00", b"\x20\x01")

#: The first bytes of a Value, by its kind; the last three begin with their length.
_IS_NULL, _IS_NUMBER, _IS_BOOLEAN = b"\x08", b"\x11", b"\x20"
_IS_STRING, _IS_STRUCT, _IS_LIST = b"\x1a", b"\x2a", b"\x32"

#: Tags of an element of a ListValue or an entry of a Struct, and of an entry's name and Value.
_ELEMENT, _NAME, _VALUE = b"\x0a", b"\x0a", b"\x12"

#: Up to this length, a varint takes one byte.
_SHORT: Final = 127


def json_of(values: Iterable[Any]) -> bytes:
    """Convert Values to a JSON array. A whole number is written as one, as in protobuf's own JSON.

    Args:
        values: of ``google.protobuf.Value``; unknown fields are dropped.

    Raises:
        PredictionFault: a Value is NaN, infinite, or has no kind.
    """
    texts = []
    for each in values:
        each.DiscardUnknownFields()
        texts.append(each.SerializeToString())
    return b"[%b]" % b",".join(_json(texts))


def values_of(text: bytes) -> bytes:
    """Convert a JSON array to the fields of a message whose field 1 repeats ``Value``.

    Args:
        text: an array, valid JSON.

    Raises:
        PredictionFault: a number is larger than a double can be, a string not Unicode, or a value
            is nested deeper than clients read.
    """
    try:
        found = loads(text)
    except ValueError:
        raise PredictionFault(
            "a number is larger than a double can be, or a string has half of a surrogate pair"
        ) from None
    return _lists([found], GRPC_VALUE_DEPTH)[0]


# --- From values ---------------------------------------------------------------------------------


def _json(values: list[bytes]) -> list[bytes]:
    """Convert Values to JSON texts."""
    checkpoint()
    return _by_kind(values, [each[:1] for each in values], _json_of)


def _json_of(kind: bytes, values: list[bytes]) -> list[bytes]:
    """Convert Values of one kind to JSON texts."""
    if kind == _IS_NUMBER:
        numbers = [_number(each) for (each,) in _NUMBERS.iter_unpack(b"".join(values))]
        return orjson.dumps(numbers)[1:-1].split(b",")
    if kind == _IS_LIST:
        return _arrays([*map(_content, values)])
    if kind == _IS_STRUCT:
        return _objects([*map(_content, values)])
    if kind == _IS_STRING:
        return [*map(_string, map(_content, values))]
    if kind == _IS_BOOLEAN:
        return [b"true" if each == _BOOLEANS[True] else b"false" for each in values]
    if kind == _IS_NULL:
        return [b"null"] * len(values)
    raise PredictionFault("a google.protobuf.Value has no kind; it must have one")


def _arrays(lists: list[bytes]) -> list[bytes]:
    """Convert ListValues to JSON texts."""
    if all(lists) and _are_numbers(b"".join(lists)):
        return _vectors(lists)
    return _by_kind(lists, [bool(each) and _are_numbers(each) for each in lists], _arrays_of)


def _arrays_of(vectors: bool, lists: list[bytes]) -> list[bytes]:
    """Convert ListValues to JSON texts; all of them are vectors of numbers, or none is."""
    if vectors:
        return _vectors(lists)
    elements = [_split(each) for each in lists]
    texts = _json([*chain.from_iterable(elements)])
    return [b"[%b]" % each for each in _joined(elements, texts, b",")]


def _vectors(lists: list[bytes]) -> list[bytes]:
    numbers = [_vector(each) for each in lists]
    return [b"[%b]" % each for each in orjson.dumps(numbers)[2:-2].split(b"],[")]


def _objects(objects: list[bytes]) -> list[bytes]:
    """Convert Structs to JSON texts."""
    entries = [_split(each) for each in objects]
    both = [_split(each) for each in chain.from_iterable(entries)]
    names = [_string(name) for name, _ in both]
    values = _json([value for _, value in both])
    members = [b"%b:%b" % each for each in zip(names, values, strict=True)]
    return [b"{%b}" % each for each in _joined(entries, members, b",")]


def _split(text: bytes) -> list[bytes]:
    """Split a message into its fields; each must begin with a one-byte tag and a length."""
    found, at, end = [], 0, len(text)
    while at < end:
        size = text[at + 1]
        at += 2
        if size > _SHORT:
            size, at = _length(text, at - 1)
        found.append(text[at : at + size])
        at += size
    return found


def _content(value: bytes) -> bytes:
    """Return the content of a Value, without tag and length."""
    return value[2:] if value[1] <= _SHORT else value[_length(value, 1)[1] :]


def _length(text: bytes, at: int) -> tuple[int, int]:
    """Decode a length (a varint); return it with its end."""
    size = shift = 0
    while True:
        size |= (text[at] & 127) << shift
        at += 1
        if text[at - 1] <= _SHORT:
            return size, at
        shift += 7


def _string(text: bytes) -> bytes:
    return encode_basestring(text.decode()).encode()


def _are_numbers(text: bytes) -> bool:
    """Whether a ListValue has only numbers."""
    if not text.startswith(_NUMBER_HEADS):
        return not text
    count, rest = divmod(len(text), _ELEMENT_BYTES)
    return not rest and all(
        text[place::_ELEMENT_BYTES] == _NUMBER_HEADS[place : place + 1] * count
        for place in range(len(_NUMBER_HEADS))
    )


def _vector(text: bytes) -> Sequence[float]:
    """Return the numbers of a ListValue that has only numbers."""
    numbers = [each for (each,) in _ELEMENTS.iter_unpack(text)]
    if math.isfinite(sum(numbers)) and not any(map(float.is_integer, numbers)):
        return numbers  # each is written as a float
    return [*map(_number, numbers)]


def _number(number: float) -> float:
    if number.is_integer():  # then it is finite
        return int(number) if -_WHOLE <= number <= _WHOLE else number
    if not math.isfinite(number):
        raise PredictionFault(f"a number is {number}; it must be finite")
    return number


# --- To values -----------------------------------------------------------------------------------


def _fields(tag: bytes, found: list[Any], levels: int) -> list[bytes]:
    """Encode JSON values as fields of a message, each a ``google.protobuf.Value``.

    ``levels`` is how deep arrays and objects may be nested.
    """
    checkpoint()

    def made(kind: type, of_kind: list[Any]) -> list[bytes]:
        return _fields_of(tag, kind, of_kind, levels)

    return _by_kind(found, [*map(type, found)], made)


def _fields_of(tag: bytes, kind: type, found: list[Any], levels: int) -> list[bytes]:
    """Encode values of one kind as fields of a message; see :func:`_fields`."""
    if kind is str:
        return _with_heads((tag, _IS_STRING), [each.encode() for each in found])
    if kind is bool:
        return _with_heads((tag,), [_BOOLEANS[each] for each in found])
    if kind is type(None):
        return _with_heads((tag,), [_NULL] * len(found))
    if kind is int or kind is float:
        packed = _packed(found)
        begin, size = _ELEMENT_BYTES - _NUMBER_BYTES, _ELEMENT_BYTES
        places = range(0, len(packed), size)
        return _with_heads((tag,), [packed[at + begin : at + size] for at in places])
    if not levels:
        raise PredictionFault(f"it is nested deeper than {GRPC_VALUE_DEPTH} levels")
    if kind is list:
        return _with_heads((tag, _IS_LIST), _lists(found, levels - 1))
    return _with_heads((tag, _IS_STRUCT), _structs(found, levels - 1))


def _lists(lists: list[list[Any]], levels: int) -> list[bytes]:
    """Encode arrays, each as a ListValue."""
    flat = [*chain.from_iterable(lists)]
    if {*map(type, flat)} <= {int, float}:
        packed, end = _packed(flat), 0
        return [packed[end : (end := end + len(each) * _ELEMENT_BYTES)] for each in lists]
    return _joined(lists, _fields(_ELEMENT, flat, levels))


def _structs(objects: list[dict[str, Any]], levels: int) -> list[bytes]:
    names = _with_heads((_NAME,), [each.encode() for each in chain.from_iterable(objects)])
    values = _fields(_VALUE, [*chain.from_iterable(map(dict.values, objects))], levels)
    return _joined(objects, _with_heads((_ELEMENT,), [*map(add, names, values)]))


def _packed(numbers: list[float]) -> bytes:
    """Encode numbers as the elements of a ListValue."""
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


def _with_heads(tags: tuple[bytes, ...], texts: list[bytes]) -> list[bytes]:
    """Encode texts as fields of a message.

    ``tags`` is the field's tag or, for a field within a field, the outer tag and the inner;
    ``texts`` are the contents of the innermost field.
    """
    heads = _short_heads(tags)
    return [
        (heads[len(each)] if len(each) < len(heads) else _head(tags, len(each))) + each
        for each in texts
    ]


@functools.cache
def _short_heads(tags: tuple[bytes, ...]) -> Sequence[bytes]:
    """Return the heads of short texts, by the length of the text."""
    return [_head(tags, size) for size in range(_SHORT)]


def _head(tags: tuple[bytes, ...], size: int) -> bytes:
    """Return the tags and lengths before a text of ``size`` bytes."""
    head = b""
    for tag in reversed(tags):
        head = tag + _varint(len(head) + size) + head
    return head


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > _SHORT:
        digits.append(number & 127 | 128)
        number >>= 7
    digits.append(number)
    return bytes(digits)


# --- Both ----------------------------------------------------------------------------------------


def _by_kind(
    found: list[_T], kinds: list[_K], made: Callable[[_K, list[_T]], list[bytes]]
) -> list[bytes]:
    """Convert values to texts; those of one kind are converted together."""
    several = {*kinds}
    if len(several) == 1:
        return made(several.pop(), found)
    texts = [b""] * len(found)
    for kind in several:
        places = [place for place, each in enumerate(kinds) if each == kind]
        for place, each in zip(places, made(kind, [found[at] for at in places]), strict=True):
            texts[place] = each
    return texts


def _joined(
    groups: Sequence[list[Any] | dict[str, Any]], texts: list[bytes], between: bytes = b""
) -> list[bytes]:
    """Join texts into one per group, as many as the group has members."""
    if {*map(len, groups)} == {1}:
        return texts
    left = iter(texts)
    return [between.join(islice(left, len(each))) for each in groups]
