"""partway.completion: each shell completes what the commands know."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from partway.completion import SHELLS
from partway.container.cli.main import main as container_main
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.main import main as gateway_main

MAINS = {"partway": gateway_main, "partway-container": container_main}


@pytest.fixture
def script(capsys, tmp_path):
    def made(prog: str, shell: str) -> Path:
        assert MAINS[prog](["completion", shell]) == 0
        path = tmp_path / f"{prog}.{shell}"
        path.write_text(capsys.readouterr().out)
        return path

    return made


def asked(shell: str, code: str, *arguments: str | Path) -> list[str]:
    """What a shell prints for a piece of code, in lines."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [shell, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


#: Completes the last of the words after the script's name, as bash does at a TAB.
BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
complete -p "$1" >&3
"$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\) .*/\\1/')" "$1" "${!#}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def in_bash(script: Path, *words: str) -> list[str]:
    return asked("bash", f"exec 3>/dev/null; {BASH}", "bash", script, *words)


def in_fish(script: Path, *words: str) -> list[str]:
    lines = asked("fish", f"source {script}; complete -C '{' '.join(words)}'")
    return [line.partition("\t")[0] for line in lines]


COMPLETES = {"bash": in_bash, "fish": in_fish}


@pytest.mark.parametrize("shell", COMPLETES)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("partway", "inv"), ["invoke"]),
        (("partway", "serve", "--end"), ["--endpoint"]),
        (("partway", "completion", "f"), ["fish"]),
        (("partway-container", "n"), ["new"]),
        (("partway-container", "serve", "--mod"), ["--model", "--model-dir"]),
    ],
    ids=" ".join,
)
def test_words_are_completed(script, shell, words, expected):
    assert sorted(COMPLETES[shell](script(words[0], shell), *words)) == expected


@pytest.mark.parametrize("prog", MAINS)
@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one_that_the_shell_takes(script, prog, shell):
    path = script(prog, shell)
    assert asked(shell, f"{shell} -n {path}") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_in_it(script, shell):
    text = script("partway", shell).read_text()
    assert [command for command in COMMANDS if command not in text] == []


def test_a_shell_that_is_not_known(capsys):
    with pytest.raises(SystemExit) as ended:
        gateway_main(["completion", "csh"])
    assert ended.value.code == 2
    assert "choose from" in capsys.readouterr().err
