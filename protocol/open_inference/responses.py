"""A response to a request for inference, as it goes over HTTP.

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
        body: the JSON, and behind it the binary data of outputs, in their order.
        header_length: how many bytes of it are JSON; None where all are.
    """

    body: bytes
    header_length: int | None


def write_response(
    request: InferRequest, outputs: Sequence[Tensor], model: str, version: str
) -> InferResponse:
    """Write a response.

    Args:
        request: what is answered; it says which outputs are binary.
        outputs: those that it asks for, in its order.
        model: the model's name.
        version: the model's.

    Raises:
        TensorFault: an output has no form in JSON, and is not asked for as binary data.
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
