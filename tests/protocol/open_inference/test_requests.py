"""Requests for inference over HTTP: JSON, and binary data behind it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.open_inference.requests import InferFault, RequestedOutput, read_request
from tests.protocol.open_inference.tensors_model import CODES, binary, nested, tensors

_IN_JSON = tuple(each for each in CODES if each != "FP16")
_NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
_PARAMETERS = st.dictionaries(
    st.sampled_from(["priority", ":", "sequence_id"]),
    st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=3) | st.floats(-9, 9),
)


@st.composite
def requests(draw):
    """Inputs with their names, which of them are binary, and the body that has them."""
    inputs = draw(st.lists(tensors(), min_size=1, max_size=3))
    names = draw(st.lists(_NAMES, min_size=len(inputs), max_size=len(inputs), unique=True))
    written, pieces = [], []
    for name, (datatype, shape, flat) in zip(names, inputs, strict=True):
        said = {"name": name, "datatype": datatype, "shape": shape}
        if datatype not in _IN_JSON or draw(st.booleans()):
            pieces.append(binary(datatype, flat))
            said["parameters"] = {"binary_data_size": len(pieces[-1])}
        else:
            said["data"] = draw(st.sampled_from([flat, nested(shape, flat)]))
        written.append(said)
    members = {"inputs": written}
    if draw(st.booleans()):
        members["id"] = draw(st.text(max_size=4))
    if draw(st.booleans()):
        members["parameters"] = draw(_PARAMETERS)
    return list(zip(names, inputs, strict=True)), members, pieces


@given(requests(), st.booleans(), st.booleans())
def test_a_request_is_what_it_says(case, spaced, ascii_only):
    inputs, members, pieces = case
    head = json.dumps(
        members, separators=(" ,\n", " : ") if spaced else None, ensure_ascii=ascii_only
    ).encode()
    body = b"".join((head, *pieces))
    found = read_request(body, len(head) if pieces else None)
    assert [each.name for each in found.inputs] == [name for name, _ in inputs]
    for tensor, (_, (datatype, shape, flat)) in zip(found.inputs, inputs, strict=True):
        assert (tensor.datatype, tensor.shape) == (datatype, tuple(shape))
        assert tensor.elements.tolist() == flat
    assert found.id == members.get("id")
    assert found.parameters == members.get("parameters", {})
    assert (found.outputs, found.binary_output) == ((), False)


def asked(**members):
    one = {"name": "a", "datatype": "FP32", "shape": [1], "data": [1]}
    return json.dumps({"inputs": [one], **members}).encode()


def test_outputs_say_how_they_are_to_come():
    named = [
        {"name": "x", "parameters": {"binary_data": True}},
        {"name": "y", "parameters": {"binary_data": False}},
        {"name": "z"},
    ]
    for default in (True, False):
        found = read_request(asked(outputs=named, parameters={"binary_data_output": default}))
        assert found.outputs == (
            RequestedOutput("x", binary=True),
            RequestedOutput("y", binary=False),
            RequestedOutput("z", binary=default),
        )
        assert (found.binary_output, found.parameters) == (default, {})


def test_the_specifications_sample():
    body = b"""{
      "id" : "42",
      "inputs" : [
        {"name" : "input0", "shape" : [ 2, 2 ], "datatype" : "UINT32", "data" : [ 1, 2, 3, 4 ]},
        {"name" : "input1", "shape" : [ 3 ], "datatype" : "BOOL", "data" : [ true, false, true ]}
      ],
      "outputs" : [{"name" : "output0"}]
    }"""
    found = read_request(body)
    assert [each.elements.tolist() for each in found.inputs] == [[1, 2, 3, 4], [True, False, True]]
    # As it is printed, input1 has one element in a shape of three.
    with pytest.raises(InferFault, match=r"1 elements were given; BOOL of shape \[3\] must have 3"):
        read_request(body.replace(b"[ true, false, true ]", b"[ true ]"))


def test_what_others_add_is_let_be():
    found = read_request(asked(model_name="m", id=None, parameters=None, outputs=None))
    assert (found.id, found.parameters, found.outputs) == (None, {}, ())


def one(**members):
    given = {"name": "a", "datatype": "FP32", "shape": [1], "data": [1]} | members
    return json.dumps({"inputs": [{k: v for k, v in given.items() if v is not ...}]}).encode()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "Inference-Header-Content-Length: 0 was given"),
        (b"{", "the body is not JSON"),
        (b"[]", "the body must be a JSON object"),
        (b'{"inputs": [1, NaN]}', "the body is not JSON: NaN"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b"[" * 300_000, "nested too deeply"),
        (b"{}", "inputs: it must be an array of at least one object"),
        (b'{"inputs": []}', "inputs: it must be an array of at least one object"),
        (b'{"inputs": [1]}', 'inputs: each must be an object whose "name"'),
        (b'{"inputs": [], "inputs": []}', "a member twice"),
        (asked(inputs=[{"name": "a"}]), "tensor 'a': datatype must be a string"),
        (one(shape=None), "tensor 'a': shape must be an array of whole numbers"),
        (one(shape=[1.0]), "tensor 'a': shape must be an array of whole numbers"),
        (one(shape=[True]), "tensor 'a': shape must be an array of whole numbers"),
        (one(datatype="BYTES", data=["\ud800"]), "half of a surrogate pair"),
        (one(name="\udfff"), "half of a surrogate pair"),
        (asked(id="\ud800x"), "half of a surrogate pair"),
        (one(data=...), "tensor 'a': it has no data"),
        (one(data=[1, 2]), "tensor 'a': 2 elements"),
        (one(parameters={"binary_data_size": 0}), 'it has both "data" and'),
        (one(data=..., parameters={"binary_data_size": 4}), "from 0 to 0, the bytes"),
        (one(data=..., parameters={"binary_data_size": True}), "from 0 to 0, the bytes"),
        (one(parameters=[1]), "tensor 'a': parameters must be an object of strings"),
        (one(parameters={"x": [1]}), "tensor 'a': parameters must be an object of strings"),
        (one(parameters={"x": 1}).replace(b'"x": 1', b'"x": 1e999'), "must be an object of str"),
        (one(parameters={"shared_memory_region": "r"}), "shared_memory_region needs an extension"),
        (asked(parameters={"binary_data_output": 1}), "binary_data_output must be true or false"),
        (asked(id=7), "id: it must be a string"),
        (asked(outputs=[{"name": "x"}, {"name": "x"}]), "outputs: 'x' appears twice"),
        (asked(inputs=[{}] * 4097), "inputs: 4097 tensors were given; there must be at most 4096"),
        (asked(outputs=[{}] * 4097), "outputs: 4097 tensors were given; there must be at most"),
        (asked(outputs=[{"name": ""}]), 'outputs: each must be an object whose "name'),
        (
            asked(outputs=[{"name": "x", "parameters": {"classification": 3}}]),
            "output 'x': the parameter classification needs an extension",
        ),
    ],
)
def test_what_is_no_request(body, why):
    with pytest.raises(InferFault, match=why):
        read_request(body)


def test_binary_data_are_where_the_inputs_say():
    head = one(data=..., parameters={"binary_data_size": 4})
    assert read_request(head + b"\0\0\x80\x3f", len(head)).inputs[0].elements.tolist() == [1]
    for body, length, why in (
        (head + b"\0\0\x80\x3f\0", len(head), "1 bytes follow the last input's data"),
        (head + b"\0\0\x80", len(head), "from 0 to 3, the bytes"),
        (head, len(head) + 1, f"{len(head) + 1} was given; it must be the length"),
        (head, 0, "0 was given; it must be the length"),
        (head + b"\0\0\x80\x3f", None, "not JSON"),
    ):
        with pytest.raises(InferFault, match=why):
            read_request(body, length)


@given(st.binary(max_size=60), st.integers(0, 60))
def test_whatever_comes_is_a_request_or_a_fault(data, length):
    with pytest.raises(InferFault):
        read_request(data, length)
