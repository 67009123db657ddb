"""Requests and responses from their other side: what one side writes, the other reads."""

from __future__ import annotations

import json

import pytest

from partway.protocol.open_inference.onward import read_response, write_request
from partway.protocol.open_inference.requests import InferRequest, RequestedOutput, read_request
from partway.protocol.open_inference.responses import write_response
from partway.protocol.open_inference.tensors import (
    TensorFault,
    from_binary,
    from_elements,
)
from partway.protocol.prediction.bodies import PredictionFault

NUMBERS = from_elements("a", "INT64", [2], [1, -2])
TEXTS = from_elements("b", "BYTES", [1, 1], [b"\xff"])
HALVES = from_binary("c", "FP16", [1], b"\0\x3c")


def same(found, expected):
    assert [(e.name, e.datatype, e.shape, e.binary()) for e in found] == [
        (e.name, e.datatype, e.shape, e.binary()) for e in expected
    ]


def test_a_request_is_written_as_json():
    written = write_request(
        InferRequest((NUMBERS,), (RequestedOutput("y", binary=False),), "7", {"k": 1})
    )
    assert written.header_length is None
    assert json.loads(written.body) == {
        "id": "7",
        "parameters": {"k": 1},
        "inputs": [{"name": "a", "shape": [2], "datatype": "INT64", "data": [1, -2]}],
        "outputs": [{"name": "y"}],
    }


@pytest.mark.parametrize(
    ("inputs", "binary"), [((NUMBERS, TEXTS), True), ((NUMBERS, HALVES), False)]
)
def test_what_came_as_bytes_or_has_no_json_goes_as_bytes(inputs, binary):
    request = InferRequest(
        inputs, (RequestedOutput("y", binary=True),), None, {"k": 0.5}, binary_output=binary
    )
    body, header_length = write_request(request)
    found = read_request(body, header_length)
    same(found.inputs, inputs)
    assert found.outputs == request.outputs
    assert (found.id, found.parameters, found.binary_output) == (None, {"k": 0.5}, True)


def test_what_json_has_not_is_refused():
    with pytest.raises(TensorFault, match="'b': its bytes are not UTF-8"):
        write_request(InferRequest((TEXTS,)))


@pytest.mark.parametrize("binary", [True, False])
def test_responses_are_read(binary):
    outputs = (NUMBERS, from_elements("b", "FP32", [1, 1], [0.5]))
    request = InferRequest((NUMBERS,), binary_output=binary)
    body, header_length = write_response(request, outputs, "m", "1")
    same(read_response(body, header_length), outputs)


@pytest.mark.parametrize(
    ("body", "header_length", "said"),
    [
        (b"no", None, "the body is not JSON"),
        (b"[]", None, "the body must be a JSON object"),
        (b"{}", None, "outputs: it must be an array"),
        (b"{}", 3, "its JSON must have 3 bytes, but its body has only 2"),
        (b'{"outputs": [{"name": "a"}]}', None, "datatype must be a string"),
        (
            b'{"outputs": [{"name": "a", "datatype": "INT8", "shape": [1], "data": [1]}]}x',
            75,
            "1 bytes follow the last output's",
        ),
        (
            b'{"outputs": [{"name": "a", "datatype": "INT8", "shape": [2], "data": [1]}]}',
            None,
            "1 elements",
        ),
    ],
)
def test_what_is_no_response(body, header_length, said):
    with pytest.raises(PredictionFault, match=said):
        read_response(body, header_length)
