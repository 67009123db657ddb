"""The how-to's server behind the how-to's command, as processes."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from partway.container.cli.environment import VARIABLES
from partway.gateway.fleet.launchers.process import free_port
from tests.conftest import ROOT
from tests.container.cli.commands import ended, serving, started, until_logged
from tests.container.wire import STREAM
from tests.dockerfiles import Recipe

PAGE = (ROOT / "docs" / "how-to" / "bridge-a-websocket-server.md").read_text("utf-8")
(SERVER,) = re.findall(r"^```python\n# server\.py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
(COMMAND,) = re.findall(r"partway-container serve (--upstream \S+) .*-- python server\.py &", PAGE)
(RECIPE,) = re.findall(r"^```dockerfile\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def port(tmp_path: Path) -> int:
    """The port of the page's server, which lies in ``tmp_path``."""
    port = free_port()
    assert "8081" in SERVER
    (tmp_path / "server.py").write_text(SERVER.replace("8081", str(port)))
    return port


def test_the_server_is_started_serves_and_ends_with_its_bridge(tmp_path: Path, port: int) -> None:
    flags = COMMAND.replace("8081", str(port)).split()
    words = ("--", sys.executable, "server.py")
    with serving(*flags, *words, cwd=tmp_path) as (process, own):
        with connect(f"ws://127.0.0.1:{own}{STREAM}", compression=None) as stream:
            stream.send("hello")
            assert stream.recv() == "HELLO"
            stream.send([b"by", b"tes"])
            assert stream.recv() == b"BYTES"
        process.send_signal(signal.SIGTERM)
        status, _, errors = ended(process)
    assert status == 0, errors
    with pytest.raises(ConnectionRefusedError):
        connect(f"ws://127.0.0.1:{port}/")


def test_an_image_has_variables_and_its_container_ends_with_the_program(
    tmp_path: Path, port: int
) -> None:
    settings = Recipe(RECIPE).values("ENV")
    assert set(settings) == {"PARTWAY_UPSTREAM", "PARTWAY_UPSTREAM_PROGRAM"} <= VARIABLES
    settings["PARTWAY_UPSTREAM"] = settings["PARTWAY_UPSTREAM"].replace("8081", str(port))
    program = settings["PARTWAY_UPSTREAM_PROGRAM"].split()
    settings["PARTWAY_UPSTREAM_PROGRAM"] = shlex.join([sys.executable, *program[1:]])
    with serving(cwd=tmp_path, **settings) as (process, own):
        with connect(f"ws://127.0.0.1:{own}{STREAM}", compression=None) as stream:
            stream.send("x")
            assert stream.recv() == "X"
            pid = int(until_logged(process, "the program has started")[-1].rpartition("pid=")[2])
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(ConnectionClosed) as closed:
                stream.recv()
        status, _, errors = ended(process)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code in (1001, 1011)
    assert status == 1
    assert errors.splitlines()[-1].endswith("ended by SIGKILL, and the bridge with it")


def test_a_program_that_ends_at_once(tmp_path: Path) -> None:
    words = ("--upstream", "ws://127.0.0.1:9/", "--", sys.executable, "-c", "exit(3)")
    with started(*words, cwd=tmp_path) as process:
        status, _, errors = ended(process)
    assert status == 1
    assert "Traceback" not in errors
    assert errors.splitlines()[-1].endswith(
        "ended with status 3, before the upstream ws://127.0.0.1:9/ was up"
    )
