"""The images, the Compose file and the pages' commands on a real engine. Run by ``make engine``.

What ``image_check.py`` asks of the images without an engine, the engine itself is asked here once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from partway.container.cli.main import main
from tests import fleet_tutorial
from tests.conftest import ROOT
from tests.fleet_tutorial import (
    BY_ANOTHER_IMAGE,
    BY_IMAGE,
    MODEL,
    OTHER_MODEL,
    RECIPE,
    Served,
    follow,
)
from tests.interop.aws_sdk import KEY, PRINCIPALS, Part, Sdk, ServedGateway
from tests.interop.aws_sdk_check import anyio_backend, python
from tests.interop.engine import Engine
from tests.tutorial_check import LAST, PAGE, STEPS, blocks

__all__ = ["anyio_backend", "python"]

pytestmark = pytest.mark.timeout(900)

COMPOSE = ROOT / "docs" / "examples" / "compose.yaml"
UNIT = ROOT / "docs" / "examples" / "partway-gateway.service"

#: For what a container does once it has been started, in seconds.
PATIENCE = 30


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("engine")) as engine:
        engine.make_base()
        yield engine


@pytest.fixture(scope="module")
def ours(engine: Engine) -> Engine:
    """With both images, by the commands that their recipe names."""
    engine.build("partway", ROOT)
    engine.build("partway-gateway", ROOT, "--target", "gateway")
    return engine


@pytest.fixture
def run(ours: Engine) -> Iterator[Callable[..., str]]:
    """Starts containers; gives the name of each."""
    names: list[str] = []

    def start(*words: str) -> str:
        name = f"tried-{len(names)}"
        names.append(name)
        ours.docker("run", "--detach", "--name", name, *words)
        return name

    yield start
    for name in names:
        ours.docker("rm", "--force", name)


def published(engine: Engine, name: str, port: int) -> str:
    """Host and port by which a container's port is reached from here."""
    return engine.docker("port", name, f"{port}/tcp").splitlines()[0]


def until_answered(url: str, says: Callable[[], str]) -> None:
    """Ask until the answer is 200."""
    until = time.monotonic() + PATIENCE
    trouble = ""
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except OSError as error:  # another status is one too
            trouble = str(error)
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"{url}: {trouble}\n{says()}")


def echoed(where: str, text: str) -> str:
    url = f"ws://{where}/endpoints/echo/invocations-bidirectional-stream"
    with connect(url, open_timeout=PATIENCE) as stream:
        stream.send(text)
        answer = stream.recv(timeout=PATIENCE)
        stream.close(1000)
    return str(answer)


def stopped(engine: Engine, name: str) -> int:
    """SIGTERM, and SIGKILL after 30 s: the status that the container ends with."""
    engine.docker("stop", "--time", "30", name)
    return int(engine.docker("inspect", "--format", "{{.State.ExitCode}}", name))


def answers_and_ends(engine: Engine, name: str, answer: str) -> None:
    """Hold a model's container to its answer to "hello", and to an orderly end."""
    where = published(engine, name, 8080)
    until_answered(f"http://{where}/ping", lambda: engine.docker("logs", name))
    with connect(f"ws://{where}/invocations-bidirectional-stream") as stream:
        stream.send("hello")
        assert stream.recv(timeout=PATIENCE) == answer
    assert stopped(engine, name) == 0


@pytest.mark.clause("1.1-1", "1.1-2", "1.1-4")
def test_the_models_image(ours: Engine, run: Callable[..., str], tmp_path: Path) -> None:
    artifacts = f"{tmp_path}:/opt/ml/model:ro"
    answers_and_ends(
        ours, run("-p", "127.0.0.1::8080", "-v", artifacts, "partway", "serve"), "hello"
    )


def test_the_gateways_image(ours: Engine, run: Callable[..., str]) -> None:
    model = run("partway", "serve")
    endpoint = f"echo=http://{model}:8080"
    ports = ("-p", "127.0.0.1::8090", "-p", "127.0.0.1::8443")
    flags = ("--insecure", "--tls-port", "8443", "--endpoint", endpoint, "--log-format", "json")
    name = run(
        *("--link", model, "--read-only", "--cap-drop", "ALL"),
        *("--tmpfs", "/var/lib/partway:uid=65532,gid=65532,mode=700"),
        *(*ports, "partway-gateway", "serve", *flags),
    )
    where = published(ours, name, 8090)
    until_answered(f"http://{where}/readyz", lambda: ours.docker("logs", name))
    assert echoed(where, "hello") == "hello"
    assert ours.docker("exec", name, "id", "-u") == "65532"
    with socket.create_connection(tuple(published(ours, name, 8443).split(":")), 5):
        pass  # who signed for it is said in the log
    assert stopped(ours, name) == 0


def test_the_gateways_image_lets_nobody_in_unasked(ours: Engine, run: Callable[..., str]) -> None:
    name = run("partway-gateway")
    assert ours.docker("wait", name) == "2"
    with pytest.raises(AssertionError, match="add --auth sigv4, or --insecure"):
        ours.docker("run", "--rm", "partway-gateway")


@pytest.fixture
def composed(ours: Engine, tmp_path: Path) -> Iterator[tuple[str, Callable[..., str]]]:
    """The Compose file's services, up; where the gateway is published, and Compose itself."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    # Where pip's index is reached from this machine alone, so that a build needs its network.
    here = tmp_path / "here.yaml"
    here.write_text(
        "services:\n  gateway: {build: {network: host}}\n  echo: {build: {network: host}}\n"
    )
    files = ("--project-name", "tried", "--file", str(COMPOSE), "--file", str(here))

    def compose(*words: str) -> str:
        return ours.compose(*files, *words, PORT=port)

    try:
        compose("up", "--build", "--detach")
        yield f"127.0.0.1:{port}", compose
    finally:
        compose("down", "--timeout", "30", "--volumes")


def test_the_compose_file(ours: Engine, composed: tuple[str, Callable[..., str]]) -> None:
    where, compose = composed
    until_answered(f"http://{where}/readyz", lambda: compose("logs"))
    assert echoed(where, "hello") == "hello"
    with pytest.raises(InvalidStatus):
        connect(f"ws://{where}/endpoints/nobody/invocations-bidirectional-stream")
    compose("stop", "--timeout", "30")
    ids = set()
    for service in ("gateway", "echo"):
        container = compose("ps", "--all", "--quiet", service)
        state = json.loads(ours.docker("inspect", "--format", "{{json .State}}", container))
        assert state["ExitCode"] == 0, ours.docker("logs", container)
        said = [json.loads(line) for line in ours.log(container)]  # each one an object
        (over,) = [line for line in said if line["event"] == "stream ended"]
        ids.add(over["request_id"])
        if service == "gateway":
            first = next(line for line in said if "container" in line)
            assert first["event"] == "endpoint answers"
            assert first["container"] == "http://echo:8080"
    assert len(ids) == 1


def test_the_tutorials_build(engine: Engine, tmp_path: Path) -> None:
    """Its commands as they are printed, with its first recipe and with its last one."""
    recipes = [text for language, text in blocks(PAGE) if language == "dockerfile"]
    build, save, conform = next(
        text for language, text in blocks(PAGE) if language == "sh" and "docker build" in text
    ).splitlines()
    assert (build, save) == ("docker build -t shout .", "docker save shout -o shout.tar")
    expected = [step for step in STEPS if "--image" in step.command]
    (tmp_path / "server.py").write_text(LAST["server.py"])
    for recipe, step in zip(recipes, expected, strict=True):
        (tmp_path / "Dockerfile").write_text(recipe)
        engine.build("shout", tmp_path)
        engine.docker(*save.split()[1:], cwd=tmp_path)
        program = [sys.executable, "-m", *conform.split()]
        done = subprocess.run(
            program, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60
        )
        failed = re.findall(r"^FAIL +must +(\S+)", step.printed, re.MULTILINE)
        assert re.findall(r"^FAIL +must +(\S+)", done.stdout, re.MULTILINE) == failed
        assert done.returncode == bool(failed), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        (
            "",
            0,
            ("image.label", "startup.listens", "leaks.ping", "shutdown.sigterm", "conformant"),
        ),
        (
            'LABEL com.amazonaws.sagemaker.capabilities.bidirectional-streaming=""',
            1,
            (
                "FAIL     must      image.label",
                "checks (image.label did not pass): startup.listens",
            ),
        ),
    ],
)
def test_an_image_is_judged_on_the_engine(
    ours: Engine, tmp_path: Path, line: str, status: int, said: tuple[str, ...]
) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM partway\n{line}\n")
    ours.build("judged:1", tmp_path)
    checks = ("image.label", "startup", "ping", "messages", "leaks.ping", "shutdown.sigterm")
    words = ("-m", "partway", "conform", "--image", "judged:1", "--fast", "--only", *checks)
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"DOCKER_HOST": ours.where},
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert [each for each in said if each not in done.stdout] == []
    assert "skip" not in done.stdout
    assert ours.docker("ps", "--all", "--quiet", "--filter", "label=partway.gateway") == ""


def test_an_authors_project(ours: Engine, run: Callable[..., str], tmp_path: Path) -> None:
    """As the how-to has it: by its own recipe, with this checkout's wheel."""
    folder = tmp_path / "chat"
    assert main(["new", str(folder)]) == 0
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", folder, ROOT], check=True, timeout=120)
    (wheel,) = folder.glob("partway-*.whl")
    ours.build("chat", folder, "--build-arg", f"PARTWAY=./{wheel.name}")
    name = run("-p", "127.0.0.1::8080", "chat", "serve")
    answers_and_ends(ours, name, "You said: hello (words: 1)")


def test_the_tutorial_of_a_fleet(ours: Engine, tmp_path: Path) -> None:
    """Its files and its changes as they are printed: two replicas survive what it does to them."""

    def build(tag: str, model: str, recipe: str) -> str:
        (tmp_path / "model.py").write_text(model)
        (tmp_path / "Dockerfile").write_text(recipe)
        ours.build(f"greeter:{tag}", tmp_path)
        return BY_IMAGE.replace("greeter:1", f"greeter:{tag}")

    assert build("1", MODEL, RECIPE) == BY_IMAGE
    another = build("2", OTHER_MODEL, RECIPE)
    assert another == BY_ANOTHER_IMAGE
    broken = build("3", OTHER_MODEL, RECIPE.replace("Greeter", "Greter"))
    reason = "PARTWAY_MODEL model:Greter: model has no 'Greter'; models in /opt/program/model.py: "
    assert reason in fleet_tutorial.PAGE
    with Served(tmp_path, BY_IMAGE, DOCKER_HOST=ours.where) as served:
        follow(served, lambda host, _: ours.docker("kill", host), another, broken, reason)
    assert ours.docker("ps", "--all", "--quiet", "--filter", "ancestor=greeter:2") == ""


# --- AWS's own SDK -------------------------------------------------------------------------------


async def test_awss_sdk_streams_through_an_image(
    ours: Engine, python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", ours.where)
    log = tmp_path / "sdk.log"
    flags = ("--endpoint", "echo=docker://partway")
    async with (
        ServedGateway.start(tmp_path, "", PRINCIPALS, *flags) as gateway,
        Sdk.start(python, gateway.ca, log) as sdk,
    ):
        client = await sdk.client(gateway.https, KEY)
        stream = await client.open("echo")
        for text in (b"hello", "größer".encode()):
            await stream.send(text, data_type="UTF8", completion="COMPLETE")
            assert await stream.receive() == Part(text, "UTF8", "COMPLETE")
        await stream.end_input()
        assert await stream.rest() == []
        await stream.close()
    assert ours.docker("ps", "--all", "--quiet", "--filter", "label=partway.gateway") == ""


# --- A service, without an engine ----------------------------------------------------------------


def test_the_systemd_unit(tmp_path: Path) -> None:
    """As systemd reads it, with this environment in place of the one that it names."""
    assert shutil.which("systemd-analyze"), "it must be installed: apt-get install systemd"
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace("/opt/partway", sys.prefix))
    verify = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False, timeout=60
    )
    assert (verify.returncode, verify.stdout, verify.stderr) == (0, "", "")
    asked = ["systemd-analyze", "security", "--offline=true", "--threshold=20", unit]
    exposed = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    assert exposed.returncode == 0, exposed.stdout
