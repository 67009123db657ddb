"""The signature of a model: the tensors that it takes and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

#: The name of a signature where nobody has named one (TF Serving's).
SERVING_DEFAULT: Final = "serving_default"

#: The end of the alias of a tensor whose strings are bytes, and go out as ``{"b64": …}``.
BYTES: Final = "_bytes"

#: The least and the largest value of each type of whole numbers.
WHOLE_RANGES: Final = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}
#: The largest value of each type of floats, either way.
LARGEST_FLOATS: Final = {
    "float16": 65504.0,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}

#: Types of a tensor's elements: how TF Serving names each.
TYPES: Final[Mapping[str, str]] = {
    "bool": "DT_BOOL",
    **{name: f"DT_{name.upper()}" for name in WHOLE_RANGES},
    "float16": "DT_HALF",
    "float32": "DT_FLOAT",
    "float64": "DT_DOUBLE",
    "string": "DT_STRING",
}


#: The same, as the Open Inference Protocol names them.
DATATYPES: Final[Mapping[str, str]] = {
    name: "BYTES" if name == "string" else name.upper().replace("FLOAT", "FP") for name in TYPES
}


@dataclass(frozen=True)
class TensorSpec:
    """What a tensor must be.

    Attributes:
        type: of its elements, one of :data:`TYPES`.
        shape: of one instance's, without the batch; -1 for a dimension of any length. Empty for a
            single value.
    """

    type: str
    shape: Sequence[int] = ()

    def __str__(self) -> str:
        """Type and shape, as a message has them."""
        return f"{self.type} of the shape {list(self.shape)}" if self.shape else f"one {self.type}"


@dataclass(frozen=True)
class Signature:
    """The tensors that a model takes and gives, by their aliases.

    Attributes:
        inputs: those that it takes; one at least.
        outputs: those that it gives; empty where nothing is said of them.
        name: the signature's.
    """

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    name: str = SERVING_DEFAULT


def is_bytes(alias: str, spec: TensorSpec) -> bool:
    """Whether a tensor's strings are bytes, which go out as ``{"b64": …}``."""
    return spec.type == "string" and alias.endswith(BYTES)


def metadata(model: str, version: str, signature: Signature) -> dict[str, Any]:
    """What TF Serving answers of a model's signature."""

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
