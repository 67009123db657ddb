"""Online prediction: ``{"instances": […], "parameters": …}`` there, ``{"predictions": […]}`` back.

TF Serving's columns, ``{"inputs": …}`` there and ``{"outputs": …}`` back, become rows for a
container, and its predictions columns again.

A body is checked whole and passed on as its bytes: no number in it becomes another one, however
long it is. What is changed is text: base64 that is not padded, and instances that a container wants
wrapped. All of it takes time that grows with the body alone.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from partway.protocol.json.base64_text import decoded, encoded
from partway.protocol.json.splicing import elements_of, kind_of, members_of, rows_of
from partway.protocol.json.strict import NotJson, loads, parsed, string_of
from partway.protocol.limits import KIB, MAX_JSON_DEPTH
from partway.protocol.prediction.columns import as_instances
from partway.protocol.prediction.model_signature import Signature, TensorSpec, is_bytes
from partway.protocol.prediction.signature_checks import (
    SignatureFault,
    as_b64,
    check_columns,
    check_tensors,
)

if TYPE_CHECKING:
    from partway.protocol.json.splicing import Text
    from partway.protocol.prediction.number_tensors import NumberTensor, TensorFinder

REQUEST: Final = '{"instances": […]}'
ANSWER: Final = '{"predictions": […]}'

_BOM: Final = b"\xef\xbb\xbf"
#: In valid JSON: a quote behind a brace begins a member's name, and is never inside a string.
_BINARY: Final = re.compile(rb'(\{\s*"b64"\s*:\s*)"([^"\\]*(?:\\.[^"\\]*)*)"(\s*\})')

_BEGINS: Final = re.compile(rb'(?:\xef\xbb\xbf)?[ \t\r\n]*\{[ \t\r\n]*"instances"[ \t\r\n]*:')

#: Base64 that is as every container reads it: whole groups of four, of the standard alphabet.
_GROUPS: Final = re.compile(rb"(?:[A-Za-z0-9+/]{4})*")

#: Characters of a name that a message repeats.
_MAX_NAME: Final = 60

#: Digits of a whole number that is read exactly; a longer one fits no type of a tensor.
_MAX_DIGITS: Final = 24

#: Of a body of numbers no name of a member is behind so many bytes.
_NAMES: Final = 64

#: An array takes as long to make as so many bytes of numbers; and a byte of a body with strings, if
#: the library that is fast does not see all that is wrong with it.
_ARRAY_EFFORT: Final = 64
_TEXT_EFFORT: Final = 16

#: A body, or what is in it beside a tensor, that is shorter is read in no time.
_LONG: Final = 4 * KIB

#: What is beside a tensor and shorter than so many bytes is remembered.
_SHORT: Final = 256


class PredictionFault(ValueError):
    """A body that is no request for predictions, or no answer to one; the text says what it is."""


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """A request for predictions, checked.

    Attributes:
        body: what the container gets.
        instances: how many there are, one at least.
        columns: whether they came by columns, and so are to go back.
    """

    body: bytes
    instances: int
    columns: bool = False


def read_request(
    body: bytes,
    *,
    wrap: bool = False,
    signature: Signature | None = None,
    columns: bool = False,
) -> PredictRequest:
    """Read a request's body.

    Args:
        body: JSON in UTF-8; what ``{"b64": …}`` has is base64, and need not be padded.
        wrap: whether the container wants each instance as ``{"data": …}``; an instance that is such
            an object already stays as it is.
        signature: what the instances must be; None for anything.
        columns: whether TF Serving's forms are read: columns, and the name of a signature.

    Raises:
        PredictionFault: it has no instances, or is not JSON, or something in it is no base64, or
            instances are not as the signature says.
    """
    if signature is None and not wrap and (numbers := read_numbers(body)) is not None:
        return numbers
    text = body.removeprefix(_BOM)
    looks = _looked_at(text)
    return _read(text, looks, wrap=wrap, signature=signature, columns=columns)[0]


def read_instances(body: bytes, effort: float = inf) -> list[Any] | None:
    """Read a request's body as :func:`read_request` does, and make its instances of it.

    Args:
        body: as of :func:`read_request`; for any signature, and not to be wrapped.
        effort: what it may take, in bytes of numbers: a megabyte takes 2 to 4 ms.

    Returns:
        The instances as Python has them. Their base64 is padded. A whole number that fits 64 bits
        is an ``int``, any other number a ``float``, or an ``int`` if it is whole. None where it
        would take more than ``effort``.

    Raises:
        PredictionFault: as of :func:`read_request`.
    """
    text = body.removeprefix(_BOM)
    looks = _looked_at(text)
    if looks.effort(text) > effort:
        return None
    request, instances = _read(text, looks, wrap=False, signature=None, columns=False)
    if request.body != text:
        instances = _members(request.body, REQUEST)["instances"]
    return instances


class _Looks(NamedTuple):
    """What a body looks like before it is read.

    Attributes:
        brackets: how many characters begin an array or an object, or would.
        strings: how many quotes there are where its names are; None where there are others.
        objects: whether objects may be behind the names.
    """

    brackets: int
    strings: int | None
    objects: bool

    def effort(self, text: bytes) -> int:
        """What it takes to read the body as Python has it, in bytes of numbers."""
        if self.strings is None or self.objects:
            return len(text) * _TEXT_EFFORT
        return len(text) + self.brackets * _ARRAY_EFFORT

    def is_flat(self, text: bytes, members: int) -> bool:
        """Whether no object but the outermost has a member, and that none twice.

        Args:
            text: the body, which is JSON.
            members: how many the outermost has, each counted once.
        """
        if self.strings == 2 * members:
            return True  # all strings are its names
        return text.count(b":") <= members


def _looked_at(text: bytes) -> _Looks:
    strings = None if text.find(b'"', _NAMES) >= 0 else text.count(b'"', 0, _NAMES)
    objects = text.find(b"{", _NAMES) >= 0
    braces = text.count(b"{") if objects else text.count(b"{", 0, _NAMES)
    return _Looks(text.count(b"[") + braces, strings, objects)


def _read(
    text: bytes,
    looks: _Looks,
    *,
    wrap: bool,
    signature: Signature | None,
    columns: bool,
) -> tuple[PredictRequest, list[Any]]:
    """Read a request's body; returns what its instances were made of too, or one column."""
    members = _members(text, REQUEST, looks)
    by_columns = columns and "inputs" in members
    table: Mapping[str, list[Any]] | None = None
    if by_columns:
        text, inputs = _by_rows(text, members, wrap=wrap)
        if isinstance(inputs, dict):
            table, inputs = inputs, next(iter(inputs.values()))  # as long as there are instances
        members["instances"] = inputs
    instances = members.get("instances")
    if not isinstance(instances, list) or not instances:
        found = "missing" if "instances" not in members else kind_of(instances)
        raise PredictionFault(
            f"instances: {found}; it must be an array of one value at least: {REQUEST}"
        )
    if signature is not None:
        if columns:
            _check_signature_name(members.get("signature_name"), signature)
        _check_inputs(signature, instances, table, wrap=wrap)
    # Where no object but the outermost has a member none is binary: the text is not searched.
    if (by_columns or not looks.is_flat(text, len(members))) and b'"b64"' in text:
        text = _BINARY.sub(_padded, text)
    if wrap and table is None:
        text = _wrapped(text, instances)
    return PredictRequest(text, len(instances), by_columns), instances


def begins_with_instances(body: bytes) -> bool:
    """Whether a body, if it is one of predict, begins with instances."""
    return _BEGINS.match(body) is not None


def read_numbers(body: bytes, effort: float = inf) -> PredictRequest | None:
    """Read a request's body as :func:`read_request` does, if its instances are many numbers.

    Args:
        body: as of :func:`read_request`; for any signature, and not to be wrapped.
        effort: what it may take, in bytes of numbers; see :meth:`TensorFinder.find`.

    Returns:
        None where it has to be read by :func:`read_request`, which also says what is wrong with it.
    """
    text = body.removeprefix(_BOM)
    tensor = _number_tensor(text, "instances", effort)
    return PredictRequest(text, tensor.length) if tensor is not None and tensor.length else None


def read_answer(body: bytes, instances: int, signature: Signature | None = None) -> bytes:
    """Read a container's answer.

    Args:
        body: JSON in UTF-8.
        instances: how many were asked with.
        signature: what the predictions must be; None for anything.

    Returns:
        The predictions, one for each instance in their order: an array's text, as it came. Where
        the signature has bytes they are ``{"b64": …}``, and only the other values are as they came.

    Raises:
        PredictionFault: it has no predictions, or not as many as there were instances, or is not
            JSON, or they are not as the signature says.
    """
    text = body.removeprefix(_BOM)
    if signature is None and (tensor := _number_tensor(text, "predictions")) is not None:
        _check_count(tensor.length, instances)
        return text[tensor.begin : tensor.end]
    members = _members(text, ANSWER)
    predictions = members.get("predictions")
    if not isinstance(predictions, list):
        found = "missing" if "predictions" not in members else kind_of(predictions)
        raise PredictionFault(f"predictions: {found}; it must be an array: {ANSWER}")
    _check_count(len(predictions), instances)
    written = bytes(members_of(text)["predictions"])
    if signature is not None and signature.outputs:
        _check(signature.outputs, predictions, "predictions")
        if any(is_bytes(*each) for each in signature.outputs.items()):
            return _with_bytes(written, predictions, signature.outputs)
    return written


def _check_count(predictions: int, instances: int) -> None:
    if predictions != instances:
        raise PredictionFault(
            f"there are {predictions} predictions for {instances} instances; there must be one for "
            "each"
        )


# --- Signatures --------------------------------------------------------------------------------


def _check_signature_name(given: object, signature: Signature) -> None:
    if given not in (None, "", signature.name):
        found = f"{given[:_MAX_NAME]!r}" if isinstance(given, str) else kind_of(given)
        raise PredictionFault(
            f"signature_name: {found}; it must be {signature.name!r}, the only one that there is"
        )


def _by_rows(
    text: bytes, members: dict[str, Any], *, wrap: bool
) -> tuple[bytes, list[Any] | dict[str, list[Any]]]:
    try:
        return as_instances(text, members, wrap=wrap)
    except SignatureFault as fault:
        raise PredictionFault(str(fault)) from None


def _check_inputs(
    signature: Signature,
    instances: list[Any],
    table: Mapping[str, list[Any]] | None,
    *,
    wrap: bool,
) -> None:
    """Hold instances to a signature, wrapped or not; of a table's rows none is made for it."""
    if table is None:
        instances = [each["data"] if wrap and _is_wrapped(each) else each for each in instances]
    elif not (wrap and _is_wrapped(table)):
        try:
            check_columns(signature.inputs, table, "instances")
        except SignatureFault as fault:
            raise PredictionFault(str(fault)) from None
        return
    _check(signature.inputs, instances, "instances")


def _check(specs: Mapping[str, TensorSpec], rows: list[Any], what: str) -> None:
    try:
        check_tensors(specs, rows, what)
    except SignatureFault as fault:
        raise PredictionFault(str(fault)) from None


def _with_bytes(text: bytes, predictions: list[Any], specs: Mapping[str, TensorSpec]) -> bytes:
    """Predictions whose bytes are ``{"b64": …}``; no other value changes."""
    binary = {alias for alias, spec in specs.items() if is_bytes(alias, spec)}

    def written(element: Text, value: Any) -> Text:
        if not isinstance(value, dict) or value.keys() == {"b64"}:
            return _b64(value)
        members = (
            b"%b: %b" % (string_of(name), _b64(value[name]) if name in binary else each)
            for name, each in members_of(element).items()
        )
        return b"{%b}" % b", ".join(members)

    texts = list(map(written, elements_of(text), predictions))
    return b"[%b]" % b", ".join(rows_of([b"", b""], [texts])) if texts else text


def _b64(value: Any) -> bytes:
    return json.dumps(as_b64(value)).encode()


# --- The whole body ------------------------------------------------------------------------------


def _number_tensor(text: bytes, name: str, effort: float = inf) -> NumberTensor | None:
    """A member that is a tensor of numbers, if all else is short and right, and has no bytes.

    Where there is none the body has to be read whole, which also says what is wrong with it.
    """
    if len(text) < _LONG or (found := _finder(name).find(text, effort)) is None:
        return None
    others = b"%b[]%b" % (text[: found.begin], text[found.end :])
    if len(others) > _LONG:
        return None  # which may be wrong at its very end, and would be read twice
    is_right = _is_right_known(others) if len(others) <= _SHORT else _is_right(others)
    return found if is_right else None


def _is_right(others: bytes) -> bool:
    """Whether what is beside a tensor is right, and has neither columns nor bytes."""
    try:
        members = _members(others, "")
    except PredictionFault:
        return False
    return "inputs" not in members and b'"b64"' not in others


#: The same of what is short: beside one tensor after the other it is mostly that.
_is_right_known: Final = functools.lru_cache(maxsize=64)(_is_right)


@functools.cache
def _finder(name: str) -> TensorFinder:
    from partway.protocol.prediction.number_tensors import TensorFinder  # what it needs takes 10 ms

    return TensorFinder(name)


def _members(text: bytes, wanted: str, looks: _Looks | None = None) -> dict[str, Any]:
    """The members of a body; numbers in it are anything.

    Args:
        text: the body.
        wanted: what it must be, in words.
        looks: what it looks like, if that is known.

    Raises:
        PredictionFault: it is no object, or no JSON.
    """
    value = _value(text, looks or _looked_at(text))
    if not isinstance(value, dict):
        raise PredictionFault(f"the body: {kind_of(value)}; it must be an object: {wanted}")
    return value


def _value(text: bytes, looks: _Looks) -> object:
    """The body as Python has it, by the library that is fast, where that sees all that is wrong.

    Of a member that is there twice it says nothing: it is believed where there are no more colons
    than all objects have members, so that each has its own.
    """
    try:
        value = loads(text)
    except ValueError:
        value = None  # its numbers are bounded too, so this may be JSON all the same
    if isinstance(value, dict):
        members = _count_members(value, looks.brackets)
        if looks.strings == 2 * len(value) or text.count(b":") == members:
            return value
    try:
        value = parsed(text, _number)
    except NotJson as error:
        at = "" if error.at is None else f" at character {error.at}"
        raise PredictionFault(f"the body is not JSON: {error.why}{at}") from None
    _count_members(value, looks.brackets)
    return value


def _number(text: str) -> float:
    """A number's value, near enough to be held to bounds: one of many digits takes no time."""
    is_whole = len(text) <= _MAX_DIGITS and text.lstrip("-").isdecimal()
    return int(text) if is_whole else float(text)


def _count_members(value: object, brackets: int) -> int:
    """How many members all objects have together.

    Values that are no arrays and no objects are not looked at, where no array and no object can be
    left among them: there are as many of both as brackets, or fewer.

    Args:
        value: the body, as it was read.
        brackets: how many characters of the body begin an array or an object, or would.

    Raises:
        PredictionFault: they are nested too deep.
    """
    left = brackets
    level: list[Any] = [value]
    count = 0
    for depth in range(MAX_JSON_DEPTH + 1):
        kinds = [*map(type, level)]
        arrays = kinds.count(list)
        # To compare with what they are not takes twenty times as long.
        objects = kinds.count(dict) if arrays < len(kinds) else 0
        left -= objects + arrays
        if objects:
            count += sum(len(each) for each in level if type(each) is dict)
        if not left and depth < MAX_JSON_DEPTH:
            return count  # nothing below is an array or an object
        if arrays == len(level):
            level = list(chain.from_iterable(level))
        else:
            within = (each for each in level if type(each) in (list, dict))
            level = list(chain.from_iterable(map(_members_in, within)))
        if not level:
            return count
    raise PredictionFault(f"the body is not read: it is nested deeper than {MAX_JSON_DEPTH} levels")


def _members_in(value: Any) -> Iterable[Any]:
    """The elements of an array, or the values of an object."""
    return value.values() if type(value) is dict else value


# --- Binary values -------------------------------------------------------------------------------


def _padded(found: re.Match[bytes]) -> bytes:
    """The same value with its base64 as every container reads it."""
    value: bytes = found[2]
    if _GROUPS.fullmatch(value):
        return found[0]
    text = json.loads(b'"%b"' % value) if b"\\" in value else value.decode()
    try:
        canonical = encoded(decoded(text))
    except ValueError as error:
        raise PredictionFault(
            f'{{"b64": …}} at byte {found.start()}: {error}; it must be base64'
        ) from None
    return b'%b"%b"%b' % (found[1], canonical.encode(), found[3])


def _wrapped(body: bytes, instances: list[Any]) -> bytes:
    members = members_of(body)
    texts = elements_of(members["instances"])
    seams = [b'{"data": ', b"}"]
    if any(map(_is_wrapped, instances)):
        seams = [b"", b""]
        texts = [
            each if _is_wrapped(value) else b'{"data": %b}' % each
            for each, value in zip(texts, instances, strict=True)
        ]
    wrapped: dict[str, Text] = dict(members)
    wrapped["instances"] = b"[%b]" % b", ".join(rows_of(seams, [texts]))
    written = (b"%b: %b" % (string_of(name), each) for name, each in wrapped.items())
    return b"{%b}" % b", ".join(written)


def _is_wrapped(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {"data"}
