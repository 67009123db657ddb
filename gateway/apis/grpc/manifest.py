"""The manifest of the gRPC services."""

from __future__ import annotations

from typing import Final

from partway.gateway.apis.manifest import Manifest
from partway.gateway.apis.prediction.manifest import PredictionSettings

MANIFEST: Final = Manifest(
    "grpc",
    "partway.gateway.apis.grpc.api",
    grpc_services=(
        "google.cloud.aiplatform.v1.EndpointService",
        "google.cloud.aiplatform.v1.PredictionService",
        "grpc.health.v1.Health",
        "inference.GRPCInferenceService",
    ),
    needs=("prediction", "open_inference"),
    settings=PredictionSettings,
    relays=True,
)
