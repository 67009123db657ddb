"""partway serve, as a process: endpoints whose containers it starts, by flags and by a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from websockets.sync.client import connect

from partway.gateway.limits import THREAD_SWITCH_INTERVAL
from tests.processes import ready_url

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60

FILE = """
data_dir = "kept"

[images]
"registry.example/chat:1" = "./chat --host 127.0.0.1"

[endpoints.ships]
image = "echo"

[endpoints.mapped]
image = "registry.example/chat:1"
environment = { GREETING = "hello" }
"""

SCRIPT = """\
#!/bin/sh
test "$GREETING" = hello || exit 3
exec "$PYTHON" -m partway.container serve --model echo "$@"
"""


def answer(url: str, endpoint: str) -> object:
    """What comes back of an echo, by a client that is not ours."""
    where = f"{url.replace('http', 'ws')}/endpoints/{endpoint}/invocations-bidirectional-stream"
    options = {"compression": None, "open_timeout": PATIENCE}
    with connect(where, subprotocols=["payloadpart.v1.raw"], **options) as stream:
        stream.send(endpoint)
        return stream.recv(PATIENCE)


def test_commands_and_images_are_started_and_stream_and_are_stopped(tmp_path: Path):
    script = tmp_path / "chat"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    (tmp_path / "partway.toml").write_text(FILE, "utf-8")
    words = [sys.executable, "-m", "partway", "serve", "--port", "0", "--config"]
    process = subprocess.Popen(
        [
            *words,
            tmp_path / "partway.toml",
            "--endpoint",
            "command=partway-container serve --host 127.0.0.1",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Without the folder of partway-container, as where nobody has activated the environment.
        env=os.environ | {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable},
    )
    try:
        url = ready_url(process, PATIENCE)
        for endpoint in ("ships", "mapped", "command"):
            assert answer(url, endpoint) == endpoint
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    stopped = [line for line in errors.decode().splitlines() if " instance stopped " in line]
    assert len(stopped) == 3


SAYS_INTERVAL = """
import atexit, os, pathlib, sys
interval = lambda: pathlib.Path(os.environ["SAID"]).write_text(str(sys.getswitchinterval()))
atexit.register(interval)
"""


def test_the_event_loop_gets_the_interpreter_soon(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(SAYS_INTERVAL)
    said = tmp_path / "said"
    process = subprocess.Popen(
        [sys.executable, "-m", "partway", "serve", "--port", "0"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "SAID": str(said)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        ready_url(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
    assert float(said.read_text()) == THREAD_SWITCH_INTERVAL
