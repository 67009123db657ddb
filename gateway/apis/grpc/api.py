"""The API of gRPC services in a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partway.gateway.apis.grpc.inference import InferenceService
from partway.gateway.apis.grpc.predictions import PredictionService
from partway.gateway.apis.open_inference.api import OpenInferenceApi
from partway.gateway.apis.prediction.api import PredictionApi
from partway.gateway.apis.prediction.workers import prediction_workers
from partway.gateway.apis.requests_service import RequestsService
from partway.gateway.http.routes import Route
from partway.gateway.service import Service

if TYPE_CHECKING:
    from partway.gateway.core import Core

from collections.abc import Callable

from partway.gateway.apis.grpc.calls import every_other_call
from partway.gateway.apis.grpc.health import HealthService
from partway.gateway.apis.grpc.inference import INFERENCE_SERVICE
from partway.gateway.apis.grpc.predictions import (
    ENDPOINT_SERVICE,
    PREDICTION_SERVICE,
)


def grpc_routes(
    predictions: PredictionService, inference: InferenceService, is_ready: Callable[[], bool]
) -> tuple[Route, ...]:
    """Return the routes of all services, followed by the route of all unknown calls."""
    services = (PREDICTION_SERVICE, ENDPOINT_SERVICE, INFERENCE_SERVICE)
    return (
        *predictions.routes,
        *inference.routes,
        *HealthService(is_ready, services).routes,
        every_other_call(),
    )


class GrpcApi(Service):
    """The services of predictions, and the service of health checks."""

    def __init__(self, core: Core) -> None:
        prediction = core.service(PredictionApi)
        workers = core.service(prediction_workers)
        most_bytes = core.settings.max_prediction_body
        self._routes = grpc_routes(
            PredictionService(
                *(prediction.predict, prediction.raw_predict, prediction.resources),
                *(core.arns, workers, most_bytes),
            ),
            InferenceService(
                core.service(RequestsService).invocations,
                core.prediction_of,
                core.service(OpenInferenceApi).models,
                core.arns,
                workers,
                most_bytes,
            ),
            lambda: core.status.is_ready,
        )

    @property
    def routes(self) -> tuple[Route, ...]:
        return self._routes


def install(core: Core) -> None:
    core.service(GrpcApi)
