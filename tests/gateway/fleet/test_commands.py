"""partway.gateway.fleet.commands: the words of a command, and which program is meant."""

from __future__ import annotations

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
