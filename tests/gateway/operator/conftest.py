"""A cluster in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.gateway.operator.a_cluster import PlayedCluster, started_cluster


@pytest.fixture
async def cluster(anyio_backend: object, no_leaks: None) -> AsyncIterator[PlayedCluster]:
    async with started_cluster() as cluster:
        yield cluster
