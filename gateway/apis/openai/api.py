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
    from partway.gateway.gateway import Gateway


class OpenAiApi(Service):
    """The operations of OpenAI's API."""

    def __init__(self, gateway: Gateway) -> None:
        invocations = gateway.service(RequestsService).invocations
        self._models = Models(gateway.router, gateway.arns)
        self._forwarding = Forwarding(
            invocations, gateway.streams, gateway.bidirectional, gateway.arns
        )

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes of models come first: all other paths below a base URL are forwarded."""
        return (*self._models.routes, *self._forwarding.routes, UNKNOWN_PATHS)


def install(gateway: Gateway) -> None:
    """Add the API to a gateway."""
    gateway.service(OpenAiApi)
