"""What each launcher keeps to, with real containers; each launcher's tests run it.

::

    class TestProgramLauncher(LauncherContract):
        @pytest.fixture
        async def launcher(self): ...  # yields one; closes it at the end

        @pytest.fixture
        def source(self): ...  # runs tried_container.py

        @pytest.fixture
        def unknown(self): ...  # what can never be started
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
import psutil
import pytest

from partway.gateway.fleet.endpoint import Source, Variant
from partway.gateway.fleet.health.startup_pace import pinged
from partway.gateway.fleet.launchers.containers import RunningContainers
from partway.gateway.fleet.launchers.launcher import (
    Launcher,
    LaunchError,
    Order,
    RunningContainer,
)
from partway.gateway.timing.clock import LoopClock
from tests.gateway.fleet.launchers.tried_container import LAST_WORDS
from tests.gateway.fleet.waiting import Output, eventually, soon

#: The program that the containers of the contract run.
TRIED = Path(__file__).with_name("tried_container.py")

#: By this variable each container's processes are found again.
MARK = "TRIED_INSTANCE"

#: How often a launch lets the loop turn before it is cancelled.
CANCELLED_AFTER = (0, 1, 2, 3, 5, 10, 30, 100, 300, 1000)

#: More than any container here takes for its end.
GRACE = 30

Launch = Callable[..., Awaitable[RunningContainer]]

_numbers = itertools.count()


def order_for(source: Source, model_dir: Path | None = None, **about: object) -> Order:
    """An order of its own; ``about`` are the variables of its environment, and its variant's."""
    number = next(_numbers)
    instance = f"tried-{os.getpid()}-{number}"
    named = {name: about.pop(name) for name in list(about) if name in Variant.__dataclass_fields__}
    environment = tuple(sorted({**about, MARK: instance}.items()))
    if model_dir is not None:
        named["model_data"] = str(model_dir)
    variant = Variant(source=source, environment=environment, **named)
    return Order(instance, "tried", variant, number, instance)


def processes_of(instance: str) -> list[int]:
    """The processes of an instance that live; zombies have no environment."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == instance:
                found.append(process.pid)
    return found


async def ask(container: RunningContainer, path: str) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{container.address}{path}") as answer,
    ):
        return await answer.text()


async def until_ready(container: RunningContainer) -> None:
    """Each of several, too: one that is only starting does not know what to do with a signal."""
    several = isinstance(container, RunningContainers)
    for address in container.addresses.values() if several else [container.address]:
        await soon(pinged(address, LoopClock()))


class LauncherContract:
    #: Whether a container cannot write to its model directory.
    read_only = True
    #: Processes of a source that has started none of its own.
    processes = 1

    def said(self, end: object) -> str:
        """How a container has ended, without the name of which."""
        return str(end)

    @pytest.fixture
    def launcher(self) -> Launcher:
        raise NotImplementedError

    @pytest.fixture
    def source(self) -> Source:
        """Runs ``TRIED``."""
        raise NotImplementedError

    @pytest.fixture
    def unknown(self) -> Source:
        """What can never be started."""
        raise NotImplementedError

    async def left_of(self, instance: str) -> list[object]:
        """What is there of an instance."""
        return [*processes_of(instance)]

    @pytest.fixture
    def output(self) -> Output:
        return Output()

    @pytest.fixture
    async def launch(
        self,
        anyio_backend: object,
        no_leaks: None,
        launcher: Launcher,
        source: Source,
        output: Output,
    ) -> AsyncIterator[Launch]:
        """Launches containers of a source; nothing of them is left."""
        launched = []

        async def launch(model_dir: Path | None = None, **about: object) -> RunningContainer:
            order = order_for(source, model_dir, **about)
            container = await soon(launcher.launch(order))
            container.pass_output(output.take)
            launched.append((order.instance, container))
            return container

        yield launch
        for instance, container in launched:
            container.kill()
            await soon(container.wait())
            assert await self.left_of(instance) == []

    async def test_each_answers_at_an_address_of_its_own(self, launch):
        containers = [await launch(NUMBER=str(number)) for number in range(2)]
        assert containers[0].address != containers[1].address
        for number, container in enumerate(containers):
            await until_ready(container)
            assert json.loads(await ask(container, "/environment"))["NUMBER"] == str(number)

    async def test_its_environment_is_as_it_was_said(self, launch):
        told = {"WORD": "a \"b\" 'c' = $HOME `d` é", "EMPTY": "", "LINES": "one\ntwo"}
        container = await launch(**told)
        await until_ready(container)
        environment = json.loads(await ask(container, "/environment"))
        assert {name: environment[name] for name in told} == told

    @pytest.mark.clause("1.1-6")
    async def test_its_model_directory(self, launch, tmp_path):
        (tmp_path / "code").mkdir()
        (tmp_path / "weights").write_text("1 2 3")
        (tmp_path / "code" / "inference.py").write_text("pass")
        container = await launch(tmp_path)
        await until_ready(container)
        seen = json.loads(await ask(container, "/model"))
        assert seen == {"weights": "1 2 3", "code/inference.py": "pass"}
        if self.read_only:
            assert await ask(container, "/write") == "Read-only file system"

    @pytest.mark.clause("1.1-1")
    async def test_sigterm_is_enough(self, launch):
        container = await launch()
        await until_ready(container)
        assert await soon(container.stop(GRACE)) is True
        assert self.said(await soon(container.wait())) == "ended with status 0"

    @pytest.mark.clause("1.1-1")
    async def test_one_that_ignores_sigterm_is_killed(self, launch):
        container = await launch(ON_SIGTERM="ignore")
        await until_ready(container)
        assert await soon(container.stop(0.2)) is False
        assert self.said(await soon(container.wait())) == "was ended by SIGKILL"

    async def test_one_that_ends_by_itself(self, launch, output):
        container = await launch()
        await until_ready(container)
        ends = [asyncio.create_task(container.wait()) for _ in range(2)]
        with pytest.raises(aiohttp.ClientError):
            await ask(container, "/exit")
        for end in ends:
            assert self.said(await soon(end)) == "ended with status 3"
        assert LAST_WORDS in output.data.decode(), "all that it said is there when its end is told"
        assert await soon(container.stop(GRACE)) is True
        container.kill()

    async def test_it_is_killed_at_once(self, launch):
        container = await launch(ON_SIGTERM="ignore")
        await until_ready(container)
        container.kill()
        container.kill()
        assert self.said(await soon(container.wait())) == "was ended by SIGKILL"

    async def test_what_it_has_started_ends_with_it(self, launch):
        container = await launch()
        await until_ready(container)
        await ask(container, "/fork")
        (name,) = [json.loads(await ask(container, "/environment"))[MARK]]
        assert len(processes_of(name)) == 1 + self.processes
        assert await soon(container.stop(GRACE)) is True
        await eventually(lambda: processes_of(name) == [])

    async def test_what_it_says_arrives(self, launch, output):
        await launch()
        said = [b"this is said to standard %b\n" % stream for stream in (b"output", b"error")]
        await eventually(lambda: all(line in output.data for line in said))

    async def test_what_it_says_is_held_until_somebody_listens(
        self, anyio_backend, no_leaks, launcher, source
    ):
        order, output = order_for(source), Output()
        container = await soon(launcher.launch(order))
        await until_ready(container)
        container.pass_output(output.take)
        assert await soon(container.stop(GRACE)) is True
        assert b"this is said to standard output\n" in output.data
        assert await self.left_of(order.instance) == []

    async def test_while_it_runs_it_is_not_lost(self, launch):
        container = await launch()
        container.watch(lambda: pytest.fail("it runs"))
        await until_ready(container)
        assert container.loss is None
        container.watch(lambda: None)

    async def test_nobody_has_to_wait_for_its_end(self, launch):
        container = await launch()
        waiting = asyncio.create_task(container.wait())
        await until_ready(container)
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert await ask(container, "/ping") == ""

    @pytest.mark.parametrize("turns", CANCELLED_AFTER)
    async def test_of_a_cancelled_launch_nothing_is_left(
        self, anyio_backend, no_leaks, launcher, source, turns
    ):
        order = order_for(source)
        launching = asyncio.create_task(launcher.launch(order))
        for _ in range(turns):
            await asyncio.sleep(0)
        launching.cancel()
        with suppress(asyncio.CancelledError):
            container = await soon(launching)  # it was quicker
            container.kill()
            await soon(container.wait())
        assert await self.left_of(order.instance) == []

    async def test_what_cannot_be_started_will_not_be_later(
        self, anyio_backend, no_leaks, launcher, unknown
    ):
        with pytest.raises(LaunchError) as caught:
            await soon(launcher.launch(order_for(unknown)))
        assert not caught.value.passing
