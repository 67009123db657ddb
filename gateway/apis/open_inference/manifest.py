"""The manifest of the Open Inference Protocol."""

from __future__ import annotations

import re
from typing import Final

from partway.gateway.apis.manifest import Manifest
from partway.gateway.apis.prediction.manifest import PredictionSettings

MANIFEST: Final = Manifest(
    "open_inference",
    "partway.gateway.apis.open_inference.api",
    paths=(re.compile("/v2(?:/.*)?"),),
    settings=PredictionSettings,
    relays=True,
)
