"""Online prediction: ``{"instances": […], "parameters": …}`` there, ``{"predictions": […]}`` back.

A body is checked whole and passed on as its bytes: no number in it becomes another one, however
long it is. What is changed is text: base64 that is not padded, and instances that a container wants
wrapped. All of it takes time that grows with the body alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import orjson

from partway.protocol.base64_text import decoded, encoded
from partway.protocol.json_text import NotJson, parsed
from partway.protocol.limits import MAX_JSON_DEPTH

REQUEST: Final = '{"instances": […]}'
ANSWER: Final = '{"predictions": […]}'

_BOM: Final = b"\xef\xbb\xbf"
_SPACE: Final = re.compile(r"[ \t\r\n]*")
#: In valid JSON: a quote behind a brace begins a member's name, and is never inside a string.
_BINARY: Final = re.compile(rb'(\{\s*"b64"\s*:\s*)"([^"\\]*(?:\\.[^"\\]*)*)"(\s*\})')
_KINDS: Final = {dict: "an object", str: "a string", bool: "a boolean", type(None): "null"}

#: Finds where a value ends. Numbers are looked at by their length alone.
_VALUES: Final = json.JSONDecoder(parse_int=len, parse_float=len)


class PredictionFault(ValueError):
    """A body that is no request for predictions, or no answer to one; the text says what it is."""


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """A request for predictions, checked.

    Attributes:
        body: what the container gets.
        instances: how many there are, one at least.
    """

    body: bytes
    instances: int


def read_request(body: bytes, *, wrap: bool = False) -> PredictRequest:
    """Read a request's body.

    Args:
        body: JSON in UTF-8; what ``{"b64": …}`` has is base64, and need not be padded.
        wrap: whether the container wants each instance as ``{"data": …}``; an instance that is such
            an object already stays as it is.

    Raises:
        PredictionFault: it has no instances, or is not JSON, or something in it is no base64.
    """
    text = body.removeprefix(_BOM)
    members = _members(text, REQUEST)
    instances = members.get("instances")
    if not isinstance(instances, list) or not instances:
        found = "missing" if "instances" not in members else _kind(instances)
        raise PredictionFault(
            f"instances: {found}; it must be an array of one value at least: {REQUEST}"
        )
    if b'"b64"' in text:
        text = _BINARY.sub(_padded, text)
    if wrap:
        text = _wrapped(text, instances)
    return PredictRequest(text, len(instances))


def read_answer(body: bytes, instances: int) -> bytes:
    """Read a container's answer.

    Args:
        body: JSON in UTF-8.
        instances: how many were asked with.

    Returns:
        The predictions, one for each instance in their order: an array's text, as it came.

    Raises:
        PredictionFault: it has no predictions, or not as many as there were instances, or is not
            JSON.
    """
    text = body.removeprefix(_BOM)
    members = _members(text, ANSWER)
    predictions = members.get("predictions")
    if not isinstance(predictions, list):
        found = "missing" if "predictions" not in members else _kind(predictions)
        raise PredictionFault(f"predictions: {found}; it must be an array: {ANSWER}")
    if len(predictions) != instances:
        raise PredictionFault(
            f"there are {len(predictions)} predictions for {instances} instances; there must be "
            "one for each"
        )
    decoded_text = text.decode()
    begin, end = _place(decoded_text, "predictions")
    return decoded_text[begin:end].encode()


# --- The whole body ------------------------------------------------------------------------------


def _members(text: bytes, wanted: str) -> dict[str, Any]:
    """The members of a body; numbers in it are anything.

    Raises:
        PredictionFault: it is no object, or no JSON.
    """
    value = _value(text)
    _check_depth(value)
    if not isinstance(value, dict):
        raise PredictionFault(f"the body: {_kind(value)}; it must be an object: {wanted}")
    return value


def _value(text: bytes) -> object:
    """The body as Python has it, by the library that is fast, where that sees all that is wrong.

    Of a member that is there twice it says nothing: it is believed where there are no more colons
    than the body itself has members, so that no other object has any.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None  # its numbers are bounded too, so this may be JSON all the same
    if isinstance(value, dict) and text.count(b":") == len(value):
        return value
    try:
        return parsed(text, len)
    except NotJson as error:
        at = "" if error.at is None else f" at character {error.at}"
        raise PredictionFault(f"the body is not JSON: {error.why}{at}") from None


def _check_depth(value: object) -> None:
    level: list[Any] = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        level = [each for each in level if type(each) in (list, dict) and each]
        if not level:
            return
        level = list(
            chain.from_iterable(each.values() if type(each) is dict else each for each in level)
        )
    raise PredictionFault(f"the body is not read: it is nested deeper than {MAX_JSON_DEPTH} levels")


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "an array was given" if value else "an empty array was given"
    return f"{_KINDS.get(type(value), 'a number')} was given"


# --- Binary values -------------------------------------------------------------------------------


def _padded(found: re.Match[bytes]) -> bytes:
    """The same value with its base64 as every container reads it."""
    text = json.loads(b'"%b"' % found[2])
    try:
        canonical = encoded(decoded(text))
    except ValueError as error:
        raise PredictionFault(
            f'{{"b64": …}} at byte {found.start()}: {error}; it must be base64'
        ) from None
    return b'%b"%b"%b' % (found[1], canonical.encode(), found[3])


# --- Where values are ----------------------------------------------------------------------------


def _wrapped(body: bytes, instances: list[Any]) -> bytes:
    text = body.decode()
    begin, end = _place(text, "instances")
    wrapped = ", ".join(
        each if isinstance(value, dict) and value.keys() == {"data"} else f'{{"data": {each}}}'
        for each, value in zip(_elements(text, begin), instances, strict=True)
    )
    return f"{text[:begin]}[{wrapped}]{text[end:]}".encode()


def _place(text: str, wanted: str) -> tuple[int, int]:
    """Where the value of a member of an object begins and ends.

    Args:
        text: the object, which is valid JSON and has the member.
        wanted: the member's name.
    """
    at = text.index("{") + 1
    while True:
        name, at = _VALUES.raw_decode(text, _behind_space(text, at))
        begin = _behind_space(text, text.index(":", at) + 1)
        _, end = _VALUES.raw_decode(text, begin)
        if name == wanted:
            return begin, end
        at = text.index(",", end) + 1


def _elements(text: str, begin: int) -> Iterator[str]:
    """The texts of an array's elements; it is valid JSON, and has one at least."""
    while text[begin] != "]":
        begin = _behind_space(text, begin + 1)
        _, end = _VALUES.raw_decode(text, begin)
        yield text[begin:end]
        begin = _behind_space(text, end)


def _behind_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None, "it fits nothing too"
    return found.end()
