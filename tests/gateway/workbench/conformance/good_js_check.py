"""A container in JavaScript passes every check. Run by ``make interop-js``; needs node and npm."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from partway.gateway.workbench.conformance.verdict import Verdict
from tests.gateway.workbench.conformance.mutants.trying import failed, is_fast, tried

GOOD = Path(__file__).with_name("good")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: the container has its own."""
    return "asyncio"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The container in a folder with all that it imports."""
    npm = shutil.which("npm")
    assert npm, "this check needs node 20 or newer, with npm: apt-get install nodejs npm"
    where = tmp_path_factory.mktemp("on_ws")
    for name in ("package.json", "on_ws.mjs"):
        shutil.copy(GOOD / name, where)
    flags = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    subprocess.run([npm, "install", *flags], cwd=where, check=True, timeout=300)
    return where / "on_ws.mjs"


@pytest.mark.timeout(360)
async def test_every_check_passes_on_ws(program: Path) -> None:
    command = ("node", str(program))
    report = await tried(command)
    assert failed(report) == {}
    assert report.conformant
    assert await is_fast(report, command)


@pytest.mark.timeout(360)
async def test_it_ends_while_a_stream_is_open(program: Path) -> None:
    report = await tried(("node", str(program)), fast=False, only=["shutdown.streams"])
    assert failed(report) == {}
    assert report.results[-1].verdict is Verdict.PASS
