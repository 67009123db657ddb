"""partway invoke, run to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

from tests.conftest import ROOT

#: Nothing here takes this long, in seconds.
PATIENCE = 40


class Ended(NamedTuple):
    status: int
    output: bytes
    errors: str


def words(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "partway.gateway.cli.main", "invoke", *arguments]


def environment(gateway: str, **more: str) -> dict[str, str]:
    """The tests' own, without what would change the output or who asks."""
    unwanted = {"NO_COLOR", "PYTHONUNBUFFERED", "PARTWAY_TOKEN"}
    unwanted |= {"AWS_REGION", "AWS_DEFAULT_REGION", "SSL_CERT_FILE"}
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return kept | {"PARTWAY_URL": gateway, "PYTHONUTF8": "1"} | more


def invoked(gateway: str, *arguments: str, input: bytes = b"", **more: str) -> Ended:
    """Run the command against a gateway; ``more`` is its environment's."""
    process = subprocess.run(
        words(*arguments),
        input=input,
        capture_output=True,
        timeout=PATIENCE,
        env=environment(gateway, **more),
        check=False,
        cwd=ROOT,
    )
    assert b"Traceback" not in process.stderr, process.stderr.decode()
    return Ended(process.returncode, process.stdout, process.stderr.decode())
