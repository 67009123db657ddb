"""The API of online prediction in a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partway.gateway.apis.prediction.predict import Predict
from partway.gateway.apis.prediction.raw_predict import RawPredict
from partway.gateway.apis.prediction.resources import PredictionResources
from partway.gateway.apis.prediction.unknown_paths import unknown_prediction_routes
from partway.gateway.apis.prediction.workers import prediction_workers
from partway.gateway.apis.requests_service import RequestsService
from partway.gateway.http.routes import Route
from partway.gateway.service import Service

if TYPE_CHECKING:
    from partway.gateway.core import Core


class PredictionApi(Service):
    def __init__(self, core: Core) -> None:
        invocations = core.service(RequestsService).invocations
        workers = core.service(prediction_workers)
        policy_of, most_bytes = core.prediction_of, core.settings.max_prediction_body
        self.predict = Predict(
            *(invocations, lambda: core.router.table, policy_of),
            *(core.arns, workers, most_bytes),
        )
        self.raw_predict = RawPredict(invocations, core.streams, policy_of, workers, most_bytes)
        self.resources = PredictionResources(core.router, core.wall_clock(), policy_of)

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes of all operations, followed by the routes of unknown paths."""
        known = (*self.predict.routes, *self.raw_predict.routes, *self.resources.routes)
        return (*known, *unknown_prediction_routes(known))


def install(core: Core) -> None:
    core.service(PredictionApi)
