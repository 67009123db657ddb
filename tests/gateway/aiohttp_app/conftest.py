"""Applications that are served between a raw container and raw clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.aiohttp_app.served import ServedApplication, serve, settings_of
from tests.wire.conftest import container
from tests.wire.peers import RawContainer

__all__ = ["container"]

ApplicationFor = Callable[..., Awaitable[ServedApplication]]

#: Arguments of :func:`serve`; all others of an application are settings.
_OF_SERVER = {
    *("prefix", "mounts", "tls", "host", "auto_decompress", "handler_cancellation"),
    "shutdown_timeout",
}


@pytest.fixture
async def application_for(container: RawContainer, tmp_path: Path) -> AsyncIterator[ApplicationFor]:
    """Serves applications whose gateway's one endpoint is the container.

    Arguments of what it yields: the application, the ``policy`` of the endpoint, another
    ``container_port``, further arguments of :func:`serve`, and settings.
    """
    async with AsyncExitStack() as running:

        async def start(
            app: web.Application | None = None,
            policy: dict[str, Any] | None = None,
            container_port: int | None = None,
            **arguments: Any,
        ) -> ServedApplication:
            server = {name: arguments.pop(name) for name in _OF_SERVER & arguments.keys()}
            port = container_port or container.port
            settings = settings_of(port, policy or {}, **arguments)
            app = web.Application() if app is None else app
            served = await serve(app, settings, container, tmp_path, **server)
            running.push_async_callback(_stop, served, container)
            return served

        yield start


async def _stop(served: ServedApplication, container: RawContainer) -> None:
    for client in (*served.wire.clients, *container.connections):
        client.abort()
    served.gateway.hasten()  # some have a grace that no test waits for
    await served.stop()
