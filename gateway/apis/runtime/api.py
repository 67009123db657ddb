"""The runtime API in a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partway.gateway.apis.requests_service import RequestsService
from partway.gateway.apis.runtime.invoke import InvokeEndpoint
from partway.gateway.apis.runtime.response_stream import ResponseStream
from partway.gateway.http.routes import Route
from partway.gateway.service import Service

if TYPE_CHECKING:
    from partway.gateway.core import Core


class RuntimeApi(Service):
    def __init__(self, core: Core) -> None:
        invocations = core.service(RequestsService).invocations
        self._operations = (
            InvokeEndpoint(invocations),
            ResponseStream(invocations, core.streams),
        )

    @property
    def routes(self) -> tuple[Route, ...]:
        return tuple(route for each in self._operations for route in each.routes)


def install(core: Core) -> None:
    core.service(RuntimeApi)
