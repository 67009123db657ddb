"""All of gRPC that the gateway answers."""

from __future__ import annotations

from collections.abc import Callable

from partway.gateway.apis.grpc.calls import every_other_call
from partway.gateway.apis.grpc.health import HealthService
from partway.gateway.apis.grpc.inference import INFERENCE_SERVICE, InferenceService
from partway.gateway.apis.grpc.predictions import (
    ENDPOINT_SERVICE,
    PREDICTION_SERVICE,
    PredictionService,
)
from partway.gateway.http.routes import Route


def grpc_routes(
    predictions: PredictionService, inference: InferenceService, is_ready: Callable[[], bool]
) -> tuple[Route, ...]:
    """The routes of all services, and behind them that of every other call.

    Args:
        predictions: Google's.
        inference: the Open Inference Protocol's.
        is_ready: whether the gateway takes requests.
    """
    services = (PREDICTION_SERVICE, ENDPOINT_SERVICE, INFERENCE_SERVICE)
    return (
        *predictions.routes,
        *inference.routes,
        *HealthService(is_ready, services).routes,
        every_other_call(),
    )
