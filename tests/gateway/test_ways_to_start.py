"""Each way to start a program gives it the same streams, arguments and port.

``partway serve`` runs once, with an endpoint for each way that is the gateway's; each other command
runs as a process of its own. The program is :mod:`tests.gateway.started_by_a_command`, behind a
shell that writes to its streams by path.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.gateway.apis.control.deployments import Script
from tests.gateway.apis.kubernetes.served import (
    ENDPOINTS,
    MODELS,
    a_destination,
    a_model,
    an_endpoint,
)
from tests.gateway.workbench.recording.recordings import both_close, whole
from tests.processes import running

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has /proc")

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60

PROGRAM = ROOT / "tests" / "gateway" / "started_by_a_command.py"

#: A shell that ends where it cannot open its streams, and becomes the program otherwise.
SHELL = 'echo out > /dev/stdout && echo err > /dev/stderr && exec "$0" "$@" --shell=$PORT_COPY'

#: Words behind ``--port={port}``, which the program is to get as they are.
WRITTEN = ("--literal=$SAGEMAKER_BIND_TO_PORT", '{"port": 1}', "{{}}")


def words(facts: Path, *last: str) -> list[str]:
    """A command with all that has to come through."""
    shell = ["/bin/sh", "-c", f"PORT_COPY=$SAGEMAKER_BIND_TO_PORT; {SHELL}"]
    program = [sys.executable, "-S", str(PROGRAM), str(facts), "--port={port}"]
    return [*shell, *program, *WRITTEN, *last]


def partway(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PARTWAY_")}
    return subprocess.run(
        [sys.executable, "-m", "partway.gateway.cli.main", *map(str, arguments)],
        capture_output=True, text=True, timeout=PATIENCE * 2, check=False,
        **{"env": environment, "cwd": ROOT, **options},
    )  # fmt: skip


def told(facts: Path) -> dict[str, Any]:
    """The facts that a program has written down; waits for them."""
    deadline = time.monotonic() + PATIENCE
    while not facts.exists():
        assert time.monotonic() < deadline, f"{facts.name} was not started"
        time.sleep(0.02)
    found: dict[str, Any] = json.loads(facts.read_text())
    return found


def assert_as_in_a_container(facts: dict[str, Any]) -> None:
    assert facts["stdin"] == "/dev/null"
    assert facts["streams"] == ["pipe", "pipe"]
    assert facts["opened"] == ["written"] * 3


# --- The gateway's ways ---------------------------------------------------------------------------


def toml(text: Sequence[str]) -> str:
    return json.dumps(list(text))


class Ways:
    """A gateway, and the files that its programs write."""

    def __init__(self, folder: Path, last: tuple[str, ...]) -> None:
        self.folder = folder
        self.last = last
        self.url = ""

    def facts(self, way: str) -> Path:
        return self.folder / f"{way}.json"

    def command(self, way: str) -> list[str]:
        return words(self.facts(way), *self.last)

    def settings(self) -> str:
        images = "".join(
            f'"{way}:1" = {toml(self.command(way))}\n' for way in ("api", "kubernetes", "job")
        )
        return (
            f'data_dir = "{self.folder}/data"\n'
            f'[api]\nlocal_roots = ["{self.folder}/in"]\nlocal_results = ["{self.folder}/out"]\n'
            f"[images]\n{images}"
            f'[endpoints.image]\nimage = "image:1"\n'
            f"[endpoints.table]\ncommand = {toml(self.command('table'))}\n"
        ).replace("[images]\n", f'[images]\n"image:1" = {toml(self.command("image"))}\n')

    def flag(self) -> None:
        """Started already, by ``--endpoint``."""

    image = table = flag

    def deploy(self) -> None:
        command = shlex.join(self.command("deploy"))
        done = partway(
            "deploy", "deployed", "--command", command, "--data-dir", f"{self.folder}/data"
        )
        assert done.returncode == 0, done.stderr
        assert "no shell expands $SAGEMAKER_BIND_TO_PORT" in done.stderr

    def api(self) -> None:
        script = Script(int(self.url.rpartition(":")[2]))
        script.model("api", "api:1")
        script.create("api", "api")
        script.in_service("api")

    def kubernetes(self) -> None:
        for path, made in (
            (MODELS, a_model("one", image="kubernetes:1")),
            (
                ENDPOINTS,
                an_endpoint("mine", a_destination("one")),
            ),
        ):
            asked = urllib.request.Request(
                self.url + path, json.dumps(made).encode(), {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
                assert answer.status == 201

    def job(self) -> None:
        script = Script(int(self.url.rpartition(":")[2]))
        script.client.create_model(ModelName="job", PrimaryContainer={"Image": "job:1"})
        script.client.create_transform_job(
            TransformJobName="job", ModelName="job",
            TransformInput={
                "DataSource": {"S3DataSource": {
                    "S3DataType": "S3Prefix", "S3Uri": f"{self.folder}/in",
                }},
            },
            TransformOutput={"S3OutputPath": f"{self.folder}/out"},
            TransformResources={"InstanceType": "ml.m5.large", "InstanceCount": 1},
        )  # fmt: skip


@pytest.fixture(scope="module", params=[(), ("serve",)], ids=["as-it-is", "serve"])
def ways(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ways]:
    folder = tmp_path_factory.mktemp("ways")
    ways = Ways(folder, request.param)
    for name in ("in", "out"):
        (folder / name).mkdir()
    (folder / "in" / "a.json").write_text("{}")
    (folder / "partway.toml").write_text(ways.settings())
    flag = f"flag={shlex.join(ways.command('flag'))}"
    flags = ("--port", "0", "--config", str(folder / "partway.toml"), "--endpoint", flag)
    with running("partway.gateway.cli.main", "serve", *flags) as url:
        ways.url = url
        yield ways


@pytest.mark.parametrize("way", ["flag", "table", "image", "deploy", "api", "kubernetes", "job"])
def test_of_the_gateway(ways, way):
    getattr(ways, way)()
    facts = told(ways.facts(way))
    assert_as_in_a_container(facts)
    port = facts["port"]
    expected = [f"--port={port}", *WRITTEN, *ways.last, f"--shell={port}"]
    assert facts["arguments"] == expected


# --- Commands that start a program themselves -----------------------------------------------------


def transform(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    (folder / "in").mkdir()
    (folder / "in" / "a.json").write_text("{}")
    places = ("--input", folder / "in", "--output", folder / "out")
    done = partway("transform", "--command", command, *places, "--content-type", "application/json")
    assert (folder / "out" / "a.json.out").read_text() == "{}"
    return done


def conform(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    return partway("conform", "--command", command, "--only", "startup.ready", "--fast")


def plugin(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    members = f"command = {json.dumps(command)}\nonly = ['startup.ready']\nfast = true\n"
    (folder / "conformance.toml").write_text(members)
    plugins = ("-p", "partway.gateway.workbench.testing.plugin", "-p", "no:cacheprovider")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, str(folder / "conformance.toml")],
        capture_output=True, text=True, timeout=PATIENCE * 2, check=False, cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip


def replay(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    whole(folder / "recording.jsonl", *both_close(0.1))
    return partway("replay", folder / "recording.jsonl", "--command", command)


Started = Callable[[Path, str], subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("last", [(), ("serve",)], ids=["as-it-is", "serve"])
@pytest.mark.parametrize(
    ("way", "status"), [(transform, 0), (conform, 0), (plugin, 0), (replay, 1)]
)
def test_of_a_command(tmp_path: Path, way: Started, status: int, last: tuple[str, ...]) -> None:
    done = way(tmp_path, shlex.join(words(tmp_path / "facts.json", *last)))
    assert done.returncode == status, f"{done.stdout}{done.stderr}"  # it takes no streams
    facts = told(tmp_path / "facts.json")
    assert_as_in_a_container(facts)
    port = facts["port"]
    assert facts["arguments"] == [f"--port={port}", *WRITTEN, *last, f"--shell={port}"]
    if way is not plugin:
        assert "no shell expands $SAGEMAKER_BIND_TO_PORT" in done.stderr


def test_of_dev(tmp_path: Path) -> None:
    flags = ("dev", "--script", str(PROGRAM), "--port", "0")
    with subprocess.Popen(
        [sys.executable, "-m", "partway.gateway.cli.main", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "SCRIPT_STARTS": str(tmp_path / "facts.json")},
    ) as process:  # fmt: skip
        try:
            assert_as_in_a_container(told(tmp_path / "facts.json"))
        finally:
            process.terminate()
            output, errors = process.communicate(timeout=PATIENCE)
    assert "by /dev/stdout\n" in output
    assert errors.count("by /") == 2, "standard error stays apart"
