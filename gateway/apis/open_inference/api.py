"""The API of the Open Inference Protocol in a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partway.gateway.apis.open_inference.model_infer import OpenInference
from partway.gateway.apis.open_inference.resources import OpenInferenceResources
from partway.gateway.apis.prediction.unknown_paths import unknown_v2_route
from partway.gateway.apis.prediction.workers import prediction_workers
from partway.gateway.apis.requests_service import RequestsService
from partway.gateway.http.routes import Route
from partway.gateway.service import Service

if TYPE_CHECKING:
    from partway.gateway.core import Core


class OpenInferenceApi(Service):
    def __init__(self, core: Core) -> None:
        policy_of = core.prediction_of
        self._infer = OpenInference(
            core.service(RequestsService).invocations,
            policy_of,
            core.service(prediction_workers),
            core.settings.max_prediction_body,
        )
        self.models = OpenInferenceResources(core.router, lambda: core.status.is_ready, policy_of)

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes of all operations, followed by the route of unknown paths."""
        known = (*self._infer.routes, *self.models.routes)
        return (*known, unknown_v2_route(known))


def install(core: Core) -> None:
    core.service(OpenInferenceApi)
