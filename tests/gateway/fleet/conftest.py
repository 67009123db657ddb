"""What these tests have in common: the leash of their processes, an engine, a clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.storage.data_directory import DataDirectory
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
def docker_host(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names this engine."""
    monkeypatch.setenv("DOCKER_HOST", fake.where)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDirectory]:
    with DataDirectory.opened(tmp_path / "data") as data:
        yield data


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
