"""Open Inference over HTTP, the client's side: requests are written, responses read.

Used for a container that speaks the protocol over HTTP only, when the client speaks something else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from partway.protocol.open_inference.requests import (
    InferFault,
    InferRequest,
    object_of,
    tensors_of,
)
from partway.protocol.open_inference.tensors import BINARY_ONLY, Tensor, TensorFault
from partway.protocol.prediction.bodies import PredictionFault


class WrittenRequest(NamedTuple):
    """A request's body.

    Attributes:
        body: the JSON, followed by the binary data of the inputs in order.
        header_length: the length of the JSON in ``body``; None if there is no binary data.
    """

    body: bytes
    header_length: int | None


def write_request(request: InferRequest) -> WrittenRequest:
    """Write a request. Tensors that came as binary data or have no form in JSON stay binary.

    Raises:
        TensorFault: an element has no form in JSON.
    """
    binary = request.binary_output or any(each.datatype in BINARY_ONLY for each in request.inputs)
    pieces: list[bytes] = []
    inputs: list[dict[str, Any]] = []
    for each in request.inputs:
        shown = {"name": each.name, "shape": each.shape, "datatype": each.datatype}
        if binary:
            pieces.append(each.binary())
            inputs.append({**shown, "parameters": {"binary_data_size": len(pieces[-1])}})
        else:
            inputs.append({**shown, "data": each.json()})
    members: dict[str, Any] = {} if request.id is None else {"id": request.id}
    parameters = dict(request.parameters)
    if binary:
        parameters["binary_data_output"] = True
    if parameters:
        members["parameters"] = parameters
    members["inputs"] = inputs
    if request.outputs:
        wanted = {"parameters": {"binary_data": True}} if binary else {}
        members["outputs"] = [{"name": each.name, **wanted} for each in request.outputs]
    head = orjson.dumps(members, option=orjson.OPT_SERIALIZE_NUMPY)
    return WrittenRequest(b"".join((head, *pieces)), len(head) if binary else None)


def read_response(body: bytes, header_length: int | None) -> list[Tensor]:
    """Read a container's answer.

    ``body`` is JSON in UTF-8, then the outputs' binary data in order; ``header_length`` is the
    length of the JSON, or None without binary data.

    Raises:
        PredictionFault: the body is not a valid response.
    """
    end = len(body) if header_length is None else header_length
    if end > len(body):
        raise PredictionFault(f"its JSON must have {end} bytes, but its body has only {len(body)}")
    try:
        return list(tensors_of(object_of(body[:end]), "outputs", body, end))
    except (InferFault, TensorFault) as fault:
        raise PredictionFault(str(fault)) from None
