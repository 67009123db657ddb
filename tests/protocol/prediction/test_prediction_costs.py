"""The cost of predictions per byte, over shapes, datatypes and dialects.

Calls and memory are counted, which no other program on the machine changes. CPU time is compared
for the costliest shapes alone, as the least of several times.
"""

from __future__ import annotations

import json
import math
import struct
import sys
import time
import tracemalloc
from functools import cache

import pytest
from google.protobuf import json_format, struct_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from partway.protocol.grpc import inference
from partway.protocol.grpc.values import json_of, values_of
from partway.protocol.open_inference.mapping import instances_of, outputs_of
from partway.protocol.open_inference.onward import write_request
from partway.protocol.open_inference.requests import InferRequest, read_request
from partway.protocol.open_inference.responses import write_response
from partway.protocol.prediction.bodies import read_answer, read_instances
from partway.protocol.prediction.bodies import read_request as read_predict
from partway.protocol.prediction.columns import as_outputs
from tests.gateway.apis.grpc.calling import field
from tests.protocol.open_inference.tensors_model import CODES, nested

#: Elements of a tensor, about: where calls are counted, and where memory is.
FEW = 1500
MANY = 20_000

#: Bytes that one block of elements takes at most, however short a body is.
BLOCK_BYTES = 1 << 20

#: Calls of functions for each byte. Each instance by itself once cost forty.
CALLS = 6

#: How many times as much as an ordinary request anything may cost.
TIMES = 10

ONE = {"BYTES": "x", "BOOL": True, "FP32": 0.5, "FP64": 0.5}
MESSAGE = inference.ModelInferRequest
NOTHING = InferRequest(())


def one(datatype):
    return ONE.get(datatype, 7)


def binary(datatype, count):
    if datatype == "BYTES":
        return b"\1\0\0\0x" * count
    return struct.pack("<" + CODES[datatype], one(datatype)) * count


# --- Asked by clients ----------------------------------------------------------------------------
# Each makes a body, and says what is done with it.


def v2_json(shape, datatype):
    data = [one(datatype)] * math.prod(shape)
    tensor = {"name": "x", "shape": shape, "datatype": datatype, "data": data}
    body = json.dumps({"inputs": [tensor]}, separators=(",", ":")).encode()
    return body, lambda: instances_of(read_request(body))


def v2_json_named(shape, datatype):
    body, _ = v2_json(shape, datatype)
    return body, lambda: instances_of(read_request(body), named=True, wrap=True)


def _v2_binary(shape, datatype):
    data = binary(datatype, math.prod(shape))
    parameters = {"binary_data_size": len(data)}
    tensor = {"name": "x", "shape": shape, "datatype": datatype, "parameters": parameters}
    head = json.dumps({"inputs": [tensor]}).encode()
    return head + data, len(head)


def v2_binary(shape, datatype):
    body, length = _v2_binary(shape, datatype)
    return body, lambda: instances_of(read_request(body, length))


def v2_onward(shape, datatype):
    body, length = _v2_binary(shape, datatype)
    return body, lambda: write_request(read_request(body, length))


def _grpc(message):
    body = message.SerializeToString()

    def work():
        found = MESSAGE()
        found.ParseFromString(body)
        return instances_of(inference.infer_request(found))

    return body, work


def grpc_raw(shape, datatype):
    message = MESSAGE(raw_input_contents=[binary(datatype, math.prod(shape))])
    message.inputs.add(name="x", datatype=datatype, shape=shape)
    return _grpc(message)


def grpc_contents(shape, datatype):
    message = MESSAGE()
    tensor = message.inputs.add(name="x", datatype=datatype, shape=shape)
    element = b"x" if datatype == "BYTES" else one(datatype)
    where = inference._CONTENTS[datatype]
    getattr(tensor.contents, where).extend([element] * math.prod(shape))
    return _grpc(message)


def list_value(shape, element):
    """Nested lists of one element over and over, as a google.protobuf.ListValue's bytes."""
    value = json_format.ParseDict(element, struct_pb2.Value()).SerializeToString()
    for size in reversed(shape):
        listed = field(1, value) * size  # ListValue.values
        value = field(6, listed)  # Value.list_value
    return listed


def google_grpc(shape, datatype):
    body = list_value(shape, one(datatype))

    def work():
        values = struct_pb2.ListValue.FromString(body).values
        return read_predict(b'{"instances":%b}' % json_of(values))

    return body, work


def _v1(shape, datatype, text='{"instances":%s}'):
    tree = nested(shape, [one(datatype)] * math.prod(shape))
    return (text % json.dumps(tree, separators=(",", ":"))).encode()


def v1(shape, datatype):
    body = _v1(shape, datatype)
    return body, lambda: read_predict(body)


def v1_wrapped(shape, datatype):
    body = _v1(shape, datatype)
    return body, lambda: read_predict(body, wrap=True)


def v1_columns(shape, datatype):
    body = _v1(shape, datatype, '{"inputs":{"x":%s}}')
    return body, lambda: read_predict(body, columns=True)


def runtime(shape, datatype):
    body = _v1(shape, datatype)
    return body, lambda: read_instances(body)


# --- Answered by containers ----------------------------------------------------------------------


def to_v1_columns(shape, datatype):
    tree = nested(shape, [one(datatype)] * math.prod(shape))
    rows = [{"x": each} for each in tree]
    body = json.dumps({"predictions": rows}, separators=(",", ":")).encode()
    return body, lambda: as_outputs(read_answer(body, shape[0]))


def _to_v2(body, count, written):
    return body, lambda: written(outputs_of(read_answer(body, count)))


def to_v2(shape, datatype):
    body = _v1(shape, datatype, '{"predictions":%s}')
    return _to_v2(body, shape[0], lambda found: write_response(NOTHING, found, "m", "1"))


def to_grpc(shape, datatype):
    body = _v1(shape, datatype, '{"predictions":%s}')
    return _to_v2(body, shape[0], lambda found: inference.infer_response(NOTHING, found, "m", "1"))


def to_google_grpc(shape, datatype):
    body = _v1(shape, datatype, '{"predictions":%s}')
    return body, lambda: values_of(read_answer(body, shape[0]))


DIALECTS = (
    *(v2_json, v2_json_named, v2_binary, v2_onward, grpc_raw, grpc_contents, google_grpc),
    *(v1, v1_wrapped, v1_columns, runtime, to_v1_columns, to_v2, to_grpc, to_google_grpc),
)


# --- Counting ------------------------------------------------------------------------------------


def calls_of(work):
    """How many functions a piece of work calls, in Python and in C."""
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def memory_of(work):
    """The most memory that a piece of work holds, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def seconds_of(work):
    """The least CPU time of several times."""
    taken = []
    for _ in range(3):
        before = time.process_time()
        work()
        taken.append(time.process_time() - before)
    return min(taken)


@cache
def most_memory():
    """The most memory for each byte of a body, as is counted once."""
    body, work = v2_json([MANY // 4, 4], "FP32")
    return TIMES * memory_of(work) / len(body)


def shapes(count):
    """Shapes of one to eight dimensions, of which one is as long as elements are left for it."""
    short = st.lists(st.sampled_from([1, 1, 1, 2, 3]), max_size=7)

    def with_long(sizes, place):
        long = max(1, count // math.prod(sizes))
        return [*sizes[:place], long, *sizes[place:]]

    return st.builds(with_long, short, st.integers(0, 7))


DATATYPES = st.sampled_from(("INT8", "UINT64", "FP32", "FP64", "BOOL", "BYTES"))


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=25, deadline=None)
@given(shape=shapes(FEW), datatype=DATATYPES)
def test_calls_for_each_byte_are_bounded(dialect, shape, datatype):
    body, work = dialect(shape, datatype)
    work()  # what is imported or made once is not this body's
    assert calls_of(work) < CALLS * len(body) + 500


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=6, deadline=None)
@given(shape=shapes(MANY), datatype=DATATYPES)
def test_memory_for_each_byte_is_bounded(dialect, shape, datatype):
    body, work = dialect(shape, datatype)
    work()
    assert memory_of(work) < most_memory() * len(body) + BLOCK_BYTES


def names_v1(count):
    body = b'{"inputs":{%b}}' % b",".join(b'"a%05d":[1]' % each for each in range(count))
    return body, lambda: read_predict(body, columns=True)


def names_v2(count):
    tensors = [
        {"name": f"a{each}", "shape": [1], "datatype": "INT8", "data": [1]} for each in range(count)
    ]
    body = json.dumps({"inputs": tensors}, separators=(",", ":")).encode()
    return body, lambda: instances_of(read_request(body))


def names_grpc(count):
    message = MESSAGE(raw_input_contents=[b"\1"] * count)
    for each in range(count):
        message.inputs.add(name=f"a{each}", datatype="INT8", shape=[1])
    return _grpc(message)


def names_answered(count):
    body = b'{"predictions":[{%b}]}' % b",".join(b'"a%05d":1' % each for each in range(count))
    return body, lambda: as_outputs(read_answer(body, 1))


def names_answered_v2(count):
    body, _ = names_answered(count)
    return _to_v2(body, 1, lambda found: write_response(NOTHING, found, "m", "1"))


@pytest.mark.parametrize(
    "dialect", [names_v1, names_v2, names_grpc, names_answered, names_answered_v2]
)
def test_calls_and_memory_for_each_byte_of_many_names_are_bounded(dialect):
    body, work = dialect(MANY // 10)
    work()
    assert calls_of(work) < CALLS * len(body)
    assert memory_of(work) < most_memory() * len(body) + BLOCK_BYTES


@pytest.mark.parametrize("dialect", [v2_json, v2_binary, grpc_raw, v1_columns])
@pytest.mark.parametrize("datatype", ["INT8", "FP32", "BYTES"])
@pytest.mark.parametrize("shape", [[20_000, *[1] * 7], [1, 20_000, *[1] * 6]])
def test_the_costliest_shapes_take_ten_times_as_long_at_most(dialect, datatype, shape):
    ordinary_body, ordinary = v2_json([5000, 4], "FP32")
    body, work = dialect(shape, datatype)
    most = TIMES * seconds_of(ordinary) / len(ordinary_body)
    assert seconds_of(work) < most * len(body)
