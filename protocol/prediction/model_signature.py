"""A model's signature: its input and output tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

#: The name of an unnamed signature (TF Serving's).
SERVING_DEFAULT: Final = "serving_default"

#: The suffix of an alias whose strings are bytes: they are sent as ``{"b64": …}``.
BYTES: Final = "_bytes"

#: The range of each integer type.
WHOLE_RANGES: Final = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}
#: The largest absolute value of each float type.
LARGEST_FLOATS: Final = {
    "float16": 65504.0,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}

#: Element types, with TF Serving's name of each.
TYPES: Final[Mapping[str, str]] = {
    "bool": "DT_BOOL",
    **{name: f"DT_{name.upper()}" for name in WHOLE_RANGES},
    "float16": "DT_HALF",
    "float32": "DT_FLOAT",
    "float64": "DT_DOUBLE",
    "string": "DT_STRING",
}


#: The same types, with the Open Inference Protocol's names.
DATATYPES: Final[Mapping[str, str]] = {
    name: "BYTES" if name == "string" else name.upper().replace("FLOAT", "FP") for name in TYPES
}


@dataclass(frozen=True)
class TensorSpec:
    """The required form of a tensor.

    Attributes:
        type: the type of its elements, one of :data:`TYPES`.
        shape: the shape for one instance, without the batch; -1 for a dimension of any length.
            Empty for a single value.
    """

    type: str
    shape: Sequence[int] = ()

    def __str__(self) -> str:
        return f"{self.type} of the shape {list(self.shape)}" if self.shape else f"one {self.type}"


@dataclass(frozen=True)
class Signature:
    """A model's input and output tensors, by alias.

    Attributes:
        inputs: the input tensors; at least one.
        outputs: the output tensors; empty if they are not declared.
    """

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    name: str = SERVING_DEFAULT


def is_bytes(alias: str, spec: TensorSpec) -> bool:
    """Whether a tensor's strings are bytes, which are sent as ``{"b64": …}``."""
    return spec.type == "string" and alias.endswith(BYTES)


def metadata(model: str, version: str, signature: Signature) -> dict[str, Any]:
    """Make TF Serving's description of a model's signature."""

    def tensors(specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
        return {
            alias: {
                "dtype": TYPES[spec.type],
                "tensor_shape": {
                    "dim": [{"size": str(size), "name": ""} for size in (-1, *spec.shape)],
                    "unknown_rank": False,
                },
                "name": alias,
            }
            for alias, spec in specs.items()
        }

    definition = {
        "inputs": tensors(signature.inputs),
        "outputs": tensors(signature.outputs),
        "method_name": "tensorflow/serving/predict",
    }
    return {
        "model_spec": {"name": model, "signature_name": "", "version": version},
        "metadata": {"signature_def": {"signature_def": {signature.name: definition}}},
    }
