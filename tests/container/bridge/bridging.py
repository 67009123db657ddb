"""A bridge in this process, between a raw client and a raw upstream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from partway.container.bridge.dialling import UpstreamDialler
from partway.container.bridge.server import BridgeServer
from partway.container.bridge.settings import Given, bridge_settings
from partway.container.bridge.stream import STREAM_TIMES, BridgedStream, StreamTimes
from partway.container.shutdown import ShutdownTimes
from tests.container.wire import QUICK, STREAM
from tests.wire.peers import ModelStream, RawClient, RawContainer, Response, upgrade_request


class Bridge:
    """The bridge, its upstream, and its clients."""

    def __init__(self, server: BridgeServer, port: int, upstream: RawContainer) -> None:
        self.server = server
        self.port = port
        self.upstream = upstream
        self.clients: list[RawClient] = []

    @property
    def streams(self) -> list[BridgedStream]:
        return [each for each in self.server.activity.streams if isinstance(each, BridgedStream)]

    async def connect(self, *, receive_buffer: int | None = None) -> RawClient:
        client = await RawClient.connect(self.port, receive_buffer=receive_buffer)
        self.clients.append(client)
        return client

    async def request(self, request: bytes) -> Response:
        """Send a request on a connection of its own, and read the answer."""
        client = await self.connect()
        client.send(request)
        return await client.response()

    async def open(
        self, target: str = STREAM, headers: Iterable[str] = (), **options: Any
    ) -> tuple[RawClient, ModelStream]:
        """A stream: the platform's end, and the upstream's."""
        client = await self.connect(receive_buffer=options.pop("receive_buffer", None))
        await client.upgrade(upgrade_request(target, headers=headers, **options))
        return client, await self.upstream.stream()


def given(text: str, source: str = "--upstream") -> Given:
    return Given(text, source)


@asynccontextmanager
async def bridging(
    path: str = "/v1/realtime",
    *,
    upstream: RawContainer | None = None,
    routes: Iterable[str] = (),
    authorization: str = "",
    times: ShutdownTimes = QUICK,
    stream_times: StreamTimes = STREAM_TIMES,
    dialler: UpstreamDialler | None = None,
) -> AsyncIterator[Bridge]:
    """A bridge whose upstream is up, and answers ``/ping``."""
    async with upstream or RawContainer() as container:
        settings = bridge_settings(
            given(f"ws://127.0.0.1:{container.port}{path}"),
            [given(each.format(port=container.port), "--route") for each in routes],
            given(f"http://127.0.0.1:{container.port}/ping", "--health"),
            given(authorization) if authorization else None,
        )
        server = BridgeServer(settings, times=times, stream_times=stream_times, dialler=dialler)
        bridge = Bridge(server, await server.start(), container)
        stopped = asyncio.create_task(server.stopped())
        try:
            await server.load()
            yield bridge
        finally:
            for client in bridge.clients:
                client.abort()
            server.stop()
            server.stop()
            await stopped
