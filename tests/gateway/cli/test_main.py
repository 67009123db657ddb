"""partway.gateway.cli.main: finding a command, and no more than that."""

from __future__ import annotations

import subprocess
import sys

import pytest

from partway import __version__
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.main import main


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"partway {__version__}\n"


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert [name for name in (*COMMANDS, "completion") if f"\n    {name}" not in text] == []


def test_the_command_alone_prints_its_help(capsys):
    assert main([]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("usage: partway ")
    assert "\n    serve " in said.out
    assert said.err == ""


@pytest.mark.parametrize("words", [["sreve"], ["--port", "1"]], ids=str)
def test_what_is_no_command(capsys, words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "usage: partway" in capsys.readouterr().err


def loaded_by(*words: str) -> set[str]:
    """Which modules the command has imported by its end."""
    code = (
        f"import sys\nfrom partway.gateway.cli.main import main\n"
        f"try: main({list(words)!r})\nexcept SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stderr.split())


def commands_of(modules: set[str]) -> set[str]:
    return {name for name in COMMANDS if f"partway.gateway.cli.{name}" in modules}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_no_other_one(name):
    assert commands_of(loaded_by(name, "--help")) == {name}


@pytest.mark.parametrize("words", ["--help", "--version"])
def test_who_asks_for_no_command_waits_for_none(words):
    modules = loaded_by(words)
    assert commands_of(modules) == set()
    assert modules & {"asyncio", "ssl", "aiohttp", "numpy"} == set()


def test_a_command_is_found_behind_other_words():
    """``--`` before it changes nothing: its flags are those that it has."""
    assert commands_of(loaded_by("--", "serve", "--help")) == {"serve"}


#: What is imported by who asks for it, and by no gateway's start: a command's help has imported all
#: that its start does, but for what its settings call for.
ASKED_FOR = ("aiohttp", "cryptography", "partway.gateway.workbench", "pydantic")


@pytest.mark.parametrize("name", ASKED_FOR)
def test_no_gateways_start_waits_for_what_few_ask_for(name, imported_by_serve):
    assert [each for each in imported_by_serve if f"{each}.".startswith(f"{name}.")] == []


@pytest.fixture(scope="module")
def imported_by_serve() -> set[str]:
    return loaded_by("serve", "--help")
