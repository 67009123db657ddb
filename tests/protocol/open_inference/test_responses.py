"""Responses to requests for inference: JSON, and binary data behind it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.open_inference.requests import InferRequest, RequestedOutput
from partway.protocol.open_inference.responses import write_response
from partway.protocol.open_inference.tensors import TensorFault, from_elements
from tests.protocol.open_inference.tensors_model import binary, tensors

_OUTPUTS = ("BOOL", "INT64", "UINT64", "FP64", "BYTES")


@given(st.lists(st.tuples(tensors(_OUTPUTS), st.booleans()), min_size=1, max_size=3))
def test_a_response_has_each_output_as_it_is_wanted(cases):
    outputs, wanted, expected, pieces = [], [], [], []
    for place, ((datatype, shape, flat), wants_binary) in enumerate(cases):
        is_binary = wants_binary or datatype == "BYTES"  # which may be no text
        name = str(place)
        outputs.append(from_elements(name, datatype, shape, flat))
        wanted.append(RequestedOutput(name, is_binary))
        said = {"name": name, "shape": shape, "datatype": datatype}
        if is_binary:
            pieces.append(binary(datatype, flat))
            said["parameters"] = {"binary_data_size": len(pieces[-1])}
        else:
            said["data"] = flat
        expected.append(said)
    found = write_response(InferRequest((), tuple(wanted), id="7"), outputs, "m", "1")
    head = found.body if found.header_length is None else found.body[: found.header_length]
    assert (found.header_length is None) == (not pieces)
    assert json.loads(head) == {
        "model_name": "m",
        "model_version": "1",
        "id": "7",
        "outputs": expected,
    }
    assert found.body == head + b"".join(pieces)


def test_outputs_that_nobody_names_come_as_the_request_says():
    output = from_elements("x", "INT64", [2], [1, 2])
    plain = write_response(InferRequest(()), [output], "m", "1")
    assert plain.body == (
        b'{"model_name":"m","model_version":"1",'
        b'"outputs":[{"name":"x","shape":[2],"datatype":"INT64","data":[1,2]}]}'
    )
    assert plain.header_length is None
    packed = write_response(InferRequest((), binary_output=True), [output], "m", "1")
    head = (
        b'{"model_name":"m","model_version":"1","outputs":'
        b'[{"name":"x","shape":[2],"datatype":"INT64","parameters":{"binary_data_size":16}}]}'
    )
    assert packed == (head + b"\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", len(head))


def test_what_json_has_nothing_for_is_asked_for_as_binary_data():
    output = from_elements("x", "BYTES", [1], [b"\xff"])
    with pytest.raises(TensorFault, match='ask for it with "binary_data": true'):
        write_response(InferRequest(()), [output], "m", "1")
