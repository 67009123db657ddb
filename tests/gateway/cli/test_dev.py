"""partway dev, as a process, with real containers."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect as websocket

from partway.gateway.cli.dev import develop
from partway.gateway.cli.main import main
from partway.gateway.cli.process import signal_handlers_restored
from partway.gateway.client import ModelStreamFailed, PartwayError, PlatformStreamFailed, connect
from partway.gateway.fleet.launchers.process import Command
from partway.gateway.settings import settings
from partway.gateway.workbench.dev.changes import Changes
from tests.conftest import ROOT

needs_watchfiles = pytest.mark.skipif(
    importlib.util.find_spec("watchfiles") is None, reason="needs the extra dev"
)

#: Nothing here takes this long, in seconds.
PATIENCE = 40

MODEL = """
from partway.container import Model, Stream


class Chat(Model):
    async def stream(self, stream: Stream) -> None:
        print("streaming", stream.path)
        async for message in stream.messages():
            await stream.send(f"one {message}")
"""


class Dev:
    """A running ``partway dev``.

    Args:
        folder: where it runs; its log goes there too.
        words: of the command.
    """

    def __init__(self, folder: Path, *words: str) -> None:
        self._errors = folder / "errors.log"
        unwanted = ("PARTWAY_", "PYTHON")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "partway.gateway.cli.main", "dev", "--port", "0", *words],
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env=kept | {"PYTHONPATH": str(ROOT / "src")},
                process_group=0,
                text=True,
            )
        page, endpoint, container = (self.line().split()[1] for _ in range(3))
        self.url = page.removesuffix("/")
        assert endpoint.startswith(f"{self.url}/endpoints/")
        self.container = int(container.rpartition(":")[2])

    def line(self) -> str:
        """The next line of its output; pytest's timeout bounds it."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def errors_with(self, text: str) -> None:
        """Wait until its log has something."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.errors:
            assert time.monotonic() < deadline, self.errors
            time.sleep(0.02)

    def family(self) -> list[psutil.Process]:
        """It, and all that it has started."""
        process = psutil.Process(self.process.pid)
        return [process, *process.children(recursive=True)]

    def ended(self) -> int:
        """Wait for the end; its exit status."""
        return self.process.wait(PATIENCE)

    def say(self, text: str, name: str = "model") -> str:
        """What the model answers to one message, on a stream of its own."""

        async def talk() -> str:
            async with asyncio.timeout(PATIENCE), connect(self.url, name) as stream:
                await stream.send_text(text)
                part = await stream.receive()
                assert part is not None
                return part.payload.decode()

        return asyncio.run(talk())


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it went between the two
        return False


def all_gone(processes: list[psutil.Process]) -> None:
    """Wait until none of them runs; a zombie is its parent's affair."""
    deadline = time.monotonic() + PATIENCE
    while left := [each for each in processes if runs(each)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def replace_unnoticed(file: Path, text: str) -> None:
    """Write a file anew, with the time it had: what Python may have kept of it looks fresh."""
    before = file.stat()
    assert len(text.encode()) == before.st_size
    beside = file.with_suffix(".new")
    beside.write_text(text)
    os.utime(beside, ns=(before.st_atime_ns, before.st_mtime_ns))
    beside.replace(file)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Dev]]:
    """Starts the command in a folder with ``model.py``."""
    started: list[Dev] = []
    (tmp_path / "model.py").write_text(MODEL)

    def start(*words: str) -> Dev:
        dev = Dev(tmp_path, *words)
        started.append(dev)
        return dev

    yield start
    for dev in started:
        dev.process.kill()
        dev.process.communicate()


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path):
    """Runs a command that does not start, in this process: status and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str]:
        try:
            code = main(["dev", *words])
        except SystemExit as exit:  # argparse's
            code = exit.code
        output, errors = capsys.readouterr()
        assert output == ""
        return code, errors

    return run


# --- One model -----------------------------------------------------------------------------------


def test_gateway_container_and_page(start, tmp_path):
    (tmp_path / "container").mkdir()  # a folder of that name is the author's own business
    (tmp_path / "container" / "__init__.py").write_text("raise SystemExit('the wrong code')")
    dev = start("model:Chat", "--name", "chat")
    assert dev.line() == "ready"
    assert dev.say("hello", "chat") == "one hello"
    assert dev.line() == "streaming invocations-bidirectional-stream", "what the model prints"

    with urllib.request.urlopen(f"{dev.url}/", timeout=PATIENCE) as page:
        assert page.status == 200
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        text = page.read().decode()
    assert text.startswith("<!doctype html>")
    assert "<h1>model:Chat</h1>" in text
    assert 'data-endpoint="chat"' in text

    where = f"{dev.url}/endpoints/chat/invocations-bidirectional-stream".replace("http", "ws")
    with websocket(where, origin=dev.url) as own:
        own.send("mine")
        assert own.recv(PATIENCE) == "one mine"
    with pytest.raises(InvalidStatus, match="403"), websocket(where, origin="http://elsewhere"):
        pytest.fail("a stream opened")

    family = dev.family()
    assert len(family) == 3, "itself, the container, the leash"
    for process in family:
        for connection in process.net_connections("inet"):
            assert connection.laddr.ip == "127.0.0.1"
    os.killpg(dev.process.pid, signal.SIGINT)  # as a terminal's Ctrl-C
    assert dev.ended() == 0
    all_gone(family)
    assert "Traceback" not in dev.errors


def test_a_script_s_exception_is_shown(start, tmp_path):
    """Through the gateway, with the script's own lines; elsewhere its type alone is."""
    (tmp_path / "broken.py").write_text(
        "def model_fn(model_dir): return None\n"
        "def predict_fn(data, model):\n"
        "    return model[data.sum()]\n"
    )
    dev = start("--script", "broken.py")
    assert dev.line() == "ready"
    request = urllib.request.Request(f"{dev.url}/v1/models/model:predict", b'{"instances": [[1]]}')
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=PATIENCE)
    error = json.loads(refused.value.read())["error"]
    assert error.startswith("the model failed: TypeError: 'NoneType' object is not subscriptable\n")
    assert error.endswith("line 3, in predict_fn\n    return model[data.sum()]")


def test_an_open_stream_does_not_hold_the_end_up(start):
    dev = start("model:Chat")
    assert dev.line() == "ready"
    family = dev.family()

    async def stay() -> None:
        async with asyncio.timeout(PATIENCE), connect(dev.url, "model") as stream:
            await stream.send_text("hello")
            await stream.receive()
            dev.process.send_signal(signal.SIGTERM)
            with pytest.raises(PlatformStreamFailed, match="draining"):
                await stream.receive()

    began = time.monotonic()
    asyncio.run(stay())
    assert dev.ended() == 0
    assert time.monotonic() - began < 10, "no grace of 15 s"
    all_gone(family)


def test_killed_it_takes_the_container_along(start):
    dev = start()
    assert dev.line() == "ready"
    assert dev.say("hello") == "hello", "the model that ships"
    family = dev.family()
    dev.process.kill()
    all_gone(family)


# --- Reloading -----------------------------------------------------------------------------------


@needs_watchfiles
def test_from_a_broken_model_to_one_that_runs_and_on(start, tmp_path):
    file = tmp_path / "model.py"
    file.write_text("class Chat(\n")
    dev = start("model:Chat", "--reload")
    waits = "the container ended with status 1; waiting for a change of a .py file"
    dev.errors_with(waits)
    assert "SyntaxError" in dev.errors
    with pytest.raises(PartwayError, match="ModelError"):
        dev.say("too early")

    file.write_text(MODEL)
    assert [dev.line(), dev.line()] == ["reloading: model.py", "ready"]
    assert dev.say("hello") == "one hello"
    assert dev.line().startswith("streaming")
    port = dev.container

    async def stay_while_it_changes() -> None:
        async with asyncio.timeout(PATIENCE), connect(dev.url, "model") as stream:
            await stream.send_text("hello")
            await stream.receive()
            replace_unnoticed(file, MODEL.replace('"one ', '"two '))
            with pytest.raises(ModelStreamFailed) as caught:
                await stream.receive()
            assert caught.value.code == "1001"
            assert caught.value.reconnect

    began = time.monotonic()
    asyncio.run(stay_while_it_changes())
    assert time.monotonic() - began < 10, "the stream had no grace of 15 s"
    assert dev.line().startswith("streaming")
    assert [dev.line(), dev.line()] == ["reloading: model.py", "ready"]
    assert dev.say("hello") == "two hello"
    with socket.create_connection(("127.0.0.1", port)):
        pass  # still the same one

    file.write_text(MODEL.replace("Chat", "Talk"))  # there is no such class any more
    assert dev.line().startswith("streaming")
    assert dev.line() == "reloading: model.py"
    dev.errors_with("the container ended with status 2; waiting for a change")

    family = dev.family()
    os.killpg(dev.process.pid, signal.SIGINT)
    assert dev.ended() == 0
    all_gone(family)
    assert dev.errors.count(waits) == 1


# --- What goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "status", "says"),
    [
        ("nowhere:Chat", 2, "there is no module nowhere in "),
        ("model:Chat", 1, "ZeroDivisionError"),
    ],
)
def test_a_container_that_cannot_start(start, tmp_path, name, status, says):
    """Its own line says why, and is the last one."""
    (tmp_path / "model.py").write_text(MODEL + "\n    def load(self, _):\n        1 / 0\n")
    dev = start(name)
    assert dev.ended() == status
    last = [line for line in dev.errors.splitlines() if "partway.gateway" not in line][-1]
    assert last.startswith("partway-container: ")
    assert says in last


def test_a_port_in_use(refused):
    before = set(psutil.Process().children())  # some of other tests may end meanwhile
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, errors = refused("--port", str(port))
    assert code == 1
    assert errors.startswith(f"partway dev: cannot listen on 127.0.0.1:{port}: ")
    assert errors.endswith("; choose another with --port\n")
    assert set(psutil.Process().children()) <= before, "no container was started"


@needs_watchfiles
async def test_files_that_cannot_be_watched(anyio_backend, no_leaks, tmp_path, capfd):
    loaded = settings.load({"port": 0, "endpoints": ["model=http://127.0.0.1:1"]}, {})
    slow = Command(["/bin/sh", "-c", "sleep 1000"], port=1)
    with signal_handlers_restored():
        assert await develop(loaded, slow, Changes(tmp_path / "none"), "slow") == 1
    assert f"partway dev: {tmp_path}/none cannot be watched: " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--port", "70000"], "--port: 70000 was given; it must be a whole number from 0 to 65535"),
        (["--name", "a_b"], "'a_b' was given; an endpoint's name must be "),
        (["model:Chat", "--script", "x.py"], "not allowed with argument"),
        (["--app", "a:b", "--script", "x.py"], "not allowed with argument"),
        (["--log-level", "loud"], "--log-level"),
    ],
)
def test_flags_that_are_wrong(refused, words, says):
    code, errors = refused(*words)
    assert code == 2
    assert says in errors


def test_reload_without_its_package(refused, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "watchfiles" else find(name)
    )
    assert refused("--reload") == (
        2,
        "partway dev: --reload needs the package watchfiles: pip install 'partway[dev]'\n",
    )
