"""Policies for the predictions of an endpoint's containers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from partway.gateway.configuration.expected import array, text, whole
from partway.gateway.configuration.messages import TableRefused
from partway.protocol.prediction.model_signature import SERVING_DEFAULT, Signature, TensorSpec

#: Where a container takes requests (clause 1.1-2), unless an endpoint sets another path.
INVOCATIONS: Final = "/invocations"

_MAX_ROUTE: Final = 512

#: Characters of a tensor's alias, and dimensions of a tensor (TensorFlow's: 254).
_MAX_ALIAS: Final = 128
_MAX_RANK: Final = 32

_ROUTE: Final = re.compile(r"(?:/[A-Za-z0-9._~:@!$&'()*+,;=-]+)+")


def is_route(path: str) -> bool:
    dotted = any(segment in (".", "..") for segment in path.split("/"))
    return len(path) <= _MAX_ROUTE and not dotted and _ROUTE.fullmatch(path) is not None


#: A description of a valid route, for messages.
ROUTE: Final = f"a path of at most {_MAX_ROUTE} characters, such as /v1/models/model:predict"
ContainerRoute = Annotated[str, text(ROUTE, is_route)]


_Alias = Annotated[
    str,
    text(
        f"a tensor's alias, of 1 to {_MAX_ALIAS} letters, digits and ._-/",
        re.compile(rf"[A-Za-z0-9._/-]{{1,{_MAX_ALIAS}}}").fullmatch,
    ),
]
_Dimension = Annotated[int, whole(-1, 2**31 - 1)]


@dataclass(frozen=True)
class TensorTable(TensorSpec):
    """A tensor of a signature: ``{ type = "float32", shape = [28] }``."""

    type: Literal[
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "string",
    ]  # fmt: skip
    shape: Annotated[
        tuple[_Dimension, ...],
        array(f"an array of at most {_MAX_RANK} lengths, -1 for any", 0, _MAX_RANK),
    ] = ()


@dataclass(frozen=True)
class SignatureTable(Signature):
    """``[endpoints.NAME.prediction.signature]``: the tensors that a model takes and returns."""

    inputs: dict[_Alias, TensorTable]
    outputs: dict[_Alias, TensorTable] = field(default_factory=dict)
    name: _Alias = SERVING_DEFAULT

    def __post_init__(self) -> None:
        if not self.inputs:
            raise TableRefused("it is empty; it must have at least one tensor", "inputs")


@dataclass(frozen=True, slots=True)
class PredictionPolicy:
    """``[endpoints.NAME.prediction]``: settings for requests for predictions.

    Attributes:
        route: the path at which a container takes requests for predictions; None for the path of
            all other requests.
        wrap: how an instance is wrapped for the container: as ``{"data": …}`` for TorchServe
            (``data``), or not at all (``none``).
        tensors: the form of an instance with one tensor: the tensor's part alone (``bare``), or an
            object with the tensor's name (``named``). An instance with several is always an object.
        infer_route: the path at which a container takes requests of the Open Inference Protocol
            unchanged; None if it takes instances.
        signature: the required form of instances and predictions; None for any.
    """

    route: ContainerRoute | None = None
    wrap: Literal["none", "data"] = "none"
    tensors: Literal["bare", "named"] = "bare"
    infer_route: ContainerRoute | None = None
    signature: SignatureTable | None = None
