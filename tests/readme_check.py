"""README.md from its top, each block as it stands, by a reader with an empty environment.

All blocks of commands run in one shell, as a reader pastes them into one terminal. A block without
a language is the output of the commands above it: its lines must come in their order, and any
number may stand for a number. A diagram is neither.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import ROOT

#: Seconds for all blocks: two environments are made, and the network may be slow.
PATIENCE: Final = 1200

#: Stands before the output of each block.
_MARK: Final = "\x1e"

#: Of ``make test`` this much: all of it runs beside this check.
_SOME_TESTS: Final = "tests/protocol/test_parts.py"

#: Any command that fails ends the walk. The jobs that run are ended, whatever happens.
_SHELL: Final = r"""
set -E
exec 2>&1
failed() { printf '%s\n' "README.md, line $block: status $1 of: $2"; }
trap 'failed "$?" "$BASH_COMMAND"; exit 1' ERR
trap 'trap - ERR; kill $(jobs -p) 2>/dev/null; wait' EXIT
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the page.

    Attributes:
        line: its first line's number.
        language: behind the fence; empty for what commands print.
        text: between the fences.
    """

    line: int
    language: str
    text: str


def blocks() -> Iterator[Block]:
    text = (ROOT / "README.md").read_text("utf-8")
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if found[1] != "mermaid":
            yield Block(text.count("\n", 0, found.start()) + 1, found[1], found[2])


def script(found: list[Block]) -> str:
    parts = [_SHELL]
    for block in found:
        match block.language:
            case "sh":
                run = block.text
            case "python":
                run = f"cat >block.py <<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK\npython block.py\n"
            case "":
                continue
            case language:
                raise AssertionError(f"README.md, line {block.line}: how does {language} run?")
        parts.append(f"block={block.line}; printf '{_MARK}%s\\n' {block.line}\n{run}")
    return "".join(parts)


def environment(home: Path) -> dict[str, str]:
    """A home, the oldest Python, and how pip reaches its registry on this machine; nothing else."""
    python = Path(sys.executable).resolve().parent
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.lower().endswith("_proxy")
    }
    return kept | {
        "HOME": str(home),
        "PATH": f"{home / 'bin'}:{python}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTEST_ARGS": _SOME_TESTS,
    }


def checkout(folder: Path) -> None:
    """Copy what git knows, as it lies here."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).is_symlink() or (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


def missing(expected: str, output: str) -> str | None:
    """The first expected line that the output lacks, in order."""
    lines = iter(output.splitlines())
    for line in filter(str.strip, expected.splitlines()):
        pattern = re.sub(r"\d+", r"\\d+", re.escape(line.strip()))
        if not any(re.fullmatch(pattern, each.strip()) for each in lines):
            return line
    return None


@pytest.mark.timeout(PATIENCE + 60)
def test_each_block_works_as_it_stands(tmp_path):
    folder, home = tmp_path / "partway", tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python3").symlink_to(sys.executable)
    checkout(folder)
    found = list(blocks())
    with subprocess.Popen(
        ["bash", "-c", script(found)],
        cwd=folder,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            output, _ = shell.communicate(timeout=PATIENCE)
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, output[-4000:]
    printed = {}
    for section in output.split(_MARK)[1:]:
        line, _, text = section.partition("\n")
        printed[int(line)] = text
    ran = 0
    for block in found:
        if block.language:
            ran = block.line
        elif (line := missing(block.text, printed[ran])) is not None:
            pytest.fail(f"README.md, line {block.line}: {line!r} was not printed:\n{printed[ran]}")
