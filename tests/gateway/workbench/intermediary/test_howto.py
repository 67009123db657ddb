"""docs/how-to/break-a-stream.md: its files are good, and its client gets what the page shows."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys

import pytest

from partway.gateway.workbench.intermediary.faults import FAULTS, Fault
from partway.gateway.workbench.intermediary.faults_file import load_faults
from tests.conftest import ROOT
from tests.processes import running

PAGE = (ROOT / "docs" / "how-to" / "break-a-stream.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


FILES = [block for block in blocks("toml") if block.startswith("# faults.toml\n")]


@pytest.mark.parametrize("block", FILES)
def test_its_files_are_good(block, tmp_path):
    file = tmp_path / "faults.toml"
    file.write_text(block, "utf-8")
    assert load_faults(file)


def test_its_table_has_every_fault_with_its_defaults():
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*?)\|", PAGE, re.MULTILINE))
    assert {name: row.strip() for name, row in rows.items() if name in FAULTS} == {
        name: documented(kind()) for name, kind in FAULTS.items()
    }


def documented(fault: Fault) -> str:
    shown = []
    for field in dataclasses.fields(fault):
        value = getattr(fault, field.name)
        number = isinstance(value, int | float)
        shown.append(f"`{field.name} = {value}`" if number else f"`{field.name}`")
    return ", ".join(shown)


def test_its_client_comes_again(tmp_path):
    faults = tmp_path / "faults.toml"
    faults.write_text(next(block for block in FILES if "refuse" in block), "utf-8")
    (program,) = blocks("python")
    with running("partway.container", "serve", "--host", "127.0.0.1", "--port", "0") as container:
        endpoint = f"echo={container}"
        flags = ["--port", "0", "--endpoint", endpoint, "--faults", str(faults)]
        with running("partway.gateway.cli.main", "serve", *flags) as url:
            process = subprocess.run(
                [sys.executable, "-c", program.replace("http://127.0.0.1:8090", url)],
                capture_output=True,
                timeout=50,
                check=False,
                cwd=ROOT,
            )
    assert process.returncode == 0, process.stderr.decode()
    assert process.stdout.decode() == blocks("")[-1]
