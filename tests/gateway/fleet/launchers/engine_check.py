"""partway.gateway.fleet.launchers.engine on a real engine. Run by ``make engine``."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import aiohttp
import pytest

from partway.gateway.fleet.container_ids import instance_of
from partway.gateway.fleet.endpoint import Image
from partway.gateway.fleet.health.startup_pace import pinged
from partway.gateway.fleet.launchers.engine import EngineLauncher
from partway.gateway.fleet.launchers.engine_image import LABEL
from partway.gateway.fleet.launchers.engine_request import INSTANCE_LABEL
from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.timing.clock import LoopClock
from tests.gateway.fleet.launchers.contract import (
    GRACE,
    TRIED,
    LauncherContract,
    ask,
    order_for,
    processes_of,
    until_ready,
)
from tests.gateway.fleet.waiting import Output, eventually, soon
from tests.interop.engine import BASE, Engine
from tests.processes import ready_url

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


async def until_empty(engine: Engine) -> None:
    """Wait until the engine has no container: one is removed soon after its end was told."""
    await eventually(lambda: not engine.docker("ps", "--all", "--quiet"))


# --- As the platform starts it -------------------------------------------------------------------


@pytest.mark.clause("1.1-1", "1.1-7")
async def test_it_is_told_to_serve_and_has_a_name(launcher):
    source = Image("tried:1")
    asked = order_for(source, container_hostname="model-1")
    container = await soon(launcher.launch(asked))
    await until_ready(container)
    assert json.loads(await ask(container, "/arguments")) == ["serve"]
    assert json.loads(await ask(container, "/environment"))["HOSTNAME"] == "model-1"
    assert await soon(container.stop(GRACE))


async def test_what_it_may_use_is_limited(launcher, engine):
    about = {"cpus": 0.5, "memory": 64 << 20}
    container = await soon(launcher.launch(order_for(Image("tried:1"), **about)))
    (name,) = engine.docker("ps", "--quiet").split()
    host = json.loads(engine.docker("inspect", "--format", "{{json .HostConfig}}", name))
    assert (host["NanoCpus"], host["Memory"], host["Init"]) == (500_000_000, 64 << 20, False)
    assert host["RestartPolicy"]["Name"] == "no"
    assert (host["PidsLimit"], host["SecurityOpt"]) == (8192, ["no-new-privileges"])
    said = status_of(engine.docker("inspect", "--format", "{{.State.Pid}}", name))
    assert said["NoNewPrivs"] == "1"
    # Docker's usual ones, a80425fb, but MKNOD (27) and NET_RAW (13).
    assert said["CapBnd"] == "00000000a00405fb"
    container.kill()
    await soon(container.wait())


def status_of(process: str) -> dict[str, str]:
    """What the kernel says of a process, by name."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


async def end_of(launcher: EngineLauncher, image: str, **about: object) -> tuple[str, bytes]:
    """How a container of an image ends by itself, and what it has said."""
    said = Output()
    container = await soon(launcher.launch(order_for(Image(image), **about)))
    container.pass_output(said.take)
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
    assert end in {
        "was ended by SIGKILL: it used more memory than it may have",
        "ended with status 1",
    }


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
        ("shell", "the ENTRYPOINT runs a shell"),
        ("no-entrypoint", "there is no ENTRYPOINT"),
        ("no-program", "/no/such/program"),
    ],
)
async def test_an_image_that_cannot_be_started(launcher, engine, image, words):
    with pytest.raises(LaunchError, match=re.escape(words)) as caught:
        await soon(launcher.launch(order_for(Image(image))))
    assert not caught.value.passing
    await until_empty(engine)


async def test_an_image_that_no_registry_has(launcher):
    asked = order_for(Image("127.0.0.1:1/nobody/has-this:1"))
    with pytest.raises(LaunchError, match=r"cannot pull image 127\.0\.0\.1:1/nobody/has-this:1"):
        await soon(launcher.launch(asked))


async def test_a_gpu_where_there_is_none(launcher, engine):
    with pytest.raises(LaunchError, match="NVIDIA Container Toolkit"):
        await soon(launcher.launch(order_for(Image("tried:1"), gpus=1)))
    await until_empty(engine)


async def test_a_model_directory_that_is_not_there(launcher, engine, tmp_path):
    with pytest.raises(LaunchError, match="bind source path does not exist"):
        await soon(launcher.launch(order_for(Image("tried:1"), tmp_path / "none")))


# --- The engine comes and goes -------------------------------------------------------------------


async def test_an_engine_that_is_started_anew(launcher, engine):
    said = Output()
    container = await soon(launcher.launch(order_for(Image("tried:1"))))
    container.pass_output(said.take)
    await until_ready(container)
    waiting = asyncio.create_task(container.wait())
    await asyncio.to_thread(engine.stop)
    with pytest.raises(LaunchError, match="does not answer") as caught:
        await soon(launcher.launch(order_for(Image("tried:1"))))
    assert caught.value.passing
    await asyncio.to_thread(engine.start)
    await soon(pinged(container.address, LoopClock()))
    assert not waiting.done()
    assert await soon(container.stop(GRACE))
    assert str(await soon(waiting)) == "ended with status 0"
    assert said.data.count(b"this is said to standard output") == 1
    await until_empty(engine)


async def test_one_that_ends_while_the_engine_is_gone(launcher, engine):
    asked = order_for(Image("tried:1"))
    container = await soon(launcher.launch(asked))
    await until_ready(container)
    await asyncio.to_thread(engine.stop)
    (process,) = processes_of(asked.instance)
    os.kill(process, signal.SIGKILL)
    await asyncio.to_thread(engine.start)
    assert "ended" in str(await soon(container.wait()))


async def test_somebody_else_removes_it(launcher, engine):
    asked = order_for(Image("tried:1"))
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
    orders = [order_for(Image("tried:1")) for _ in range(2)]
    theirs = await soon(other.launch(orders[0]))
    ours = await soon(lost.launch(orders[1]))
    await soon(launcher.remove_leftovers())
    assert processes_of(orders[1].instance) == []
    assert len(processes_of(orders[0].instance)) == 1
    for container in (theirs, ours):
        container.kill()
        await soon(container.wait())
    await other.aclose()
    await lost.aclose()
    await until_empty(engine)


# --- A gateway is killed -------------------------------------------------------------------------


async def test_one_that_fits_is_taken_over(engine, tmp_path):
    lost = EngineLauncher("tests", key=b"key", find=lambda: engine.where)
    asked = order_for(Image("tried:1"), tmp_path)
    before = await soon(lost.launch(asked))
    await until_ready(before)
    (process,) = processes_of(asked.instance)
    said = Output()
    launcher = EngineLauncher("tests", key=b"key", find=lambda: engine.where)
    again = replace(asked, instance=f"{asked.instance}-again")
    after = await soon(launcher.launch(again))
    after.pass_output(said.take)
    assert after.address == before.address
    assert processes_of(asked.instance) == [process]
    with pytest.raises(aiohttp.ClientError):
        await ask(after, "/exit")
    for container in (before, after):
        assert str(await soon(container.wait())) == "ended with status 3"
    assert b"these are my last words" in said.data
    await lost.aclose()
    await launcher.aclose()
    await until_empty(engine)


SETTINGS = """
data_dir = "data"

[endpoints.a]
image = "docker://tried:1"
pull = "never"
instances = 2
model_data = "model.tar.gz"
stop_timeout = 2
environment = { VERSION = "%d", ON_SIGTERM = "ignore" }
"""

#: An instance of two containers.
SEVERAL = """
data_dir = "data"

[endpoints.a]
stop_timeout = 2
environment = { VERSION = "%d" }

[[endpoints.a.containers]]
hostname = "first"
image = "docker://tried:1"
pull = "never"
model_data = "model.tar.gz"

[[endpoints.a.containers]]
hostname = "second"
image = "docker://tried:1"
pull = "never"
model_data = "model.tar.gz"
"""

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 120


class Gateway:
    """``partway serve`` with an image, in a folder, and what the engine runs for it."""

    def __init__(self, folder: Path, engine: Engine, settings: str) -> None:
        self.folder = folder
        self.engine = engine
        self.settings = settings
        (folder / "weights").write_text("1 2 3")
        with tarfile.open(folder / "model.tar.gz", "w:gz") as model:
            model.add(folder / "weights", "weights")
        self.write(version=1)
        self.process: subprocess.Popen[bytes]

    def write(self, version: int) -> None:
        (self.folder / "partway.toml").write_text(self.settings % version)

    def start(self) -> None:
        words = ("serve", "--port", "0", "--config", self.folder / "partway.toml")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "partway", *words],
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | {"DOCKER_HOST": self.engine.where},
            )

    def kill(self) -> None:
        time.sleep(random.uniform(0, 0.3))  # any moment will do
        self.process.kill()
        self.process.communicate()

    def comes_up(self) -> set[str]:
        """Start it; returns its containers, once there are as many as there are to be."""
        self.start()
        ready_url(self.process, PATIENCE)
        self.until(lambda found: len(found) == 2)
        for container in self.containers():
            where = self.engine.docker("port", container, "8080/tcp").splitlines()[0]
            with urlopen(f"http://{where}/model", timeout=PATIENCE) as answer:
                assert json.load(answer) == {"weights": "1 2 3"}, "its mount is there"
        return self.containers()

    def containers(self) -> set[str]:
        return set(self.engine.docker("ps", "--all", "--quiet").split())

    def until(self, condition: Callable[[set[str]], object]) -> None:
        """Wait for containers that nothing tells of."""
        deadline = time.monotonic() + PATIENCE
        while not condition(found := self.containers()):
            assert time.monotonic() < deadline, f"{found}\n{(self.folder / 'log').read_text()}"
            time.sleep(0.01)

    def instances(self) -> set[str]:
        """The instances that the containers were started for."""
        form = f'{{{{index .Config.Labels "{INSTANCE_LABEL}"}}}}'
        said = self.engine.docker("inspect", "--format", form, *self.containers())
        return {instance_of(each) for each in said.split()}

    def versions(self) -> set[str]:
        form = "{{range .Config.Env}}{{println .}}{{end}}"
        said = self.engine.docker("inspect", "--format", form, *self.containers())
        return set(re.findall("^VERSION=(.*)$", said, re.MULTILINE))


@pytest.fixture
def gateway(engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path, engine, getattr(request, "param", SETTINGS))
    gateway.start()
    yield gateway
    gateway.process.kill()
    gateway.process.communicate()
    if left := gateway.containers():
        engine.docker("rm", "--force", *left)


def test_whatever_a_killed_gateway_did_its_containers_go_on_or_end(gateway):
    gateway.until(bool)
    gateway.kill()  # while they start
    serving = gateway.comes_up()

    gateway.kill()  # while they serve
    assert gateway.comes_up() == serving, "nothing was started anew"
    assert (gateway.folder / "log").read_text().count("running container adopted") >= 2

    gateway.kill()
    gateway.engine.docker("kill", min(serving))
    assert len(gateway.comes_up() & serving) == 1, "the one that was left, and another"

    gateway.write(version=2)
    gateway.process.send_signal(signal.SIGHUP)
    gateway.until(lambda found: len(found) > 2)
    gateway.kill()  # while the endpoint changes
    gateway.comes_up()
    assert gateway.versions() == {"2"}

    gateway.process.send_signal(signal.SIGTERM)
    gateway.kill()  # while they are stopped
    gateway.comes_up()

    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(PATIENCE) == 0
    assert gateway.containers() == set(), "an orderly end leaves nothing"


@pytest.mark.parametrize("gateway", [SEVERAL], indirect=True, ids=["several"])
def test_so_do_those_of_one_instance_together(gateway):
    gateway.until(bool)
    gateway.kill()  # while they start
    serving = gateway.comes_up()
    names = gateway.engine.docker("inspect", "--format", "{{.Config.Hostname}}", *serving).split()
    assert sorted(names) == ["first", "second"]

    gateway.kill()  # while they serve
    # If only one of them had been there at the first kill, the other one is another instance's.
    together = len(gateway.instances()) == 1
    again = gateway.comes_up()
    assert len(again & serving) == (2 if together else 1), "nothing else was started anew"

    gateway.kill()
    gateway.engine.docker("kill", min(again))
    assert len(gateway.comes_up() & again) == 1, "the one that was left, and another"

    gateway.engine.docker("kill", min(gateway.containers()))
    gateway.until(lambda found: len(found) == 2 and not found & again)

    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(PATIENCE) == 0
    assert gateway.containers() == set(), "an orderly end leaves nothing"
