"""partway serve, ended by SIGKILL: its containers end with it, and it can be started again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT
from tests.processes import ready_url

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60

CONTAINER = ROOT / "tests" / "gateway" / "faulty_container.py"

#: The containers do not care for SIGTERM, so that there is a moment of the way down to hit.
FILE = """
data_dir = "{folder}/data"

[endpoints.a]
command = ["{python}", "-S", "{container}", "stubborn", "{folder}"]
instances = 2
environment = {{ VERSION = "{version}" }}

[endpoints.b]
command = ["{python}", "-S", "{container}", "stubborn", "{folder}"]
instances = 2
stop_timeout = 0.1  # the others have a while longer
"""


class Gateway:
    """A gateway of that file, with what it has started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(version=1)
        self.process: subprocess.Popen[bytes]

    def write(self, version: int) -> None:
        names = {"folder": self.folder, "container": CONTAINER, "python": sys.executable}
        (self.folder / "partway.toml").write_text(FILE.format(version=version, **names))

    def start(self) -> None:
        config = self.folder / "partway.toml"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "partway", "serve", "--port", "0", "--config", config],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if not k.startswith("PARTWAY_")},
        )

    def containers(self) -> list[int]:
        return [
            each.pid
            for each in psutil.process_iter(["cmdline", "status"])
            if str(self.folder) in (each.info["cmdline"] or ())
            and each.info["status"] != psutil.STATUS_ZOMBIE
        ]

    def until(self, condition: Callable[[int], bool]) -> None:
        """Wait for a number of containers that nothing tells of."""
        deadline = time.monotonic() + PATIENCE
        while not condition(len(self.containers())):
            assert time.monotonic() < deadline, f"containers: {self.containers()}"
            time.sleep(0.01)

    def kill(self) -> None:
        time.sleep(random.uniform(0, 0.05))  # any moment will do
        self.process.kill()
        self.process.communicate()
        self.until(lambda count: count == 0)


@pytest.fixture
def gateway(tmp_path):
    gateway = Gateway(tmp_path)
    gateway.start()
    yield gateway
    gateway.process.kill()
    gateway.process.communicate()


def test_whatever_it_does_its_containers_end_and_it_comes_up_again(gateway):
    gateway.until(lambda count: count > 0)
    gateway.kill()  # while they start

    gateway.start()
    ready_url(gateway.process, PATIENCE)
    assert len(gateway.containers()) == 4
    gateway.write(version=2)
    gateway.process.send_signal(signal.SIGHUP)
    gateway.until(lambda count: count > 4)
    gateway.kill()  # while an endpoint changes

    gateway.start()
    ready_url(gateway.process, PATIENCE)
    gateway.process.send_signal(signal.SIGTERM)
    gateway.until(lambda count: count < 4)
    gateway.kill()  # while they are stopped

    gateway.start()
    ready_url(gateway.process, PATIENCE)
    assert len(gateway.containers()) == 4
