"""The manifest of online prediction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from partway.gateway.apis.manifest import Manifest
from partway.gateway.configuration.expected import Size
from partway.gateway.limits import MAX_PREDICTION_BODY


@dataclass(frozen=True)
class PredictionSettings:
    """The settings of predictions, the Open Inference Protocol's and gRPC's among them.

    Attributes:
        max_prediction_body: bytes of the body of one request for predictions, and of its answer.
    """

    max_prediction_body: Size = MAX_PREDICTION_BODY


MANIFEST: Final = Manifest(
    "prediction",
    "partway.gateway.apis.prediction.api",
    paths=(
        re.compile("/(?:v1/projects|v1beta1)(?:/.*)?"),
        re.compile("/v1/models?(?:[/:%].*)?"),
    ),
    settings=PredictionSettings,
)
