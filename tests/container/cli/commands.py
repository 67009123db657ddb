"""``partway-container serve`` as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import ROOT
from tests.processes import ready_url

#: Nothing here takes this long, in seconds.
PATIENCE = 40

#: What configures the command.
_SETTINGS = ("PARTWAY_", "SM_MODEL_DIR", "SAGEMAKER_")


def environment(**settings: str) -> dict[str, str]:
    """This environment without what configures the command, but for these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
    return kept | settings


@contextmanager
def started(*flags: str, cwd: Path = ROOT, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command on a free port of this machine; killed at the end."""
    # -P: the current folder is on Python's path only if the command puts it there.
    words = [sys.executable, "-P", "-m", "partway.container", "serve", "--host", "127.0.0.1"]
    if "SAGEMAKER_BIND_TO_PORT" not in settings and "--port" not in flags:
        words += ["--port", "0"]
    with subprocess.Popen(
        [*words, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=environment(**settings),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving(
    *flags: str, cwd: Path = ROOT, **settings: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The command once it is ready; gives the process and its port."""
    with started(*flags, cwd=cwd, **settings) as process:
        yield process, int(ready_url(process).rsplit(":", 1)[1])


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """Wait for the end: status, standard output since the ready line, standard error."""
    output, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, output.decode(), errors.decode()


def until_logged(process: subprocess.Popen[bytes], text: str) -> list[str]:
    """Read the log up to the line that has a text; gives the lines."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line.decode())
        if text in lines[-1]:
            return lines
    raise AssertionError(f"{text!r} is not in the log: {lines}")
