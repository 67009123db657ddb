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
    """The settings of predictions, including those of the Open Inference Protocol and of gRPC.

    Attributes:
        max_prediction_body: the limit of a prediction request's body, and of its answer, in bytes.
    """

    max_prediction_body: Size = MAX_PREDICTION_BODY


MANIFEST: Final = Manifest(
    "prediction",
    "partway.gateway.apis.prediction.api",
    paths=(re.compile("/(?:v1/projects|v1beta1)(?:/.*)?"), re.compile("/v1/models?(?:[/:%].*)?")),
    settings=PredictionSettings,
    relays=True,
)
