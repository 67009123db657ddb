"""Online prediction bodies: ``{"instances": […], "parameters": …}`` and ``{"predictions": […]}``.

TF Serving's columns, ``{"inputs": …}`` in a request and ``{"outputs": …}`` in an answer, become
rows for a container, and its predictions become columns again.

A body is checked as a whole and passed on as its bytes, so numbers of any length stay unchanged.
Only two kinds of text change: unpadded base64, and instances that a container wants wrapped. All
steps take time that grows linearly with the body.
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
#: Finds {"b64": …} in valid JSON: a quote after a brace begins a member's name, and is never inside
#: a string.
_BINARY: Final = re.compile(rb'(\{\s*"b64"\s*:\s*)"([^"\\]*(?:\\.[^"\\]*)*)"(\s*\})')

_BEGINS: Final = re.compile(rb'(?:\xef\xbb\xbf)?[ \t\r\n]*\{[ \t\r\n]*"instances"[ \t\r\n]*:')

#: Base64 that every container can read: whole groups of four, of the standard alphabet.
_GROUPS: Final = re.compile(rb"(?:[A-Za-z0-9+/]{4})*")

#: Characters of a name that a message repeats.
_MAX_NAME: Final = 60

#: Most digits of a whole number that is read exactly; a longer one fits no tensor type.
_MAX_DIGITS: Final = 24

#: In a body of numbers, all member names are within this many first bytes.
_NAMES: Final = 64

#: Cost of creating an array, as bytes of numbers; and the cost per byte of a body with strings, in
#: case the fast library cannot check it fully.
_ARRAY_EFFORT: Final = 64
_TEXT_EFFORT: Final = 16

#: A shorter body, or a shorter rest of a body beside its tensor, costs almost nothing to parse.
_LONG: Final = 4 * KIB

#: A shorter rest of a body beside its tensor is cached.
_SHORT: Final = 256


class PredictionFault(ValueError):
    """An invalid prediction request or answer; the text says what it must be."""


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """A request for predictions, checked.

    Attributes:
        body: the body for the container.
        instances: number of instances, at least one.
        columns: whether the request had columns, so that the answer needs columns too.
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
        body: JSON in UTF-8; the base64 in ``{"b64": …}`` need not be padded.
        wrap: whether the container wants each instance as ``{"data": …}``; an instance that is
            wrapped already stays as it is.
        signature: the tensors that the instances must have; None for any instances.
        columns: whether TF Serving's members ``inputs`` and ``signature_name`` are accepted.

    Raises:
        PredictionFault: the body is not JSON, has no instances, has invalid base64, or its
            instances do not match the signature.
    """
    if signature is None and not wrap and (numbers := read_numbers(body)) is not None:
        return numbers
    text = body.removeprefix(_BOM)
    looks = _looked_at(text)
    return _read(text, looks, wrap=wrap, signature=signature, columns=columns)[0]


def read_instances(body: bytes, effort: float = inf) -> list[Any] | None:
    """Read a request's body as :func:`read_request` does, and return its instances.

    Args:
        body: as for :func:`read_request`, without signature and wrapping.
        effort: the largest cost, in bytes of numbers: a megabyte takes 2 to 4 ms.

    Returns:
        The instances as Python objects. Their base64 is padded. A whole number that fits 64 bits is
        an ``int``, any other number a ``float``, or an ``int`` if it is whole. None if the cost is
        over ``effort``.

    Raises:
        PredictionFault: see :func:`read_request`.
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
    """Features of a body that are known before it is parsed.

    Attributes:
        brackets: number of characters that begin an array or an object, if they are not in a
            string.
        strings: number of quotes among the names at its beginning; None if there are others.
        objects: whether objects may follow those names.
    """

    brackets: int
    strings: int | None
    objects: bool

    def effort(self, text: bytes) -> int:
        """Return the cost of parsing the body into Python objects, in bytes of numbers."""
        if self.strings is None or self.objects:
            return len(text) * _TEXT_EFFORT
        return len(text) + self.brackets * _ARRAY_EFFORT

    def is_flat(self, text: bytes, members: int) -> bool:
        """Whether only the outermost object has members, and none of them twice.

        Args:
            text: the body, which is JSON.
            members: number of distinct members of the outermost object.
        """
        if self.strings == 2 * members:
            return True  # all strings are member names
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
    """Read a request's body; return it with its parsed instances, or with one parsed column."""
    members = _members(text, REQUEST, looks)
    by_columns = columns and "inputs" in members
    table: Mapping[str, list[Any]] | None = None
    if by_columns:
        text, inputs = _by_rows(text, members, wrap=wrap)
        if isinstance(inputs, dict):
            table, inputs = inputs, next(iter(inputs.values()))  # all have the same length
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
    # If only the outermost object has members, no value is binary, and the search is skipped.
    if (by_columns or not looks.is_flat(text, len(members))) and b'"b64"' in text:
        text = _BINARY.sub(_padded, text)
    if wrap and table is None:
        text = _wrapped(text, instances)
    return PredictRequest(text, len(instances), by_columns), instances


def begins_with_instances(body: bytes) -> bool:
    """Whether a body, if it is a prediction request, begins with instances."""
    return _BEGINS.match(body) is not None


def read_numbers(body: bytes, effort: float = inf) -> PredictRequest | None:
    """Read a request's body as :func:`read_request` does, if its instances are many numbers.

    Args:
        body: as for :func:`read_request`, without signature and wrapping.
        effort: the largest cost, in bytes of numbers; see :meth:`TensorFinder.find`.

    Returns:
        The request; None if :func:`read_request` must read the body, and report any fault.
    """
    text = body.removeprefix(_BOM)
    tensor = _number_tensor(text, "instances", effort)
    return PredictRequest(text, tensor.length) if tensor is not None and tensor.length else None


def read_answer(body: bytes, instances: int, signature: Signature | None = None) -> bytes:
    """Read a container's answer.

    ``body`` is JSON in UTF-8. Without a signature, predictions of any form are valid.

    Returns:
        The predictions, one for each instance in order: the text of an array, unchanged. Only
        values of the type bytes in the signature become ``{"b64": …}``.

    Raises:
        PredictionFault: the body is not JSON, the number of predictions is not the number of
            instances, or they do not match the signature.
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
            "each instance"
        )


# --- Signatures --------------------------------------------------------------------------------


def _check_signature_name(given: object, signature: Signature) -> None:
    if given not in (None, "", signature.name):
        found = f"{given[:_MAX_NAME]!r}" if isinstance(given, str) else kind_of(given)
        raise PredictionFault(
            f"signature_name: {found}; it must be {signature.name!r}, the model's only signature"
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
    """Check instances against a signature, wrapped or not; no rows are made of a table."""
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
    """Write the values of type bytes as ``{"b64": …}``; no other value changes."""
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
    """Find a member that is a tensor of numbers, if the rest is short, valid and has no bytes.

    Otherwise None: the body must be parsed as a whole, and any fault is reported then.
    """
    if len(text) < _LONG or (found := _finder(name).find(text, effort)) is None:
        return None
    others = b"%b[]%b" % (text[: found.begin], text[found.end :])
    if len(others) > _LONG:
        return None  # the rest may have a fault at its very end, and would be parsed twice
    is_right = _is_right_known(others) if len(others) <= _SHORT else _is_right(others)
    return found if is_right else None


def _is_right(others: bytes) -> bool:
    """Whether the rest of a body is valid, and has neither columns nor bytes."""
    try:
        members = _members(others, "")
    except PredictionFault:
        return False
    return "inputs" not in members and b'"b64"' not in others


#: Cached for short rests, since most bodies with a tensor have the same rest.
_is_right_known: Final = functools.lru_cache(maxsize=64)(_is_right)


@functools.cache
def _finder(name: str) -> TensorFinder:
    from partway.protocol.prediction.number_tensors import TensorFinder  # its imports take 10 ms

    return TensorFinder(name)


def _members(text: bytes, wanted: str, looks: _Looks | None = None) -> dict[str, Any]:
    """Parse the members of a body; its numbers are only approximate.

    ``wanted`` is the required form, in words.

    Raises:
        PredictionFault: the body is not JSON, or not an object.
    """
    value = _value(text, looks or _looked_at(text))
    if not isinstance(value, dict):
        raise PredictionFault(f"the body: {kind_of(value)}; it must be an object: {wanted}")
    return value


def _value(text: bytes, looks: _Looks) -> object:
    """Parse the body with the fast library, where it finds every fault; otherwise strictly.

    The fast library accepts repeated members. None is repeated if the text has no more colons than
    all objects have members.
    """
    try:
        value = loads(text)
    except ValueError:
        value = None  # its numbers are bounded too, so the body may still be JSON
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
    """Return a number's approximate value, for checks of bounds; the length costs no time."""
    is_whole = len(text) <= _MAX_DIGITS and text.lstrip("-").isdecimal()
    return int(text) if is_whole else float(text)


def _count_members(value: object, brackets: int) -> int:
    """Count the members of all objects.

    The search ends once as many arrays and objects were found as there are brackets: the values
    below cannot hold any.

    ``brackets`` is the number of characters that begin an array or an object, if not in a string.

    Raises:
        PredictionFault: the values are nested too deeply.
    """
    left = brackets
    level: list[Any] = [value]
    count = 0
    for depth in range(MAX_JSON_DEPTH + 1):
        kinds = [*map(type, level)]
        arrays = kinds.count(list)
        # Comparing with other types takes twenty times as long.
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
    return value.values() if type(value) is dict else value


# --- Binary values -------------------------------------------------------------------------------


def _padded(found: re.Match[bytes]) -> bytes:
    """Return the value with base64 that every container can read."""
    value: bytes = found[2]
    if _GROUPS.fullmatch(value):
        return found[0]
    text = json.loads(b'"%b"' % value) if b"\\" in value else value.decode()
    try:
        canonical = encoded(decoded(text))
    except ValueError as error:
        raise PredictionFault(
            f'{{"b64": …}} at byte {found.start()}: {error}; the string must be base64'
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
