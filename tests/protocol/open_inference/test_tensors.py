"""Tensors as bytes and as JSON, beside a model that does it by ``struct``."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.open_inference.tensors import (
    DATATYPES,
    TensorFault,
    from_binary,
    from_elements,
    from_json,
)
from tests.protocol.open_inference.tensors_model import CODES, binary, nested, tensors

#: Those that have a form in JSON; of BYTES only text has one.
_IN_JSON = tuple(each for each in CODES if each != "FP16")


def as_json(tensor):
    return orjson.loads(orjson.dumps(tensor.json(), option=orjson.OPT_SERIALIZE_NUMPY))


@given(tensors())
def test_binary_data_are_what_struct_has(case):
    datatype, shape, flat = case
    data = binary(datatype, flat)
    tensor = from_binary("a", datatype, shape, data)
    assert tensor.shape == tuple(shape)
    assert tensor.elements.tolist() == flat
    assert tensor.binary() == data
    assert from_elements("a", datatype, shape, flat).binary() == data


@given(tensors(_IN_JSON), st.booleans())
def test_json_is_flat_or_as_the_shape_has_it(case, flat_data):
    datatype, shape, flat = case
    tensor = from_json("a", datatype, shape, flat if flat_data else nested(shape, flat))
    assert tensor.elements.tolist() == flat
    said = as_json(tensor)
    # FP32 is written by the digits that tell it from its neighbours.
    assert (np.array(said, np.float32).tolist() if datatype == "FP32" else said) == flat


@given(st.lists(st.text(max_size=4), min_size=1, max_size=5))
def test_strings_are_bytes(texts):
    tensor = from_json("a", "BYTES", [len(texts)], texts)
    assert tensor.elements.tolist() == [each.encode() for each in texts]
    assert as_json(tensor) == texts


def test_bfloat16_is_the_upper_half_of_float32():
    halves = np.array([1.0, -2.5, 3.140625], "<f4").view("<u4") >> 16
    tensor = from_binary("a", "BF16", [3], halves.astype("<u2").tobytes())
    assert tensor.numbers.tolist() == [1.0, -2.5, 3.140625]
    assert tensor.binary() == halves.astype("<u2").tobytes()


@given(tensors(), st.integers(-9, 9).filter(bool))
def test_data_of_another_length_are_refused(case, by):
    datatype, shape, flat = case
    data = binary(datatype, flat)
    other = data[:by] if by < 0 else data + b"\1" * by
    if other == data:
        return  # there was nothing to take away
    with pytest.raises(TensorFault, match=r"^tensor 'a': "):
        from_binary("a", datatype, shape, other)


@given(st.sampled_from([*DATATYPES]), st.binary(max_size=40), st.lists(st.integers(-1, 9)))
def test_whatever_comes_is_a_tensor_or_a_fault(datatype, data, shape):
    try:
        tensor = from_binary("a", datatype, shape, data)
    except TensorFault:
        return
    assert tensor.binary() == data


@pytest.mark.parametrize(
    ("datatype", "shape", "data", "why"),
    [
        ("INT8", [1], [128], "from -128 to 127"),
        ("UINT64", [2], [0, 2**64], "from 0 to 18446744073709551615"),
        ("UINT8", [1], [-1], "from 0 to 255"),
        ("INT32", [1], [1.0], "must be a whole number"),
        ("INT32", [1], [True], "must be a whole number"),
        ("FP32", [1], [1e39], "outside the range of FP32"),
        ("FP64", [1], [10**400], "outside the range of FP64"),
        ("FP64", [2], [1.5, True], "must be a number"),
        ("FP64", [1], ["1"], "must be a number"),
        ("BOOL", [2], [True, 1], "must be true or false"),
        ("BYTES", [1], [1], "must be a string"),
        ("FP16", [1], [1.0], "must come as binary data"),
        ("BF16", [1], [1.0], "must come as binary data"),
        ("FLOAT", [1], [1.0], "datatype must be one of BOOL, UINT8"),
        ("FP32", [2], [1.0], r"1 elements were given; FP32 of shape \[2\] must have 2"),
        ("FP32", [2, 2], [[1, 2], [3]], r"nested arrays of the shape \[2, 2\]"),
        ("FP32", [2, 2], [[1, 2, 3], [4]], r"nested arrays of the shape \[2, 2\]"),
        ("FP32", [2, 2], [[1, 2], 3], r"nested arrays of the shape \[2, 2\]"),
        ("FP32", [2, 1], [[[1]], [[2]]], r"nested arrays of the shape \[2, 1\]"),
        ("FP32", [2], "12", "data must be an array"),
        ("FP32", [], [1], "must have at least one dimension"),
        ("FP32", [0], [], "must have at least one dimension"),
        ("FP32", [-1], [], "must have at least one dimension"),
        ("FP32", [2**40, 2**40], [], "must have at least one dimension"),
        ("FP32", [1] * 9, [1], "has 9 dimensions; it must have at most 8"),
    ],
)
def test_what_is_no_tensor(datatype, shape, data, why):
    with pytest.raises(TensorFault, match=f"^tensor 'a': .*{why}"):
        from_json("a", datatype, shape, data)


@pytest.mark.parametrize(
    ("datatype", "shape", "data", "why"),
    [
        ("BOOL", [2], b"\0\2", "a byte of 0 or 1"),
        ("BYTES", [1], b"\5\0\0\0abc", "each begins with its length"),
        ("BYTES", [2], b"\1\0\0\0a", "must be 2 elements"),
        ("BYTES", [1], b"\1\0\0", "must be 1 elements"),
        ("BYTES", [1], b"\xff\xff\xff\xff", "must be 1 elements"),
        ("BYTES", [2**40], b"\0\0\0\0", "must be 1099511627776 elements"),
        ("FP32", [1], b"\0\0\0", r"3 bytes of data were given; FP32 of shape \[1\] must have 4"),
    ],
)
def test_what_are_no_data(datatype, shape, data, why):
    with pytest.raises(TensorFault, match=why):
        from_binary("a", datatype, shape, data)


@pytest.mark.parametrize(
    ("datatype", "data", "why"),
    [
        ("BYTES", b"\1\0\0\0\xff", "not UTF-8"),
        ("FP16", b"\0\0", "FP16 has no form in JSON"),
        ("BF16", b"\0\0", "BF16 has no form in JSON"),
        ("FP32", b"\0\0\xc0\x7f", "NaN or Infinity"),
        ("FP64", b"\0\0\0\0\0\0\xf0\xff", "NaN or Infinity"),
    ],
)
def test_what_json_has_nothing_for(datatype, data, why):
    with pytest.raises(TensorFault, match=why):
        from_binary("a", datatype, [1], data).json()


def test_a_long_name_is_cut_where_it_is_shown():
    with pytest.raises(TensorFault, match=rf"^tensor '{'n' * 61}\.\.\.': "):
        from_json("n" * 5000, "FP32", [1], [])
