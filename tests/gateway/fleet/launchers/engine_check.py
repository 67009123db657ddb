"""partway.gateway.fleet.launchers.engine on a real engine. Run by ``make engine``."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Iterator

import pytest

from partway.gateway.clock import LoopClock
from partway.gateway.fleet.endpoints import Image
from partway.gateway.fleet.launchers.engine import EngineLauncher
from partway.gateway.fleet.launchers.engine_image import LABEL
from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.fleet.startup import pinged
from tests.gateway.fleet.launchers.contract import (
    GRACE,
    TRIED,
    LauncherContract,
    ask,
    order_for,
    processes_of,
    until_ready,
)
from tests.gateway.fleet.processes import Output, eventually, soon
from tests.interop.engine import BASE, Engine

pytestmark = pytest.mark.timeout(300)

RECIPE = f"""\
FROM {BASE}
COPY container.py /opt/program/container.py
LABEL {LABEL}=true
ENTRYPOINT ["python", "/opt/program/container.py"]
"""

#: By name, what an image has otherwise than it must.
WRONG = {
    "unlabelled": f'LABEL {LABEL}=""',
    "shell": "ENTRYPOINT python /opt/program/container.py",
    "no-entrypoint": "ENTRYPOINT []",
    "no-program": 'ENTRYPOINT ["/no/such/program"]',
    "ends-at-once": 'ENTRYPOINT ["sh", "/opt/program/container.py"]',
    "without-init": 'ENTRYPOINT ["cat", "/proc/1/cmdline"]',
    "greedy": 'ENTRYPOINT ["python", "-c", "x = \'x\' * (1 << 30)"]',
    "talkative": 'ENTRYPOINT ["seq", "2000000"]',
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    # So that its containers live on while it is gone.
    with Engine(tmp_path_factory.mktemp("engine"), "--live-restore") as engine:
        engine.make_base()
        folder = tmp_path_factory.mktemp("image")
        shutil.copy(TRIED, folder / "container.py")
        recipe = folder / "Dockerfile"
        recipe.write_text(RECIPE)
        engine.build("tried:1", folder)
        for name, line in WRONG.items():
            recipe.write_text(f"FROM tried:1\n{line}\n")
            engine.build(name, folder)
        yield engine


@pytest.fixture
async def launcher(anyio_backend: object, engine: Engine) -> AsyncIterator[EngineLauncher]:
    launcher = EngineLauncher("tests", find=lambda: engine.where)
    yield launcher
    await launcher.aclose()


class TestEngineLauncher(LauncherContract):
    @pytest.fixture
    def launcher(self, launcher: EngineLauncher) -> EngineLauncher:
        return launcher

    @pytest.fixture
    def source(self) -> Image:
        return Image("tried:1")

    @pytest.fixture
    def unknown(self) -> Image:
        return Image("nobody-has-this", pull="never")

    @pytest.fixture(autouse=True)
    def _engine(self, engine: Engine) -> None:
        self.engine = engine

    async def left_of(self, instance: str) -> list[object]:
        mark = f"label=partway.instance={instance}"
        listed = ("ps", "--all", "--quiet", "--filter", mark)
        # A container is removed soon after its end was told.
        await eventually(lambda: not self.engine.docker(*listed))
        return [*processes_of(instance)]


# --- As the platform starts it -------------------------------------------------------------------


@pytest.mark.clause("1.1-1", "1.1-7")
async def test_it_is_told_to_serve_and_has_a_name(launcher):
    source = Image("tried:1")
    asked = order_for(source, lambda data: None, container_hostname="model-1")
    container = await soon(launcher.launch(asked))
    await until_ready(container)
    assert json.loads(await ask(container, "/arguments")) == ["serve"]
    assert json.loads(await ask(container, "/environment"))["HOSTNAME"] == "model-1"
    assert await soon(container.stop(GRACE))


async def test_what_it_may_use_is_limited(launcher, engine):
    about = {"cpus": 0.5, "memory": 64 << 20}
    container = await soon(launcher.launch(order_for(Image("tried:1"), len, **about)))
    (name,) = engine.docker("ps", "--quiet").split()
    host = json.loads(engine.docker("inspect", "--format", "{{json .HostConfig}}", name))
    assert (host["NanoCpus"], host["Memory"], host["Init"]) == (500_000_000, 64 << 20, False)
    assert host["RestartPolicy"]["Name"] == "no"
    container.kill()
    await soon(container.wait())


async def end_of(launcher: EngineLauncher, image: str, **about: object) -> tuple[str, bytes]:
    """How a container of an image ends by itself, and what it has said."""
    said = Output()
    container = await soon(launcher.launch(order_for(Image(image), said.take, **about)))
    return str(await soon(container.wait())), said.data


async def test_one_that_ends_at_its_start(launcher):
    end, said = await end_of(launcher, "ends-at-once")
    assert end == "ended with status 2"
    assert b"Syntax error" in said


@pytest.mark.clause("1.1-1")
async def test_no_init_stands_before_it(launcher):
    end, said = await end_of(launcher, "without-init")
    assert end == "ended with status 1"  # there is no file "serve"
    assert b"cat\0/proc/1/cmdline\0serve\0" in said


async def test_one_without_memory(launcher):
    end, _ = await end_of(launcher, "greedy", memory=64 << 20)
    # Where the kernel has swap for it, or counts otherwise, Python itself says so.
    assert end in {"was ended by SIGKILL: it had used up its memory", "ended with status 1"}


async def test_all_that_it_says_arrives_in_order(launcher):
    """More than the engine keeps: what was said is read while it is said."""
    end, said = await end_of(launcher, "talkative")
    assert end == "ended with status 1"  # "serve" is no number
    lines = [int(line) for line in re.findall(rb"^\d+$", said, re.MULTILINE)]
    assert lines == sorted(set(lines))


# --- What cannot be launched ---------------------------------------------------------------------


@pytest.mark.clause("1.1-1", "1.1-4")
@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("unlabelled", f"LABEL {LABEL}=true"),
        ("shell", "the ENTRYPOINT is a shell's"),
        ("no-entrypoint", "there is no ENTRYPOINT"),
        ("no-program", "/no/such/program"),
    ],
)
async def test_an_image_that_cannot_be_started(launcher, engine, image, words):
    with pytest.raises(LaunchError, match=re.escape(words)) as caught:
        await soon(launcher.launch(order_for(Image(image), len)))
    assert not caught.value.passing
    assert engine.docker("ps", "--all", "--quiet") == ""


async def test_an_image_that_no_registry_has(launcher):
    asked = order_for(Image("127.0.0.1:1/nobody/has-this:1"), len)
    with pytest.raises(LaunchError, match=r"cannot pull image 127\.0\.0\.1:1/nobody/has-this:1"):
        await soon(launcher.launch(asked))


async def test_a_gpu_where_there_is_none(launcher, engine):
    with pytest.raises(LaunchError, match="NVIDIA Container Toolkit"):
        await soon(launcher.launch(order_for(Image("tried:1"), len, gpus=1)))
    assert engine.docker("ps", "--all", "--quiet") == ""


async def test_a_model_directory_that_is_not_there(launcher, engine, tmp_path):
    with pytest.raises(LaunchError, match="bind source path does not exist"):
        await soon(launcher.launch(order_for(Image("tried:1"), len, tmp_path / "none")))


# --- The engine comes and goes -------------------------------------------------------------------


async def test_an_engine_that_is_started_anew(launcher, engine):
    said = Output()
    container = await soon(launcher.launch(order_for(Image("tried:1"), said.take)))
    await until_ready(container)
    waiting = asyncio.create_task(container.wait())
    await asyncio.to_thread(engine.stop)
    with pytest.raises(LaunchError, match="does not answer") as caught:
        await soon(launcher.launch(order_for(Image("tried:1"), len)))
    assert caught.value.passing
    await asyncio.to_thread(engine.start)
    await soon(pinged(container.address, LoopClock()))
    assert not waiting.done()
    assert await soon(container.stop(GRACE))
    assert str(await soon(waiting)) == "ended with status 0"
    assert said.data.count(b"this is said to standard output") == 1
    assert engine.docker("ps", "--all", "--quiet") == ""


async def test_one_that_ends_while_the_engine_is_gone(launcher, engine):
    asked = order_for(Image("tried:1"), len)
    container = await soon(launcher.launch(asked))
    await until_ready(container)
    await asyncio.to_thread(engine.stop)
    (process,) = processes_of(asked.instance)
    os.kill(process, signal.SIGKILL)
    await asyncio.to_thread(engine.start)
    assert "ended" in str(await soon(container.wait()))


async def test_somebody_else_removes_it(launcher, engine):
    asked = order_for(Image("tried:1"), len)
    container = await soon(launcher.launch(asked))
    (name,) = engine.docker("ps", "--quiet").split()
    engine.docker("rm", "--force", name)
    # Whichever of the two the engine tells of first.
    assert str(await soon(container.wait())) in {
        "was ended by SIGKILL",
        "was removed from its engine by somebody else",
    }


async def test_what_a_killed_gateway_has_left(launcher, engine):
    other = EngineLauncher("others", find=lambda: engine.where)
    lost = EngineLauncher("tests", find=lambda: engine.where)
    orders = [order_for(Image("tried:1"), len) for _ in range(2)]
    theirs = await soon(other.launch(orders[0]))
    ours = await soon(lost.launch(orders[1]))
    assert await soon(launcher.remove_leftovers()) == 1
    assert await soon(launcher.remove_leftovers()) == 0
    assert processes_of(orders[1].instance) == []
    assert len(processes_of(orders[0].instance)) == 1
    for container in (theirs, ours):
        container.kill()
        await soon(container.wait())
    await other.aclose()
    await lost.aclose()
    assert engine.docker("ps", "--all", "--quiet") == ""
