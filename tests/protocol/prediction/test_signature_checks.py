"""partway.protocol.prediction.signature_checks: tensors beside a model by numpy."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.prediction.model_signature import (
    TYPES,
    Signature,
    TensorSpec,
    is_bytes,
    metadata,
)
from partway.protocol.prediction.signature_checks import SignatureFault, as_b64, check_tensors


def fault(specs, rows, what="instances"):
    """What is wrong; empty if nothing is."""
    try:
        check_tensors(specs, rows, what)
    except SignatureFault as found:
        return str(found)
    return ""


def one(kind, *shape):
    return {"x": TensorSpec(kind, shape)}


NUMBERS = st.integers(-(2**66), 2**66) | st.integers(-300, 300) | st.floats(-1e40, 1e40)
LEAVES = NUMBERS | st.booleans() | st.text(max_size=2) | st.none()
NESTED = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=9)
REGULAR = st.builds(
    lambda shape, leaf: np.full(shape, leaf, object).tolist(),
    st.lists(st.integers(0, 3), max_size=3),
    LEAVES,
)


def shape_by_numpy(value):
    """Its shape, None where it is ragged: numpy makes an array of the values of a shape alone."""
    lengths, first = [], value
    while isinstance(first, list):
        lengths.append(len(first))
        first = first[0] if first else None
    flat = leaves(value)
    if any(isinstance(each, list) for each in flat) or len(flat) != int(np.prod(lengths)):
        return None
    array = np.empty(len(flat), object)
    array[:] = flat
    return tuple(lengths) if array.reshape(lengths).tolist() == value else None


def is_element(kind, value):
    """Whether numpy keeps a value of Python's in a type."""
    if kind == "string":
        return isinstance(value, str)
    if kind == "bool":
        return isinstance(value, bool)
    if isinstance(value, (bool, str)) or value is None:
        return False
    if kind.startswith("float"):
        return abs(value) <= float(np.finfo(kind).max)
    return isinstance(value, int) and np.iinfo(kind).min <= value <= np.iinfo(kind).max


def leaves(value):
    return [leaf for each in value for leaf in leaves(each)] if isinstance(value, list) else [value]


@given(st.sampled_from(sorted(TYPES)), st.lists(st.integers(-1, 3), max_size=3), NESTED | REGULAR)
def test_a_tensor_is_one_by_numpy_too(kind, shape, value):
    found = shape_by_numpy(value)
    if found and found[-1] == 0 and len(found) < len(shape):  # of what is empty no more is known
        found += tuple(shape[len(found) :])
    good = (
        found is not None
        and len(found) == len(shape)
        and all(must in (-1, is_) for is_, must in zip(found, shape, strict=True))
        and all(is_element(kind, each) for each in leaves(value))
    )
    said = fault(one(kind, *shape), [value])
    assert (said == "") == good, said
    assert said == "" or said.startswith(("instances[0]: it", "instances[0]: a value"))


@pytest.mark.parametrize(
    ("spec", "value", "said"),
    [
        (one("int8"), 128, "a value is the number 128; it must be int8, a whole number from -128"),
        (one("int8"), 1.0, "a value is the number 1.0; it must be int8, a whole number from -128"),
        (one("uint64"), -1, "a value is the number -1; it must be uint64, a whole number from 0"),
        (one("float32"), 1e39, "a value is the number 1e+39; it must be float32, a number from -3"),
        (one("float64"), True, "a value is true; it must be float64"),
        (one("string"), None, 'a value is null; it must be string, "…" or {"b64": "…"}'),
        (one("string"), {"b65": "x"}, "a value is an object; it must be string"),
        (one("bool"), 0, "a value is the number 0; it must be bool, true or false"),
        (one("float32", 2), [1], "its shape is [1]; it must be float32 of the shape [2]"),
        (one("float32", 2), 1, "it is a single value; it must be float32 of the shape [2]"),
        (one("float32"), [[1]], "its shape is [1, 1]; it must be one float32"),
        (
            one("float32", -1, -1), [[1, 2], [3]],
            ("it is ragged: it has lists of 1 and of 2 values side by side, within the shape [2]; "
            "it must be float32 of the shape [-1, -1]"),
        ),
        (
            one("float32", -1), [1, [2]],
            "it is ragged: it has lists and single values side by side, within the shape [2]; ",
        ),
    ],
)  # fmt: skip
def test_what_is_said(spec, value, said):
    good = {"string": "a", "bool": True}.get(spec["x"].type, 1)
    for size in reversed(spec["x"].shape):
        good = [good] * abs(size)
    assert fault(spec, [good, value], "predictions").startswith(f"predictions[1]: {said}")


def test_tensors_of_any_length_need_not_be_alike():
    assert fault(one("int32", -1), [[1], [1, 2], []]) == ""
    assert fault(one("string", -1, 2), [[["a", {"b64": "AA"}]], []]) == ""
    assert "ragged" in fault(one("int32", -1, -1), [[[1], [1]], [[1], [1, 2]]])


def test_an_only_tensor_may_have_its_name():
    assert fault(one("int32"), [1, {"x": 2}]) == ""
    assert fault(one("int32"), [{"y": 2}]).startswith(
        "instances[0]: a value is an object; it must be"
    )


def test_several_tensors_are_members():
    specs = {"tag": TensorSpec("string"), "image": TensorSpec("uint8", (-1, 3))}
    good = {"image": [[1, 2, 3]], "tag": "beach"}
    assert fault(specs, [good, {"tag": {"b64": "AA"}, "image": []}]) == ""
    must = "it must be an object with the members tag, image"
    assert fault(specs, [good, "beach"]) == f"instances[1]: it is a string; {must}"
    assert fault(specs, [{"tag": "a"}]) == f"instances[0]: image is missing; {must}"
    assert fault(specs, [{**good, "x" * 200: 1}]).endswith(
        f"… is not a tensor of the signature; {must}"
    )
    assert fault(specs, [good, {**good, "image": [[1, 2, 300]]}]).startswith(
        "instances[1].image: a value is the number 300; it must be uint8, a whole number from 0 to"
    )


def test_bytes_are_those_of_the_text():
    assert is_bytes("image_bytes", TensorSpec("string"))
    assert not is_bytes("image_bytes", TensorSpec("uint8"))
    assert not is_bytes("image", TensorSpec("string"))
    assert as_b64(["é", [{"b64": "AA"}]]) == [{"b64": "w6k="}, [{"b64": "AA"}]]
    assert as_b64("\ud800") == {"b64": "7aCA"}


def test_metadata_are_in_tf_servings_words():
    signature = Signature({"x": TensorSpec("float32", (28,))}, {"y_bytes": TensorSpec("string")})
    assert json.loads(json.dumps(metadata("half", "1", signature))) == {
        "model_spec": {"name": "half", "signature_name": "", "version": "1"},
        "metadata": {
            "signature_def": {
                "signature_def": {
                    "serving_default": {
                        "inputs": {
                            "x": {
                                "dtype": "DT_FLOAT",
                                "tensor_shape": {
                                    "dim": [{"size": "-1", "name": ""}, {"size": "28", "name": ""}],
                                    "unknown_rank": False,
                                },
                                "name": "x",
                            }
                        },
                        "outputs": {
                            "y_bytes": {
                                "dtype": "DT_STRING",
                                "tensor_shape": {
                                    "dim": [{"size": "-1", "name": ""}],
                                    "unknown_rank": False,
                                },
                                "name": "y_bytes",
                            }
                        },
                        "method_name": "tensorflow/serving/predict",
                    }
                }
            }
        },
    }
