"""Messages of GRPCInferenceService ↔ tensors."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.grpc.inference import (
    ModelInferRequest,
    ModelInferResponse,
    infer_request,
    infer_response,
)
from partway.protocol.open_inference.requests import InferFault, InferRequest
from partway.protocol.open_inference.tensors import from_binary, from_elements

#: A datatype's typed contents, and elements of it.
TYPED = {
    "BOOL": ("bool_contents", [True, False]),
    "UINT8": ("uint_contents", [0, 255]),
    "UINT16": ("uint_contents", [0, 65_535]),
    "UINT32": ("uint_contents", [0, 2**32 - 1]),
    "UINT64": ("uint64_contents", [0, 2**64 - 1]),
    "INT8": ("int_contents", [-128, 127]),
    "INT16": ("int_contents", [-32_768, 32_767]),
    "INT32": ("int_contents", [-(2**31), 2**31 - 1]),
    "INT64": ("int64_contents", [-(2**63), 2**63 - 1]),
    "FP32": ("fp32_contents", [0.5, -2.0]),
    "FP64": ("fp64_contents", [0.1, 1e300]),
    "BYTES": ("bytes_contents", [b"", b"\xff\0"]),
}


def a_request(datatype="FP32", shape=(1,), contents=None, raw=None, name="x", **members):
    tensor = {"name": name, "datatype": datatype, "shape": shape}
    if contents is not None:
        where, elements = contents
        tensor["contents"] = {where: elements}
    raws = {} if raw is None else {"raw_input_contents": raw}
    return ModelInferRequest(inputs=[tensor], **raws, **members)


@pytest.mark.parametrize(("datatype", "contents"), list(TYPED.items()))
def test_numbers_of_each_datatype_come_and_go_as_they_are(datatype, contents):
    request = infer_request(a_request(datatype, [2], contents, id="7"))
    (tensor,) = request.inputs
    assert (tensor.name, tensor.datatype, tensor.shape) == ("x", datatype, (2,))
    assert tensor.elements.tolist() == contents[1]
    assert not request.binary_output
    answer = ModelInferResponse.FromString(infer_response(request, [tensor], "m", "1"))
    assert (answer.model_name, answer.model_version, answer.id) == ("m", "1", "7")
    assert list(getattr(answer.outputs[0].contents, contents[0])) == contents[1]
    assert list(answer.raw_output_contents) == []


@pytest.mark.parametrize(
    ("datatype", "raw"),
    [
        ("FP32", struct.pack("<2f", 0.5, -2)),
        ("FP16", b"\0\x3c\0\xc0"),
        ("BYTES", b"\1\0\0\0a\0\0\0\0"),
    ],
)
def test_bytes_come_and_go_as_they_are(datatype, raw):
    request = infer_request(a_request(datatype, [1, 2], raw=[raw]))
    (tensor,) = request.inputs
    assert tensor.binary() == raw
    answer = ModelInferResponse.FromString(infer_response(request, [tensor], "m", "1"))
    assert list(answer.raw_output_contents) == [raw]
    assert list(answer.outputs[0].shape) == [1, 2]
    assert not answer.outputs[0].HasField("contents")


def test_what_has_no_typed_contents_is_answered_as_bytes():
    outputs = [
        from_elements("a", "INT64", [1], [1]),
        from_binary("b", "BF16", [1], b"\x80\x3f"),
    ]
    request = InferRequest(inputs=())
    answer = ModelInferResponse.FromString(infer_response(request, outputs, "m", "1"))
    assert list(answer.raw_output_contents) == [struct.pack("<q", 1), b"\x80\x3f"]


def test_outputs_and_parameters():
    request = infer_request(
        a_request(
            raw=[bytes(4)],
            outputs=[{"name": "b"}, {"name": "a"}],
            parameters={
                "whole": {"int64_param": -1},
                "large": {"uint64_param": 2**64 - 1},
                "real": {"double_param": 0.5},
                "flag": {"bool_param": False},
                "text": {"string_param": "é"},
            },
        )
    )
    assert [(each.name, each.binary) for each in request.outputs] == [("b", True), ("a", True)]
    assert request.parameters == {
        "whole": -1,
        "large": 2**64 - 1,
        "real": 0.5,
        "flag": False,
        "text": "é",
    }
    assert request.id is None


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (ModelInferRequest(), "inputs: it must have one tensor at least"),
        (a_request(raw=[b"", b""]), "2 elements for 1 inputs"),
        (a_request(raw=[bytes(4)], contents=("fp32_contents", [1])), "both contents and raw_input"),
        (a_request(raw=[bytes(3)]), "3 bytes of data"),
        (a_request(), "0 elements"),
        (a_request(contents=("fp64_contents", [1])), "0 elements"),
        (a_request("FP32", [2], ("fp32_contents", [1])), "1 elements"),
        (
            a_request("FP16", contents=("fp32_contents", [1])),
            "FP16 must come in raw_input_contents",
        ),
        (a_request("FP99", contents=("fp32_contents", [1])), "datatype must be one of"),
        (a_request("INT8", contents=("int_contents", [128])), "from -128 to 127"),
        (a_request("FP32", [-1], ("fp32_contents", [1])), "shape must have"),
        (a_request(name="", raw=[bytes(4)]), "inputs: each must have a name"),
        (a_request(raw=[bytes(4)], outputs=[{"name": "a"}] * 2), "outputs: each must have a name"),
        (a_request(raw=[bytes(4)], parameters={"p": {}}), "the parameter 'p' has no value"),
        (
            a_request(raw=[bytes(4)], parameters={"p": {"double_param": float("nan")}}),
            "parameters must be",
        ),
        (
            a_request(raw=[bytes(4)], parameters={"classification": {"int64_param": 3}}),
            "classification needs an extension that is not supported",
        ),
    ],
)
def test_what_is_no_request(message, said):
    with pytest.raises(InferFault, match=said):
        infer_request(message)


@given(st.binary(max_size=200))
def test_any_message_is_a_request_or_refused(data):
    message = ModelInferRequest()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return
    try:
        found = infer_request(message)
    except InferFault:
        return
    assert all(np.prod(each.shape) == len(each.elements) for each in found.inputs)
