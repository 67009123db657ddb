"""How an endpoint's containers are asked for predictions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from partway.gateway.configuration.expected import array, text, whole
from partway.gateway.configuration.messages import TableRefused
from partway.protocol.prediction.model_signature import SERVING_DEFAULT, Signature, TensorSpec

#: Where a container takes requests (clause 1.1-2), unless an endpoint has another place for some.
INVOCATIONS: Final = "/invocations"

_MAX_ROUTE: Final = 512

#: Characters of a tensor's alias, and dimensions of a tensor (TensorFlow's: 254).
_MAX_ALIAS: Final = 128
_MAX_RANK: Final = 32

_ROUTE: Final = re.compile(r"(?:/[A-Za-z0-9._~:@!$&'()*+,;=-]+)+")


def is_route(path: str) -> bool:
    """Whether a text is the path of a container's that takes requests."""
    dotted = any(segment in (".", "..") for segment in path.split("/"))
    return len(path) <= _MAX_ROUTE and not dotted and _ROUTE.fullmatch(path) is not None


#: What a route must be, in words.
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
    """A tensor of a signature's: ``{ type = "float32", shape = [28] }``."""

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
    """``[endpoints.NAME.prediction.signature]``: which tensors a model takes and gives."""

    inputs: dict[_Alias, TensorTable]
    outputs: dict[_Alias, TensorTable] = field(default_factory=dict)
    name: _Alias = SERVING_DEFAULT

    def __post_init__(self) -> None:
        """Refuse a signature without inputs."""
        if not self.inputs:
            raise TableRefused("there are none; there must be one tensor at least", "inputs")


@dataclass(frozen=True, slots=True)
class PredictionPolicy:
    """``[endpoints.NAME.prediction]``: what of an endpoint's containers is not as by default.

    Attributes:
        route: the path at which a container takes requests for predictions; None for where it
            takes all others.
        wrap: what each instance is made before a container gets it: ``{"data": …}``, as TorchServe
            wants it (``data``), or nothing else (``none``).
        tensors: what an instance is that comes as one tensor: its part of the tensor (``bare``), or
            an object, by the tensor's name (``named``), as it is of several in any case.
        infer_route: the path at which a container takes requests of the Open Inference Protocol as
            they are; None where it takes instances.
        signature: what instances and predictions must be; None for anything.
    """

    route: ContainerRoute | None = None
    wrap: Literal["none", "data"] = "none"
    tensors: Literal["bare", "named"] = "bare"
    infer_route: ContainerRoute | None = None
    signature: SignatureTable | None = None
