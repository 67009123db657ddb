"""OpenAI's API in a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partway.gateway.apis.openai.forwarding import Forwarding
from partway.gateway.apis.openai.models import Models
from partway.gateway.apis.openai.unknown_paths import UNKNOWN_PATHS
from partway.gateway.apis.requests_service import RequestsService
from partway.gateway.http.routes import Route
from partway.gateway.service import Service

if TYPE_CHECKING:
    from partway.gateway.core import Core


class OpenAiApi(Service):
    """The operations of OpenAI's API."""

    def __init__(self, core: Core) -> None:
        invocations = core.service(RequestsService).invocations
        self._models = Models(core.router, core.arns)
        self._forwarding = Forwarding(invocations, core.streams, core.bidirectional, core.arns)

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes of models come first: all other paths below a base URL are forwarded."""
        return (*self._models.routes, *self._forwarding.routes, UNKNOWN_PATHS)


def install(core: Core) -> None:
    """Add the API to a gateway."""
    core.service(OpenAiApi)
