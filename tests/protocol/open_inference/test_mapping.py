"""Tensors as instances, and predictions as tensors, beside models that do it by Python's json."""

from __future__ import annotations

import base64
import json
import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.open_inference.mapping import instances_of, outputs_of
from partway.protocol.open_inference.requests import InferFault, InferRequest, RequestedOutput
from partway.protocol.open_inference.tensors import from_binary, from_elements
from partway.protocol.prediction.bodies import PredictionFault
from tests.protocol.open_inference.tensors_model import CODES, elements_of, nested, tensors

_NUMBERS = tuple(CODES)


def as_number(datatype, value):
    """What a number of JSON is as an element: FP16's and FP32's digits are its own."""
    return value if datatype not in ("FP16", "FP32") else pytest.approx(value, rel=1e-3)


def instances(*inputs, **how):
    tensors = tuple(
        from_elements(name, datatype, shape, flat) for name, datatype, shape, flat in inputs
    )
    found = instances_of(InferRequest(tensors), **how)
    members = json.loads(found.body)
    assert members.keys() == {"instances"}
    assert found.instances == len(members["instances"])
    return members["instances"]


@given(tensors(_NUMBERS))
def test_one_tensor_is_an_instance_for_each_part_of_it(case):
    datatype, shape, flat = case
    expected = nested(shape, [as_number(datatype, each) for each in flat])
    assert instances(("a", datatype, shape, flat)) == expected
    named = [{"a": each} for each in expected]
    assert instances(("a", datatype, shape, flat), named=True) == named
    assert instances(("a", datatype, shape, flat), named=True, wrap=True) == [
        {"data": each} for each in named
    ]
    assert instances(("a", datatype, shape, flat), wrap=True) == [
        {"data": each} for each in expected
    ]


@given(st.integers(1, 4), st.data())
def test_several_tensors_are_objects_in_the_order_of_their_rows(count, data):
    cases = {}
    for name in ("a", "b", "text"):
        rest = data.draw(st.lists(st.integers(1, 3), max_size=2))
        datatype = "BYTES" if name == "text" else data.draw(st.sampled_from(_NUMBERS))
        shape = [count, *rest]
        element = elements_of(datatype)
        if datatype == "BYTES":
            element = st.text(st.characters(codec="utf-8"), max_size=3).map(str.encode)
        size = math.prod(shape)
        cases[name] = (datatype, shape, data.draw(st.lists(element, min_size=size, max_size=size)))
    found = instances(*((name, *case) for name, case in cases.items()))
    rows = {
        name: nested(
            shape,
            [each.decode() if datatype == "BYTES" else as_number(datatype, each) for each in flat],
        )
        for name, (datatype, shape, flat) in cases.items()
    }
    assert found == [{name: rows[name][place] for name in cases} for place in range(count)]


def b64(data):
    return {"b64": base64.b64encode(data).decode()}


def test_bytes_are_text_or_base64_all_of_a_tensor_alike():
    assert instances(("a", "BYTES", [2], [b"x", "é".encode()])) == ["x", "é"]
    assert instances(("a", "BYTES", [2], [b"x", b"\xff"])) == [b64(b"x"), b64(b"\xff")]
    assert instances(("a", "BYTES", [1, 2], [b"x", b"\xff"])) == [[b64(b"x"), b64(b"\xff")]]
    assert instances(("image_bytes", "BYTES", [1], [b"x"])) == [b64(b"x")]


def test_a_requests_parameters_go_along():
    one = from_elements("a", "INT8", [1], [7])
    found = instances_of(InferRequest((one,), parameters={"k": 2**64 - 1, "s": "x"}))
    assert json.loads(found.body) == {
        "instances": [7],
        "parameters": {"k": 2**64 - 1, "s": "x"},
    }


def test_many_instances_are_in_their_order():
    numbers, texts = list(range(10_000)), [b"%d" % each for each in range(20_000)]
    a, b = ("a", "INT32", [10_000], numbers), ("b", "BYTES", [10_000, 2], texts)
    strings = [[f"{2 * each}", f"{2 * each + 1}"] for each in numbers]
    assert instances(a, wrap=True) == [{"data": each} for each in numbers]
    assert instances(b) == strings
    assert instances(a, b) == [
        {"a": number, "b": pair} for number, pair in zip(numbers, strings, strict=True)
    ]


@pytest.mark.parametrize(
    "shape", [[1, 9000], [2, 9000], [1, 3, 5000, 1], [2, 70, 70, 1], [1, 1, 5000]]
)
def test_many_elements_are_in_their_order(shape):
    count = math.prod(shape)
    texts = [b"%d" % each for each in range(count)]
    assert instances(("a", "INT32", shape, list(range(count)))) == nested(shape, range(count))
    assert instances(("a", "BYTES", shape, texts)) == nested(shape, [t.decode() for t in texts])


@pytest.mark.parametrize(
    ("datatype", "shape", "how"),
    [
        ("INT8", [20_000], {"named": True, "wrap": True}),
        ("INT8", [1, 20_000, 1, 1, 1, 1, 1, 1], {}),
        ("BYTES", [5_000, 1, 1, 1, 1, 1, 1, 1], {"named": True}),
        ("BYTES", [1, 5_000, 1, 1, 1, 1, 1, 1], {}),
    ],
)
def test_what_a_request_holds_is_within_a_hundred_times_its_bytes(datatype, shape, how):
    data = b"\0" * 20_000  # of BYTES these are the lengths of empty ones
    tracemalloc.start()
    try:
        found = instances_of(InferRequest((from_binary("name", datatype, shape, data),)), **how)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 100 * len(data)
    assert found.body.startswith(b'{"instances":[')


def test_names_that_each_instance_has_have_a_bound():
    """A megabyte and a half would become hundreds of gigabytes."""
    one = from_binary("n" * 2000, "BOOL", [2000], b"\0" * 2000)
    other = from_binary("m", "BOOL", [2000], b"\0" * 2000)
    assert instances_of(InferRequest((one,))).instances == 2000  # none of them has it
    for inputs, how in (((one, other), {}), ((one,), {"named": True})):
        with pytest.raises(
            InferFault, match=r"written in each of 2000 instances, have 40\d{5} bytes"
        ):
            instances_of(InferRequest(inputs), **how)


def test_what_has_no_instances():
    one = from_elements("a", "INT8", [1], [0])
    other = from_elements("b", "INT8", [2], [0, 0])
    with pytest.raises(InferFault, match="tensor 'a' has 1 instances, and tensor 'b' has 2; the"):
        instances_of(InferRequest((one, other)))
    for datatype, data in (("FP32", b"\0\0\xc0\x7f"), ("FP16", b"\0\x7c"), ("BF16", b"\x80\x7f")):
        nan = from_binary("a", datatype, [1], data)
        with pytest.raises(InferFault, match="tensor 'a': it holds NaN or Infinity"):
            instances_of(InferRequest((nan,)))


# --- From predictions ----------------------------------------------------------------------------


def outputs(predictions, *names):
    text = predictions if isinstance(predictions, bytes) else json.dumps(predictions).encode()
    wanted = tuple(RequestedOutput(name, binary=False) for name in names)
    return [
        (each.name, each.datatype, list(each.shape), each.elements.tolist())
        for each in outputs_of(text, wanted)
    ]


@given(tensors(("BOOL", "INT64", "FP64")))
def test_predictions_are_one_tensor(case):
    datatype, shape, flat = case
    if datatype == "FP64":
        flat = [float(each) for each in flat]
    assert outputs(nested(shape, flat)) == [("output-0", datatype, shape, flat)]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=4), min_size=1, max_size=4))
def test_strings_are_bytes(texts):
    encoded = [each.encode() for each in texts]
    assert outputs(texts) == [("output-0", "BYTES", [len(texts)], encoded)]
    assert outputs([b64(each) for each in encoded]) == [
        ("output-0", "BYTES", [len(texts)], encoded)
    ]


@pytest.mark.parametrize(
    ("predictions", "datatype", "elements"),
    [
        (b"[1, 2.5]", "FP64", [1.0, 2.5]),
        (b"[9223372036854775807, -9223372036854775808]", "INT64", [2**63 - 1, -(2**63)]),
        (b"[18446744073709551615, 0]", "UINT64", [2**64 - 1, 0]),
        (b"[0.1234567890123456789, 1]", "FP64", [0.1234567890123456789, 1.0]),
        (b'["a", {"b64": "/w"}]', "BYTES", [b"a", b"\xff"]),
        (b"[[], []]", "FP64", []),
    ],
)
def test_the_datatype_is_what_the_elements_are(predictions, datatype, elements):
    ((_, found, _, values),) = outputs(predictions)
    assert (found, values) == (datatype, elements)


def test_members_are_outputs():
    predictions = [
        {"scores": [0.5, 0.25], "label": "a", "image_bytes": b64(b"\xff")},
        {"label": "b", "scores": [0.125, 1.0], "image_bytes": b64(b"")},
    ]
    scores = ("scores", "FP64", [2, 2], [0.5, 0.25, 0.125, 1.0])
    label = ("label", "BYTES", [2], [b"a", b"b"])
    image = ("image_bytes", "BYTES", [2], [b"\xff", b""])
    assert outputs(predictions) == [scores, label, image]
    assert outputs(predictions, "label", "scores") == [label, scores]


def test_what_is_not_asked_for_need_be_no_tensor():
    predictions = [{"score": 1, "why": None}, {"score": 2, "why": {"a": 1}}]
    assert outputs(predictions, "score") == [("score", "INT64", [2], [1, 2])]
    with pytest.raises(PredictionFault, match="output 'why': no datatype fits all its elements"):
        outputs(predictions)


def test_an_output_without_a_name_has_the_one_that_is_asked_for():
    assert outputs([1], "anything") == [("anything", "INT64", [1], [1])]
    with pytest.raises(InferFault, match="output 'a': the model has no such output; it has 'outp"):
        outputs([1], "a", "b")
    with pytest.raises(InferFault, match="output 'c': the model has no such output; it has 'a', "):
        outputs([{"a": 1, "b": 2}], "c")


@pytest.mark.parametrize(
    ("predictions", "why"),
    [
        (b"[null]", "output 'output-0': no datatype fits all its elements"),
        (b"[true, 1]", "no datatype fits"),
        (b'["a", 1]', "no datatype fits"),
        (b"[18446744073709551616]", "an element of UINT64 must be a whole number"),
        (b"[18446744073709551615, -1]", "an element of UINT64 must be a whole number"),
        (b"[-9223372036854775809]", "an element of INT64 must be a whole number"),
        (b"[%b]" % (b"9" * 5000), "no datatype fits"),
        (b"[1e999]", "outside the range of FP64"),
        (b"[[1, 2], [3]]", r"inside the shape \[2\] their lengths are 1, 2"),
        (b"[[1], 2]", "their lengths are no array, 1"),
        (b"[" * 9 + b"1" + b"]" * 9, "at most 8 dimensions"),
        (b'[{"a": 1}, {"b": 1}]', "prediction 1: it must be an object with the same members"),
        (b'[{"a": 1}, 2]', "prediction 1: it must be an object with the same members"),
        (b'[2, {"a": 1}]', "prediction 0: it must be an object with the same members"),
        (b"[{}]", "prediction 0: it must be an object with the same members"),
        (b'[{"b64": "A"}]', r'output \'output-0\': {"b64": …}: it has 1 characters'),
        (b'[{"b64": 5}]', "no datatype fits"),
        (rb'["\ud800"]', "predictions: a string has half of a surrogate pair"),
        (rb'[{"\udc00": 99999999999999999999999}]', "half of a surrogate pair"),
    ],
)
def test_what_are_no_tensors(predictions, why):
    with pytest.raises(PredictionFault, match=why):
        outputs(predictions)
