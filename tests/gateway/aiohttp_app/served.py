"""Applications with a gateway in them, served in this process."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from partway.gateway.aiohttp_app.application_settings import ApplicationSettings
from partway.gateway.aiohttp_app.setup import _GATEWAY, setup
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.network.dialling import Address
from partway.gateway.settings.settings import Settings
from partway.gateway.tls.context import server_context
from partway.gateway.tls.local_ca import LocalCa
from tests.wire.event_dialect import EVENT_CLIENTS
from tests.wire.peers import ENDPOINT, PATIENCE, RawContainer, RunningGateway

PREFIX = "/models"


def settings_of(container_port: int, policy: dict[str, Any], **settings: Any) -> Settings:
    """Settings whose one endpoint is a container of this machine; their drain takes no time."""
    # On a busy machine it may accept later than the platform's 250 ms.
    of_streams = StreamPolicy(**{"connect_timeout": PATIENCE, **policy})
    address = Address("127.0.0.1", container_port)
    return Settings(
        **{
            "endpoints": (Endpoint.attached(ENDPOINT, address, of_streams),),
            "shutdown_grace": 0.0,
            "shutdown_spread": 0.0,
            "shutdown_hard": 1.0,
            **settings,
        }
    )


@dataclass
class ServedApplication:
    """An application, the ports of its server, and its gateway."""

    app: web.Application
    runner: web.AppRunner
    gateway: Gateway
    wire: RunningGateway
    port: int
    tls_port: int | None = None
    ca: Path | None = None

    def client_context(self) -> ssl.SSLContext:
        """What a client that trusts the server's CA does TLS with."""
        return ssl.create_default_context(cafile=self.ca)

    async def stop(self) -> None:
        """Stop the server, as ``web.run_app`` does."""
        await self.runner.cleanup()


async def serve(
    app: web.Application,
    settings: Settings,
    container: RawContainer | None,
    folder: Path,
    *,
    prefix: str = PREFIX,
    mounts: Iterable[tuple[web.Application, str]] = (),
    tls: bool = False,
    host: str = "127.0.0.1",
    **server: Any,
) -> ServedApplication:
    """Put a gateway into an application, and serve it.

    Args:
        app: the application.
        settings: of the gateway.
        container: of its endpoint.
        folder: of the local CA.
        prefix: of the gateway.
        mounts: applications around ``app``, from the inmost on, each with the prefix in it of the
            one before; the last one is served.
        tls: whether there is a port with TLS too.
        host: where to listen.
        server: further arguments of aiohttp's runner.
    """
    setup(app, ApplicationSettings(settings), prefix)
    served = app
    for outer, at in mounts:
        outer.add_subapp(at, served)
        served = outer
    # aiohttp waits so long for the rest of a body, also of a client that has left.
    patience = {"shutdown_timeout": PATIENCE, "lingering_time": 0.1}
    runner = web.AppRunner(served, **{**patience, **server})
    try:
        await runner.setup()
        site = web.TCPSite(runner, host, 0)
        await site.start()
        gateway = app[_GATEWAY]._running
        wire = RunningGateway(gateway, site.port, container, EVENT_CLIENTS)
        found = ServedApplication(app, runner, gateway, wire, site.port)
        if tls:
            files = LocalCa(folder / "ca").ensure(["localhost"], datetime.now(UTC))
            site = web.TCPSite(runner, host, 0, ssl_context=server_context(files))
            await site.start()
            found.tls_port, found.ca = site.port, files.ca
    except BaseException:
        await runner.cleanup()
        raise
    return found
