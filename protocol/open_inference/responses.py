"""Open Inference responses over HTTP.

"Inference Response JSON Object" of the protocol, and "Binary Tensor Response" of the extension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from partway.protocol.open_inference.requests import InferRequest
from partway.protocol.open_inference.tensors import Tensor


class InferResponse(NamedTuple):
    """A response's body.

    Attributes:
        body: the JSON, followed by the binary data of the outputs in order.
        header_length: the length of the JSON in ``body``; None if there is no binary data.
    """

    body: bytes
    header_length: int | None


def write_response(
    request: InferRequest, outputs: Sequence[Tensor], model: str, version: str
) -> InferResponse:
    """Write a response with the requested outputs, in the request's order.

    Raises:
        TensorFault: an output has no form in JSON, and was not requested as binary data.
    """
    asked = {each.name: each.binary for each in request.outputs}
    written: list[Mapping[str, Any]] = []
    pieces: list[bytes] = []
    for each in outputs:
        shown = {"name": each.name, "shape": each.shape, "datatype": each.datatype}
        if asked.get(each.name, request.binary_output):
            data = each.binary()
            pieces.append(data)
            written.append({**shown, "parameters": {"binary_data_size": len(data)}})
        else:
            written.append({**shown, "data": each.json()})
    members: dict[str, Any] = {"model_name": model, "model_version": version}
    if request.id is not None:
        members["id"] = request.id
    head = orjson.dumps({**members, "outputs": written}, option=orjson.OPT_SERIALIZE_NUMPY)
    if not pieces:
        return InferResponse(head, None)
    return InferResponse(b"".join((head, *pieces)), len(head))
