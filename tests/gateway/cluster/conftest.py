"""A Kubernetes API server in memory, and its client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.cluster_settings import ClusterSettings
from tests.gateway.cluster.fake_api_server import FakeApiServer
from tests.gateway.streams.fakes import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def server(anyio_backend: object, no_leaks: None) -> AsyncIterator[FakeApiServer]:
    server = FakeApiServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(server: FakeApiServer, clock: FakeClock) -> AsyncIterator[ApiServer]:
    client = ApiServer(ClusterSettings(server.url, "default"), clock)
    yield client
    await client.aclose()
