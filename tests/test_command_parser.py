"""partway.command_parser: an error in a command's words is shown with that command's usage."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import pytest

from partway.container.cli import COMMANDS as OF_CONTAINER
from partway.gateway.cli import COMMANDS as OF_GATEWAY

MAINS = {"partway": "partway.gateway.cli.main", "partway-container": "partway.container.cli.main"}

#: Words that each command needs before an unknown one is looked at.
NEEDED = {
    **{name: ["a"] for name in ("backup", "restore", "delete", "logs", "invoke", "new", "inspect")},
    "replay": ["a", "--container", "http://127.0.0.1:1"],
    "deploy": ["a", "--image", "b"],
}


def refused(capsys: pytest.CaptureFixture[str], program: str, *words: str) -> str:
    """What a program says of its words."""
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(MAINS[program]).main(list(words))
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


@pytest.mark.parametrize("command", OF_GATEWAY)
def test_an_unknown_flag_of_a_command_of_the_gateway(capsys, command):
    said = refused(capsys, "partway", command, *NEEDED.get(command, ()), "--nope")
    assert said.startswith(f"usage: partway {command} ")
    assert f"\npartway {command}: error: " in said


@pytest.mark.parametrize("command", OF_CONTAINER)
def test_an_unknown_flag_of_a_command_of_the_container(capsys, command):
    said = refused(capsys, "partway-container", command, *NEEDED.get(command, ()), "--nope")
    assert said.endswith(f"; see partway-container {command} --help\n")


@pytest.mark.parametrize(
    ("words", "usage", "why"),
    [
        (["endpoints", "echo"], "partway endpoints restart NAME", "'echo'"),
        (["endpoints", "restart", "echo", "--nope"], "partway endpoints restart [-h]", "--nope"),
        (["endpoints", "restart"], "partway endpoints restart [-h]", "NAME"),
        (["wait", "a", "b"], "partway wait [-h]", "unrecognized arguments: b"),
        (["--nope"], "partway [-h]", "--nope"),
    ],
    ids=str,
)
def test_the_usage_is_that_of_the_command_that_was_meant(capsys, words, usage, why):
    said = refused(capsys, "partway", *words)
    assert usage in said
    assert why in said.splitlines()[-1]


def test_in_json_the_command_is_named_too():
    words = ("serve", "--log-format", "json", "--nope")
    done = subprocess.run(
        [sys.executable, "-m", MAINS["partway"], *words],
        capture_output=True,
        check=False,
        timeout=60,
    )
    said = json.loads(done.stderr)
    assert (done.returncode, said["command"]) == (2, "partway serve")
    assert said["reason"] == "unrecognized arguments: --nope; see partway serve --help"
