"""Custom resources without a process or a socket."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator

import pytest

from partway.gateway.apis.aws_json import shapes
from tests.gateway.apis.kubernetes.served import KubernetesGateway

_read_once = functools.cache(shapes.read_inputs)


@pytest.fixture(autouse=True)
def _shapes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Botocore's files are read by the first gateway of a process: they are the same for all."""
    monkeypatch.setattr(shapes, "read_inputs", _read_once)


@pytest.fixture
async def gateway(anyio_backend: object) -> AsyncIterator[KubernetesGateway]:
    """A gateway that has no objects yet."""
    gateway = await KubernetesGateway().start()
    yield gateway
    await gateway.aclose()
