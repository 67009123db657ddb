"""Open Inference requests over HTTP: JSON, followed by binary data.

"Inference Request JSON Object" of the protocol, and "Binary Tensor Request" of the extension, whose
header ``Inference-Header-Content-Length`` has the length of the JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from partway.protocol.json.strict import NotJson, check_unicode, loads, parsed
from partway.protocol.limits import MAX_TENSORS
from partway.protocol.open_inference import HEADER_LENGTH
from partway.protocol.open_inference.tensors import (
    Tensor,
    TensorFault,
    from_binary,
    from_json,
    shown,
)

#: Range of whole numbers of 64 bits, signed or unsigned, and their most characters.
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1
_WHOLE: Final = 20

#: Parameters of Triton extensions that are not supported: they ask for data elsewhere, or for no
#: tensors.
_NOT_HERE: Final = ("shared_memory_region", "classification")


class InferFault(ValueError):
    """A body that is not a request for inference; the text says what it must be."""


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """An output that a request names.

    Attributes:
        binary: whether its data must be binary.
    """

    name: str
    binary: bool


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A request for inference.

    Attributes:
        inputs: at least one, with distinct names.
        outputs: the requested outputs in order; empty for all.
        id: echoed in the response; None if absent.
        binary_output: whether outputs are binary if the request names none.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[RequestedOutput, ...] = ()
    id: str | None = None
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    binary_output: bool = False


def read_request(body: bytes, header_length: int | None = None) -> InferRequest:
    """Read a request's body.

    Args:
        body: the JSON in UTF-8, followed by the inputs' binary data in order.
        header_length: the length of the JSON in ``body``; None if there is no binary data.

    Raises:
        InferFault: the body is not a valid request.
    """
    end = len(body) if header_length is None else header_length
    if not 0 < end <= len(body):
        raise InferFault(
            f"{HEADER_LENGTH}: {end} was given; it must be the length in bytes of the JSON at the "
            f"body's beginning; the body has {len(body)} bytes"
        )
    members = object_of(body[:end])
    parameters = _parameters("the request", members)
    binary = _flag("the request", parameters, "binary_data_output")
    try:
        inputs = tuple(tensors_of(members, "inputs", body, end))
    except TensorFault as fault:
        raise InferFault(str(fault)) from None
    given = members.get("id")
    if given is not None and not isinstance(given, str):
        raise InferFault("id: it must be a string")
    return InferRequest(
        inputs,
        tuple(_outputs(members, binary)),
        given,
        {name: each for name, each in parameters.items() if name != "binary_data_output"},
        binary,
    )


# --- Inputs and outputs --------------------------------------------------------------------------


def tensors_of(members: Mapping[str, Any], key: str, body: bytes, begin: int) -> Iterator[Tensor]:
    """Yield the tensors of a request's or a response's body, from the members of its JSON.

    ``key`` is ``inputs`` or ``outputs``. The binary data begins at ``begin`` in the whole body.

    Raises:
        InferFault: the tensors are missing or malformed.
        TensorFault: a tensor's data does not fit its datatype and shape.
    """
    for each in _named(members, key):
        name, datatype, shape = each["name"], each.get("datatype"), each.get("shape")
        what = f"tensor {shown(name)}"
        if not isinstance(datatype, str):
            raise InferFault(f"{what}: datatype must be a string, such as FP32")
        if not isinstance(shape, list) or not all(type(size) is int for size in shape):
            raise InferFault(f"{what}: shape must be an array of whole numbers")
        size = _parameters(what, each).get("binary_data_size")
        if size is None:
            if "data" not in each:
                raise InferFault(
                    f'{what}: it has no data; it must have "data", or the parameter '
                    '"binary_data_size"'
                )
            yield from_json(name, datatype, shape, each["data"])
            continue
        if "data" in each:
            raise InferFault(
                f'{what}: it has both "data" and the parameter "binary_data_size"; it must have '
                "only one of the two"
            )
        if type(size) is not int or not 0 <= size <= len(body) - begin:
            raise InferFault(
                f"{what}: binary_data_size must be a whole number from 0 to {len(body) - begin}, "
                "the bytes of binary data that are left"
            )
        yield from_binary(name, datatype, shape, body[begin : begin + size])
        begin += size
    if begin != len(body):
        raise InferFault(
            f"{len(body) - begin} bytes follow the last {key[:-1]}'s data; each binary {key[:-1]} "
            "must state its size in binary_data_size"
        )


def _outputs(members: Mapping[str, Any], binary: bool) -> Iterator[RequestedOutput]:
    if members.get("outputs") in (None, []):
        return
    for each in _named(members, "outputs"):
        what = f"output {shown(each['name'])}"
        wanted = _flag(what, _parameters(what, each), "binary_data", otherwise=binary)
        yield RequestedOutput(each["name"], wanted)


def _named(members: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """Return the objects of an array, with distinct names."""
    found = members.get(key)
    if not isinstance(found, list) or not found:
        raise InferFault(f'{key}: it must be an array of at least one object: {{"name": …}}')
    if len(found) > MAX_TENSORS:
        raise InferFault(
            f"{key}: {len(found)} tensors were given; there must be at most {MAX_TENSORS}"
        )
    names: set[str] = set()
    for each in found:
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str) or not name:
            raise InferFault(f'{key}: each must be an object whose "name" is a non-empty string')
        if name in names:
            raise InferFault(f"{key}: {shown(name)} appears twice; each name must be unique")
        names.add(name)
    return found


def _parameters(what: str, members: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    found = members.get("parameters")
    return {} if found is None else checked_parameters(what, found)


def checked_parameters(what: str, found: object) -> dict[str, str | int | float | bool]:
    """Check a client's parameters; ``what`` names their owner in the error's text.

    Raises:
        InferFault: the parameters are malformed, or ask for an unsupported extension.
    """
    if not isinstance(found, dict) or not all(map(_is_scalar, found.values())):
        raise InferFault(
            f"{what}: parameters must be an object of strings, numbers, true and false"
        )
    for name in _NOT_HERE:
        if name in found:
            raise InferFault(
                f"{what}: the parameter {name} needs an extension that is not supported"
            )
    return found


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _flag(what: str, parameters: Mapping[str, Any], name: str, *, otherwise: bool = False) -> bool:
    found = parameters.get(name, otherwise)
    if not isinstance(found, bool):
        raise InferFault(f"{what}: {name} must be true or false")
    return found


# --- JSON ----------------------------------------------------------------------------------------


def object_of(text: bytes) -> dict[str, Any]:
    """Parse the members of a body's JSON; raises InferFault if the text is not a JSON object."""
    value = _value(text)
    if not isinstance(value, dict):
        raise InferFault("the body must be a JSON object")
    return value


def _value(text: bytes) -> object:
    """Parse JSON with the fast library, where it finds every fault; otherwise strictly.

    The fast library accepts repeated members. None is repeated if the text has no more colons than
    the parsed request has members.
    """
    try:
        value = loads(text)
    except ValueError:
        value = None  # its numbers are bounded too, so the text may still be JSON
    if isinstance(value, dict) and text.count(b":") == _count(value):
        return value
    try:
        value = parsed(text, _number)
        check_unicode(text, value)
    except NotJson as error:
        at = "" if error.at is None else f" at character {error.at}"
        raise InferFault(f"the body is not JSON: {error.why}{at}") from None
    return value


def _count(value: Mapping[str, Any]) -> int:
    objects = [value, *_objects(value.get("inputs")), *_objects(value.get("outputs"))]
    found = (each.get("parameters") for each in objects)
    return sum(map(len, (*objects, *(each for each in found if isinstance(each, dict)))))


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _number(text: str) -> int | float:
    whole = int(text) if len(text) <= _WHOLE and text.lstrip("-").isdecimal() else None
    return float(text) if whole is None or not _LEAST <= whole <= _MOST else whole
