"""partway.gateway.fleet.launchers.containers: two real processes, which are one to their caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from partway.gateway.fleet.container_ids import container_id
from partway.gateway.fleet.endpoint import Program, Source
from partway.gateway.fleet.launchers.containers import ContainersLauncher, RunningContainers
from partway.gateway.fleet.launchers.launcher import Launcher, LaunchError, Order
from partway.gateway.fleet.launchers.local_models import LocalModels
from partway.gateway.fleet.launchers.programs import ProgramLauncher
from tests.gateway.fleet.fakes import FakeLauncher, turns, variant
from tests.gateway.fleet.launchers.contract import LauncherContract
from tests.gateway.fleet.launchers.test_programs import TRIED_PROGRAM
from tests.gateway.fleet.waiting import soon

BOTH = ("first", "second")


def of_two(order: Order) -> Order:
    """What an order asks for, twice."""
    each = (replace(order, instance=container_id(order.instance, name)) for name in BOTH)
    return replace(order, containers=tuple(each))


class TwoOfEach:
    """Launches twice what an order asks for."""

    address_timeout = None

    def __init__(self, programs: ProgramLauncher) -> None:
        self._launcher = ContainersLauncher(lambda _: programs, LocalModels())

    async def launch(self, order: Order) -> RunningContainers:
        return await self._launcher.launch(of_two(order))

    def release(self, version: str) -> None:
        self._launcher.release(version)

    async def aclose(self) -> None:
        await self._launcher.aclose()


class TestContainersLauncher(LauncherContract):
    read_only = False
    processes = 2

    def said(self, end: object) -> str:
        hostname, _, how = str(end).partition(" ")
        assert hostname in BOTH
        return how

    @pytest.fixture
    async def launcher(self, anyio_backend: object) -> AsyncIterator[Launcher]:
        programs = ProgramLauncher()
        yield TwoOfEach(programs)
        await programs.aclose()

    @pytest.fixture
    def source(self) -> Source:
        return TRIED_PROGRAM

    @pytest.fixture
    def unknown(self, tmp_path: Path) -> Source:
        return Program((str(tmp_path / "no-such-program"),))


# --- One and the other, as a test says -----------------------------------------------------------


@pytest.fixture
async def fake(anyio_backend: object, no_leaks: None) -> FakeLauncher:
    return FakeLauncher()


async def launched(
    fake: FakeLauncher, on_loss: Callable[[], object] = lambda: None
) -> RunningContainers:
    launcher = ContainersLauncher(lambda _: fake, LocalModels())
    running = await soon(launcher.launch(of_two(Order("i-1", "echo", variant(), 0))))
    running.watch(on_loss)
    return running


async def test_each_has_an_order_and_an_address_of_its_own(fake):
    running = await launched(fake)
    assert [each.order.instance for each in fake.containers] == ["i-1_first", "i-1_second"]
    assert running.addresses == dict(
        zip(BOTH, (each.address for each in fake.containers), strict=True)
    )
    assert running.address == fake.containers[0].address
    running.kill()
    await soon(running.wait())


async def test_with_the_first_that_ends_the_other_is_killed(fake):
    running = await launched(fake)
    fake.containers[1].end("ended with status 3")
    assert str(await soon(running.wait())) == "second ended with status 3"
    assert fake.containers[0].signals == ["KILL"]


async def test_the_first_end_is_told_while_the_other_has_yet_to_end(fake):
    told = asyncio.Event()
    running = await launched(fake, told.set)
    stopping = asyncio.create_task(running.stop(30))
    fake.containers[0].stubborn = True
    fake.containers[1].end("ended with status 3")
    await soon(told.wait())
    assert not stopping.done()
    fake.containers[0].end("ended with status 0")
    await soon(stopping)


async def test_of_those_that_are_stopped_none_is_killed_for_being_slower(fake):
    running = await launched(fake)
    fake.containers[1].stubborn = True
    stopping = asyncio.create_task(running.stop(30))
    await turns()
    assert [each.signals for each in fake.containers] == [["TERM"], ["TERM"]]
    assert not stopping.done()
    fake.containers[1].end("ended with status 0")
    assert await soon(stopping)


async def test_one_that_cannot_be_started_leaves_none(fake):
    fake.errors.extend([None, LaunchError("no GPU is free", passing=True, waits=True)])
    with pytest.raises(LaunchError, match=r"^second: no GPU is free$") as caught:
        await launched(fake)
    assert caught.value.passing
    assert caught.value.waits
    assert [each.signals for each in fake.containers] == [["KILL"]]


async def test_an_impostor_is_named_by_its_container(fake):
    fake.impostors.extend([None, "another listens there"])
    running = await launched(fake)
    with pytest.raises(LaunchError, match=r"^second: another listens there$"):
        await soon(running.verify())
    running.kill()
    await soon(running.wait())
