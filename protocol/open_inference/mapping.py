"""Conversion of tensors for containers that take instances and answer predictions.

The first number of a shape counts instances. With one tensor, an instance is its slice of the
tensor, as TF Serving's and KServe's V1 clients would send it. With several, an instance is an
object by their names. The predictions become one tensor or, if they are objects, one for each
member.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import chain, islice
from typing import Any, Final

import orjson

from partway.protocol.json.base64_text import decoded
from partway.protocol.json.strict import NotJson, check_unicode, loads
from partway.protocol.limits import MAX_TENSOR_DIMENSIONS
from partway.protocol.open_inference.instance_texts import instance_texts
from partway.protocol.open_inference.requests import InferFault, InferRequest, RequestedOutput
from partway.protocol.open_inference.tensors import (
    Tensor,
    TensorFault,
    from_elements,
    shown,
)
from partway.protocol.prediction.bodies import PredictionFault, PredictRequest
from partway.protocol.prediction.checkpoints import checkpoint
from partway.protocol.prediction.columns import check_names_fit
from partway.protocol.prediction.model_signature import DATATYPES, Signature, TensorSpec
from partway.protocol.prediction.signature_checks import SignatureFault

#: The name of an unnamed output, unless the request names it. KServe uses the same.
OUTPUT: Final = "output-0"

#: Output names that a message lists.
_SHOWN: Final = 16

_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")
#: Digits that fit 64 bits, with a sign.
_WHOLE: Final = 20


def instances_of(
    request: InferRequest, *, named: bool = False, wrap: bool = False
) -> PredictRequest:
    """Convert a request's tensors to instances.

    With ``named``, an instance of a single tensor is an object too, by the tensor's name. With
    ``wrap``, each instance is wrapped: ``{"data": …}``.

    Raises:
        InferFault: the tensors' numbers of instances differ, an element has no form in JSON, or the
            names are too long to be repeated in each instance.
    """
    first, *others = request.inputs
    count = first.shape[0]
    for each in others:
        if each.shape[0] != count:
            raise InferFault(
                f"tensor {shown(first.name)} has {count} instances, and tensor {shown(each.name)} "
                f"has {each.shape[0]}; the first dimension of every shape must be the same"
            )
    named = named or bool(others)
    try:
        if named:
            size = sum(each.elements.nbytes + len(each.name) for each in request.inputs)
            check_names_fit((each.name for each in request.inputs), count, size)
        instances = b",".join(instance_texts(request.inputs, named=named, wrap=wrap))
    except (SignatureFault, TensorFault) as fault:
        raise InferFault(str(fault)) from None
    further = b',"parameters":%b' % orjson.dumps(request.parameters) if request.parameters else b""
    return PredictRequest(b'{"instances":[%b]%b}' % (instances, further), count)


def check_names(request: InferRequest, signature: Signature) -> None:
    """Raise InferFault unless inputs have the names and datatypes of the signature."""
    wanted = {alias: DATATYPES[spec.type] for alias, spec in signature.inputs.items()}
    if {each.name: each.datatype for each in request.inputs} != wanted:
        words = ", ".join(f"{shown(name)} of {datatype}" for name, datatype in wanted.items())
        raise InferFault(f"inputs: they must be those of the model's signature: {words}")


def outputs_of(
    predictions: bytes,
    requested: Sequence[RequestedOutput] = (),
    declared: Mapping[str, TensorSpec] | None = None,
) -> list[Tensor]:
    """Convert predictions to tensors: the requested ones in their order, or all.

    ``predictions`` is a valid JSON array with at least one element. It has been checked against
    ``declared``, the signature's outputs by name.

    Raises:
        PredictionFault: the predictions do not form tensors.
        InferFault: a requested output does not exist.
    """
    declared = declared or {}
    columns = _columns(_parsed(predictions))
    if columns.keys() == {OUTPUT} and len(declared) == 1:
        columns = {next(iter(declared)): columns[OUTPUT]}
    elif columns.keys() == {OUTPUT} and len(requested) == 1:
        columns = {requested[0].name: columns[OUTPUT]}
    wanted = [each.name for each in requested] or list(columns)
    for name in wanted:
        if name not in columns:
            known = ", ".join(map(shown, islice(columns, _SHOWN)))
            raise InferFault(f"output {shown(name)}: the model has no such output; it has {known}")
    return [_tensor(name, columns[name], declared.get(name)) for name in wanted]


# --- From predictions ----------------------------------------------------------------------------


def _parsed(predictions: bytes) -> Any:
    """Parse predictions. Whole numbers stay whole; one that fits no datatype is a Decimal.

    Raises:
        PredictionFault: a string is not Unicode.
    """
    if _LONG_NUMBER.search(predictions) is None:
        try:
            return loads(predictions)
        except ValueError:
            pass  # valid JSON, but with a number or string that orjson refuses
    found = json.loads(predictions, parse_int=_whole)
    try:
        check_unicode(predictions, found)
    except NotJson as fault:
        raise PredictionFault(f"predictions: {fault.why}") from None
    return found


def _whole(text: str) -> int | Decimal:
    return int(text) if len(text) <= _WHOLE else Decimal(text)


def _columns(predictions: list[Any]) -> Mapping[str, list[Any]]:
    objects = [type(each) is dict and each.keys() != {"b64"} for each in predictions]
    if not any(objects):
        return {OUTPUT: predictions}
    first = predictions[0]
    for place, each in enumerate(predictions):
        if not objects[place] or not objects[0] or each.keys() != first.keys() or not each:
            raise PredictionFault(
                f"prediction {place}: it must be an object with the same members as the other "
                "predictions, because each member becomes a tensor"
            )
    return {name: [each[name] for each in predictions] for name in first}


def _tensor(name: str, values: list[Any], spec: TensorSpec | None) -> Tensor:
    shape, flat = _flattened(name, values)
    kinds = set(map(type, flat))
    if dict in kinds:
        flat = [_binary(name, each) for each in flat]
        kinds = set(map(type, flat))
    if kinds and kinds <= {str, bytes}:
        flat = [each.encode() if type(each) is str else each for each in flat]
        return from_elements(name, "BYTES", shape, flat)
    if kinds == {bool}:
        return from_elements(name, "BOOL", shape, flat)
    datatype = "FP64" if spec is None else DATATYPES[spec.type]
    if kinds == {int} and spec is None:
        datatype = "INT64" if max(flat) < 2**63 else "UINT64"
    elif not kinds <= {int, float}:
        raise PredictionFault(
            f"output {shown(name)}: no datatype fits all its elements; they must all be numbers of "
            'at most 64 bits, all strings or {"b64": …}, or all true or false'
        )
    try:
        return from_elements(name, datatype, shape, flat)
    except TensorFault as fault:
        raise PredictionFault(str(fault)) from None


def _flattened(name: str, values: list[Any]) -> tuple[list[int], list[Any]]:
    shape, level = [len(values)], values
    while level and list in (kinds := set(map(type, level))):
        checkpoint()
        if kinds == {list}:
            lengths = set(map(len, level))
        else:
            lengths = {len(each) if type(each) is list else -1 for each in level}
        if len(lengths) > 1 or len(shape) == MAX_TENSOR_DIMENSIONS:
            found = ", ".join("no array" if each < 0 else str(each) for each in sorted(lengths))
            raise PredictionFault(
                f"output {shown(name)}: its arrays do not form a tensor: inside the shape {shape} "
                f"their lengths are {found}; they must have one length, and at most "
                f"{MAX_TENSOR_DIMENSIONS} dimensions"
            )
        shape.append(lengths.pop())
        level = list(chain.from_iterable(level))
    return shape, level


def _binary(name: str, value: object) -> object:
    if isinstance(value, dict):
        text = value.get("b64")
        if value.keys() == {"b64"} and isinstance(text, str):
            try:
                return decoded(text)
            except ValueError as error:
                raise PredictionFault(f'output {shown(name)}: {{"b64": …}}: {error}') from None
    return value
