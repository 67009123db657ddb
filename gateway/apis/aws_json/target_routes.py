"""``POST /``: the place of all operations that ``X-Amz-Target`` names."""

from __future__ import annotations

from collections.abc import Callable

from partway.gateway.apis.aws_json.protocol import unknown_operation_route
from partway.gateway.http.routes import Route
from partway.gateway.service import Service


class TargetRoutes(Service):
    """The routes of several AWS services, and behind them that of unknown operations."""

    def __init__(self, _: object = None) -> None:
        self._sources: list[Callable[[], tuple[Route, ...]]] = []

    def add(self, source: Callable[[], tuple[Route, ...]]) -> None:
        """Add a service's operations: what returns their routes, once all of them are there."""
        self._sources.append(source)

    @property
    def routes(self) -> tuple[Route, ...]:
        """All of them."""
        known = tuple(route for source in self._sources for route in source())
        return (*known, unknown_operation_route(known))
