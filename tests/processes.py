"""The project's commands as processes of their own."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def running(
    *command: str, expected_status: int = 0, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """``python -m COMMAND …``, which prints ``listening on URL``; gives the URL.

    Ends it with SIGTERM, and holds it to its exit status.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    try:
        yield ready_url(process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=40)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == expected_status, errors.decode()


def ready_url(process: subprocess.Popen[bytes], timeout: float = 50) -> str:
    """Wait for the ready line."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(timeout):
            raise TimeoutError("no ready line")
    line = os.read(process.stdout.fileno(), 4096).decode()
    if line.startswith("{"):
        assert json.loads(line)["event"] == "listening", line
        return str(json.loads(line)["url"])
    assert line.startswith("listening on "), line
    return line.split()[-1]
