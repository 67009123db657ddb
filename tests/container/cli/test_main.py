"""partway.container.cli.main: finding a command, and no more than that."""

from __future__ import annotations

import subprocess
import sys

import pytest

from partway.container.cli import COMMANDS
from partway.container.cli.main import main


def test_the_command_alone_prints_its_help(capsys):
    assert main([]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("usage: partway-container ")
    assert "\n    serve " in said.out
    assert said.err == ""


def loaded_by(*words: str) -> set[str]:
    """Which modules the command has imported by its end."""
    code = (
        f"import sys\nfrom partway.container.cli.main import main\n"
        f"try: main({list(words)!r})\nexcept SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stderr.split())


def commands_of(modules: set[str]) -> set[str]:
    return {name for name in COMMANDS if f"partway.container.cli.{name}" in modules}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_no_other_one(name):
    assert commands_of(loaded_by(name, "--help")) == {name}


@pytest.mark.parametrize("words", ["--help", "--version"])
def test_who_asks_for_no_command_waits_for_none(words):
    modules = loaded_by(words)
    assert commands_of(modules) == set()
    # What an author imports, ``partway.container``, brings asyncio.
    assert modules & {"aiohttp", "numpy"} == set()


def test_a_command_is_found_behind_other_words():
    """``--`` before it changes nothing: its flags are those that it has."""
    assert commands_of(loaded_by("--", "serve", "--help")) == {"serve"}


def test_no_models_start_waits_for_what_few_ask_for():
    modules = loaded_by("serve", "--help")
    few = {
        "cryptography",
        "google",
        "h2",
        "numpy",
        "orjson",
        "prometheus_client",
        "pydantic",
        "uvicorn",
    }
    assert modules & few == set()
    assert not any(each.startswith("partway.gateway.") for each in modules)
