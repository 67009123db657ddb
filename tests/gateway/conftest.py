"""The gateways and raw peers of the tests of the wire, and a fleet of containers that are told."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.gateway.fleet.fakes import FakeFleet
from tests.wire.conftest import container, gateway_for, short_linger

__all__ = ["container", "gateway_for", "of", "short_linger"]


@pytest.fixture
async def of() -> AsyncIterator[FakeFleet]:
    """A fleet without a process or a socket; it is stopped in the end."""
    fake = FakeFleet()
    yield fake
    fake.fleet.hasten()
    await fake.fleet.stop()
