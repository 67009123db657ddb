"""Routing to a model's handlers: streams by path and query (clause 1.6-1), requests by path."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from multidict import MultiMapping

from partway.container.model import Model, Request, RequestRoute, StreamRoute
from partway.container.stream import Stream
from partway.protocol.websocket.handshake import UpgradeError

Handler = Callable[[Stream], Coroutine[Any, Any, None]]


class Routes:
    """The paths of one model.

    Raises:
        TypeError: a handler is not an ``async def``, or two handlers share a path.
    """

    def __init__(self, model: Model) -> None:
        self._handlers: dict[str, tuple[StreamRoute, Handler]] = {}
        kind = type(model)
        for name in dir(kind):
            method = getattr(kind, name, None)
            route = getattr(method, "__partway_route__", None)
            if name == "stream" and kind.stream is not Model.stream:
                route = route or StreamRoute()
            if not isinstance(route, StreamRoute):
                continue
            if inspect.isasyncgenfunction(method):
                raise TypeError(
                    f"{kind.__name__}.{name} has a yield: it must send with await stream.send(…)"
                )
            if not inspect.iscoroutinefunction(method):
                raise TypeError(f"{kind.__name__}.{name} handles streams: it must be async def")
            if route.path in self._handlers:
                raise TypeError(
                    f"{kind.__name__} has two handlers for /{route.path}; each path must have one"
                )
            self._handlers[route.path] = (route, getattr(model, name))

    @property
    def paths(self) -> list[str]:
        """The paths that take streams, without their first slash."""
        return sorted(self._handlers)

    def handler(self, path: str, query: MultiMapping[str]) -> Handler:
        """Return the handler of a stream.

        Raises:
            UpgradeError: 404 for an unknown path, 400 for a query that the handler does not accept,
                501 if the model takes no streams at all.
        """
        if not self._handlers:
            raise UpgradeError(501, "this model takes invocations, not streams")
        if path not in self._handlers:
            known = ", ".join(f"/{path}" for path in self.paths)
            raise UpgradeError(404, f"this path takes no streams: it must be one of {known}")
        route, handler = self._handlers[path]
        unknown = sorted(set(query) - route.query) if route.query is not None else []
        if unknown:
            raise UpgradeError(400, f"unknown parameter {unknown[0]!r}; {_known(route)}")
        missing = sorted(route.required - set(query))
        if missing:
            raise UpgradeError(400, f"parameter {missing[0]!r} is missing; {_known(route)}")
        return handler

    def __len__(self) -> int:
        return len(self._handlers)

    def __contains__(self, path: str) -> bool:
        return path in self._handlers


RequestHandler = Callable[[Request], Any]


class RequestRoutes:
    """The paths of one model that take requests beside ``/invocations``.

    Raises:
        TypeError: a handler is neither an ``async def`` nor an async generator, or two handlers
            share path and method.
    """

    def __init__(self, model: Model) -> None:
        self._handlers: dict[str, dict[str, RequestHandler]] = {}
        kind = type(model)
        for name in dir(kind):
            handler = getattr(kind, name, None)
            route = getattr(handler, "__partway_request_route__", None)
            if not isinstance(route, RequestRoute):
                continue
            check_handles_requests(kind, name)
            by_method = self._handlers.setdefault(route.path, {})
            if route.method in by_method:
                raise TypeError(
                    f"{kind.__name__} has two handlers for {route.method} /{route.path}; it must "
                    "have one"
                )
            by_method[route.method] = getattr(model, name)

    def handlers(self, path: str) -> Mapping[str, RequestHandler] | None:
        """Return a path's handlers by method; None if the path takes no requests."""
        return self._handlers.get(path)

    @property
    def paths(self) -> list[str]:
        """The paths, without their first slash."""
        return sorted(self._handlers)

    def __len__(self) -> int:
        return len(self._handlers)


def check_handles_requests(kind: type[Model], name: str) -> None:
    """Refuse a method that cannot answer requests.

    Raises:
        TypeError: the method is neither a coroutine function nor an async generator.
    """
    method = getattr(kind, name)
    if not (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)):
        raise TypeError(f"{kind.__name__}.{name} answers requests: it must be async def")


def check_kinds(model: Model) -> None:
    """Check that each method is, or is not, an ``async def``, as its callers expect.

    A coroutine that is never awaited would be truthy, and raise nothing.

    Raises:
        TypeError: a method is async and should not be, or the other way round.
    """
    for name, is_async in (
        *(("load", False), ("unload", False), ("healthy", False)),
        ("admit", True),
    ):
        if inspect.iscoroutinefunction(getattr(type(model), name)) is not is_async:
            wanted = "async def" if is_async else "a plain def, which runs on a thread"
            raise TypeError(f"{type(model).__name__}.{name} must be {wanted}")


def takes_invocations(model: Model) -> bool:
    """Whether the model overrides ``invoke``.

    Raises:
        TypeError: the model's ``invoke`` is neither a coroutine function nor an async generator.
    """
    check_handles_requests(type(model), "invoke")
    return type(model).invoke is not Model.invoke


def _known(route: StreamRoute) -> str:
    if route.query is None:
        return f"/{route.path} requires this parameter"
    return f"/{route.path} takes {', '.join(sorted(route.query)) or 'no parameters'}"
