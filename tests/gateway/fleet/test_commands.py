"""partway.gateway.fleet.commands: the words of a command, and which program is meant."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from partway.gateway.fleet.commands import command_words, program_of
from partway.gateway.fleet.endpoints import Program


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("serve", ("serve",)),
        (" python3  -m model --name 'a b' ", ("python3", "-m", "model", "--name", "a b")),
        ("a $HOME | b > c; d &", ("a", "$HOME", "|", "b", ">", "c;", "d", "&")),
        ('a ""', ("a", "")),
    ],
)
def test_words_are_parted_as_by_a_shell_and_nothing_else_is_done(text, words):
    assert command_words(text) == words


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no program in it"),
        ("  ", "there is no program in it"),
        ("'' a", "there is no program in it"),
        ("a 'b", "No closing quotation"),
        ("a b\0c", "it has a zero byte"),
    ],
)
def test_what_is_no_command(text, why):
    with pytest.raises(ValueError, match=f"^{why}$"):
        command_words(text)


def test_a_program_s_relative_path_begins_at_the_folder():
    folder = Path("/srv/models")
    assert program_of(("./run", "./x"), folder) == Program(("/srv/models/run", "./x"), folder)
    assert program_of(("bin/run",), folder).command == ("/srv/models/bin/run",)
    assert program_of(("/bin/run",), folder).command == ("/bin/run",)
    assert program_of(("run",), folder) == Program(("run",), folder)
    assert program_of(("bin/run",)) == Program(("bin/run",), None)


@pytest.mark.parametrize("name", ["partway", "partway-container"])
def test_a_command_of_ours_is_found_beside_this_python(monkeypatch, tmp_path, name):
    """As where somebody runs .venv/bin/partway, and has not activated the environment."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    assert program_of((name, "serve")).command == (name, "serve")
    beside = tmp_path / "bin" / name
    beside.parent.mkdir()
    beside.touch(0o755)
    beside.with_name("other").touch(0o755)
    assert program_of((name, "serve")).command == (str(beside), "serve")
    assert program_of(("other",)).command == ("other",)
    monkeypatch.setenv("PATH", str(beside.parent))
    assert program_of((name, "serve")).command == (name, "serve")
