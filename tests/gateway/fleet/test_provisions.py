"""partway.gateway.fleet.provisions: what a gateway that was killed has left to an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from partway.gateway.clock import LoopClock
from partway.gateway.fleet.data_directory import DataDirectory
from partway.gateway.fleet.endpoints import Image
from partway.gateway.fleet.launchers.engine_client import EngineClient
from partway.gateway.fleet.launchers.engine_request import GATEWAY_LABEL, INSTANCE_LABEL
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.gateway import Gateway
from partway.gateway.settings import Settings
from tests.gateway.fleet.launchers.fake_engine import FakeEngine
from tests.gateway.fleet.processes import eventually, soon
from tests.gateway.streams.fakes import FakeClock


@pytest.fixture
def fake(fake, monkeypatch) -> FakeEngine:
    monkeypatch.setenv("DOCKER_HOST", fake.where)
    return fake


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDirectory]:
    with DataDirectory.opened(tmp_path / "data") as data:
        yield data


@pytest.fixture
async def left(fake, data) -> None:
    """A gateway was killed that had an engine run a container."""
    Provisions(LoopClock(), data).means.launcher(Image("model:1"))
    client = EngineClient(fake.where, LoopClock())
    labels = {GATEWAY_LABEL: data.id, INSTANCE_LABEL: "one"}
    await soon(client.create("one", {"Labels": labels}))
    await soon(client.start("one"))
    await client.aclose()
    fake.asked.clear()


def hangs(fake: FakeEngine, what: str) -> asyncio.Event:
    """Let an engine not answer; returns what is set once it is asked."""
    asked = asyncio.Event()

    async def hang() -> None:
        asked.set()
        await asyncio.Event().wait()

    fake.answers[what] = hang
    return asked


async def test_leftovers_are_removed_though_there_is_no_image_any_more(left, fake, data):
    gateway = Gateway(Settings(port=0), data=data)
    await soon(gateway.start())
    await eventually(lambda: fake.containers == {})
    await soon(gateway.drain())


async def test_a_gateway_that_stops_does_not_wait_for_it(left, fake, data):
    asked = hangs(fake, "GET /containers")
    gateway = Gateway(Settings(port=0), data=data)
    await soon(gateway.start())
    await soon(asked.wait())
    await soon(gateway.drain())


async def test_an_engine_that_was_never_used_is_not_asked(fake, data):
    for each in (Provisions(LoopClock(), data), Provisions(LoopClock())):
        await soon(each.remove_leftovers())
        await each.aclose()
    assert fake.asked == []


async def test_an_engine_that_is_away_is_a_warning(left, fake, data, caplog):
    await fake.stop()
    provisions = Provisions(LoopClock(), data)
    await soon(provisions.remove_leftovers())
    assert "leftover containers may run on" in caplog.text
    assert fake.where in caplog.text
    await provisions.aclose()


async def test_an_engine_that_takes_too_long_is_a_warning(left, fake, data, caplog, monkeypatch):
    monkeypatch.setattr("partway.gateway.fleet.provisions.LEFTOVERS_TIMEOUT", 30.0)
    clock = FakeClock()
    asked = hangs(fake, "DELETE")
    provisions = Provisions(clock, data)
    removing = asyncio.create_task(provisions.remove_leftovers())
    await soon(asked.wait())
    clock.advance(30)
    await soon(removing)
    assert "has not removed all of them within 30 s" in caplog.text
    await provisions.aclose()
