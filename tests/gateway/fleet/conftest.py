"""What these tests have in common: the leash of their processes, an engine, a clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from partway.gateway.fleet.leash import Leash
from tests.gateway.fleet.launchers.fake_engine import FakeEngine
from tests.gateway.streams.fakes import FakeClock


@pytest.fixture
def leash() -> Iterator[Leash]:
    leash = Leash()
    yield leash
    leash.close()


@pytest.fixture
async def fake(anyio_backend: object, no_leaks: None, tmp_path: Path) -> AsyncIterator[FakeEngine]:
    """A container engine at a socket of its own."""
    fake = FakeEngine(tmp_path / "engine.sock")
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
