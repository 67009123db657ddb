"""How an endpoint's containers are asked for predictions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from partway.gateway.configuration.expected import text

#: Where a container takes requests (clause 1.1-2), unless an endpoint has another place for some.
INVOCATIONS: Final = "/invocations"

_MAX_ROUTE: Final = 512
_ROUTE: Final = re.compile(r"(?:/[A-Za-z0-9._~:@!$&'()*+,;=-]+)+")


def is_route(path: str) -> bool:
    """Whether a text is the path of a container's that takes requests."""
    dotted = any(segment in (".", "..") for segment in path.split("/"))
    return len(path) <= _MAX_ROUTE and not dotted and _ROUTE.fullmatch(path) is not None


@dataclass(frozen=True, slots=True)
class PredictionPolicy:
    """``[endpoints.NAME.prediction]``: what of an endpoint's containers is not as by default.

    Attributes:
        route: the path at which a container takes requests for predictions.
        wrap: what each instance is made before a container gets it: ``{"data": …}``, as TorchServe
            wants it (``data``), or nothing else (``none``).
    """

    route: Annotated[
        str,
        text(
            f"a path of at most {_MAX_ROUTE} characters, such as /v1/models/model:predict",
            is_route,
        ),
    ] = INVOCATIONS
    wrap: Literal["none", "data"] = "none"
