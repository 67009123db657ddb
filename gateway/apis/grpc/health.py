"""``grpc.health.v1.Health``: the result of ``/readyz``, over gRPC."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import ModuleType
from typing import Final

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.apis.grpc.calls import CallAnswer, LoadedLater, parsed, unary
from partway.gateway.http.exchange import TrailingExchange
from partway.gateway.http.routes import Route
from partway.protocol.errors import UnknownEndpoint
from partway.protocol.limits import KIB

SERVICE: Final = "grpc.health.v1.Health"

_MOST_BYTES: Final = KIB


def _messages() -> ModuleType:
    from partway.protocol.grpc import health

    return health


class HealthService:
    """The call Check.

    Args:
        services: the full names of the gateway's services; all are as ready as the gateway.
    """

    def __init__(self, is_ready: Callable[[], bool], services: Collection[str]) -> None:
        self._is_ready = is_ready
        self._services = frozenset({"", SERVICE, *services})
        self._schema = LoadedLater(_messages)

    @property
    def routes(self) -> tuple[Route, ...]:
        """The route of Check, without authentication, like ``/readyz``."""
        access = Access.ANYONE
        return (unary(SERVICE, "Check", self.check, _MOST_BYTES, access=access, reserved=True),)

    async def check(self, _call: TrailingExchange, _: Identity, message: bytes) -> CallAnswer:
        schema = await self._schema.get()
        service = parsed(message, schema.HealthCheckRequest, lambda asked: asked.service)
        if service not in self._services:
            known = ", ".join(sorted(self._services - {""}))
            raise UnknownEndpoint(
                f"service: {service[:128]!r} was given; it must be empty, or one of {known}"
            )
        found = schema.SERVING if self._is_ready() else schema.NOT_SERVING
        return CallAnswer(schema.HealthCheckResponse(status=found).SerializeToString())
