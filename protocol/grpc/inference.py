"""Messages of ``inference.GRPCInferenceService``, and the tensors in them.

The Open Inference Protocol's ``open_inference_grpc.proto``, which KServe and Triton share. All
tensors of a request come as bytes (``raw_input_contents``) or all as numbers (``contents``). The
answer has the same form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from partway.protocol.open_inference.requests import (
    InferFault,
    InferRequest,
    RequestedOutput,
    checked_parameters,
)
from partway.protocol.open_inference.tensors import (
    BINARY_ONLY,
    Tensor,
    TensorFault,
    from_binary,
    from_json,
    shown,
)
from partway.protocol.protobuf_schema import MessageMember, message_classes

_PACKAGE: Final = "inference"
_PARAMETERS: Final = f"map {_PACKAGE}.InferParameter"
_CHOICE: Final = "parameter_choice"
_NAMED: Final = (MessageMember("name", 1, "string"), MessageMember("version", 2, "string"))
_TENSOR: Final = (
    MessageMember("name", 1, "string"),
    MessageMember("datatype", 2, "string"),
    MessageMember("shape", 3, "repeated int64"),
)
_WITH_CONTENTS: Final = (
    *_TENSOR,
    MessageMember("parameters", 4, _PARAMETERS),
    MessageMember("contents", 5, f"{_PACKAGE}.InferTensorContents"),
)
_CALL: Final = (
    MessageMember("model_name", 1, "string"),
    MessageMember("model_version", 2, "string"),
    MessageMember("id", 3, "string"),
    MessageMember("parameters", 4, _PARAMETERS),
)

_TABLES: Final = {
    "ServerLiveRequest": (),
    "ServerLiveResponse": (MessageMember("live", 1, "bool"),),
    "ServerReadyRequest": (),
    "ServerReadyResponse": (MessageMember("ready", 1, "bool"),),
    "ServerMetadataRequest": (),
    "ServerMetadataResponse": (*_NAMED, MessageMember("extensions", 3, "repeated string")),
    "ModelReadyRequest": _NAMED,
    "ModelReadyResponse": (MessageMember("ready", 1, "bool"),),
    "ModelMetadataRequest": _NAMED,
    "TensorMetadata": _TENSOR,
    "ModelMetadataResponse": (
        MessageMember("name", 1, "string"),
        MessageMember("versions", 2, "repeated string"),
        MessageMember("platform", 3, "string"),
        MessageMember("inputs", 4, f"repeated {_PACKAGE}.TensorMetadata"),
        MessageMember("outputs", 5, f"repeated {_PACKAGE}.TensorMetadata"),
    ),
    "InferParameter": (
        MessageMember("bool_param", 1, "bool", _CHOICE),
        MessageMember("int64_param", 2, "int64", _CHOICE),
        MessageMember("string_param", 3, "string", _CHOICE),
        MessageMember("double_param", 4, "double", _CHOICE),
        MessageMember("uint64_param", 5, "uint64", _CHOICE),
    ),
    "InferTensorContents": (
        MessageMember("bool_contents", 1, "repeated bool"),
        MessageMember("int_contents", 2, "repeated int32"),
        MessageMember("int64_contents", 3, "repeated int64"),
        MessageMember("uint_contents", 4, "repeated uint32"),
        MessageMember("uint64_contents", 5, "repeated uint64"),
        MessageMember("fp32_contents", 6, "repeated float"),
        MessageMember("fp64_contents", 7, "repeated double"),
        MessageMember("bytes_contents", 8, "repeated bytes"),
    ),
    "InferInputTensor": _WITH_CONTENTS,
    "InferRequestedOutputTensor": (
        MessageMember("name", 1, "string"),
        MessageMember("parameters", 2, _PARAMETERS),
    ),
    "ModelInferRequest": (
        *_CALL,
        MessageMember("inputs", 5, f"repeated {_PACKAGE}.InferInputTensor"),
        MessageMember("outputs", 6, f"repeated {_PACKAGE}.InferRequestedOutputTensor"),
        MessageMember("raw_input_contents", 7, "repeated bytes"),
    ),
    "InferOutputTensor": _WITH_CONTENTS,
    "ModelInferResponse": (
        *_CALL,
        MessageMember("outputs", 5, f"repeated {_PACKAGE}.InferOutputTensor"),
        MessageMember("raw_output_contents", 6, "repeated bytes"),
    ),
}

_CLASSES: Final = message_classes(_PACKAGE, _TABLES)

ServerLiveResponse: Final[Any] = _CLASSES["ServerLiveResponse"]
ServerReadyResponse: Final[Any] = _CLASSES["ServerReadyResponse"]
ServerMetadataResponse: Final[Any] = _CLASSES["ServerMetadataResponse"]
ModelReadyRequest: Final[Any] = _CLASSES["ModelReadyRequest"]
ModelReadyResponse: Final[Any] = _CLASSES["ModelReadyResponse"]
ModelMetadataRequest: Final[Any] = _CLASSES["ModelMetadataRequest"]
ModelMetadataResponse: Final[Any] = _CLASSES["ModelMetadataResponse"]
ModelInferRequest: Final[Any] = _CLASSES["ModelInferRequest"]
ModelInferResponse: Final[Any] = _CLASSES["ModelInferResponse"]

#: The member of ``contents`` that holds a tensor's elements, by datatype.
_CONTENTS: Final = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def infer_request(message: Any) -> InferRequest:
    """Read a client's request.

    ``message`` is a ModelInferRequest.

    Raises:
        InferFault: the message is not a valid request.
    """
    raw = message.raw_input_contents
    if not message.inputs:
        raise InferFault("inputs: it must have one tensor at least")
    if raw and len(raw) != len(message.inputs):
        raise InferFault(
            f"raw_input_contents: it has {len(raw)} elements for {len(message.inputs)} inputs; it "
            "must have one for each, or none"
        )
    _check_names("inputs", message.inputs)
    _check_names("outputs", message.outputs)
    try:
        inputs = tuple(
            _input(each, raw[place] if raw else None) for place, each in enumerate(message.inputs)
        )
    except TensorFault as fault:
        raise InferFault(str(fault)) from None
    return InferRequest(
        inputs,
        tuple(_outputs(message.outputs, binary=bool(raw))),
        message.id or None,
        _parameters("the request", message.parameters),
        bool(raw),
    )


def infer_response(
    request: InferRequest, outputs: Sequence[Tensor], model: str, version: str
) -> bytes:
    """Encode an answer.

    ``outputs`` are the requested ones, in the request's order.
    """
    message = ModelInferResponse(model_name=model, model_version=version, id=request.id or "")
    raw = request.binary_output or any(each.datatype in BINARY_ONLY for each in outputs)
    for each in outputs:
        output = message.outputs.add(name=each.name, datatype=each.datatype, shape=each.shape)
        if raw:
            message.raw_output_contents.append(each.binary())
        else:
            contents = getattr(output.contents, _CONTENTS[each.datatype])
            contents.extend(each.elements.tolist())
    found: bytes = message.SerializeToString()
    return found


def _input(tensor: Any, raw: bytes | None) -> Tensor:
    name, datatype, shape = tensor.name, tensor.datatype, tuple(tensor.shape)
    if tensor.parameters:
        _parameters(f"tensor {shown(name)}", tensor.parameters)
    if raw is not None:
        if tensor.HasField("contents"):
            raise InferFault(
                f"tensor {shown(name)}: it has both contents and raw_input_contents; it must have "
                "only one of them"
            )
        return from_binary(name, datatype, shape, raw)
    if datatype in BINARY_ONLY:
        raise InferFault(f"tensor {shown(name)}: {datatype} must come in raw_input_contents")
    where = _CONTENTS.get(datatype)
    found = [] if where is None else list(getattr(tensor.contents, where))
    return from_json(name, datatype, shape, found)


def _outputs(found: Any, *, binary: bool) -> Iterator[RequestedOutput]:
    for each in found:
        _parameters(f"output {shown(each.name)}", each.parameters)
        yield RequestedOutput(each.name, binary)


def _check_names(what: str, found: Any) -> None:
    names = [each.name for each in found]
    if "" in names or len(set(names)) != len(names):
        raise InferFault(f"{what}: each must have a name that no other has")


def _parameters(what: str, found: Any) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for name, each in found.items():
        choice = each.WhichOneof(_CHOICE)
        if choice is None:
            raise InferFault(f"{what}: the parameter {shown(name)} has no value; it must have one")
        parameters[name] = getattr(each, choice)
    return checked_parameters(what, parameters)
