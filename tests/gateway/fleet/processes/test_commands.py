"""partway.gateway.fleet.processes.commands: the words of a command, and which program is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.gateway.fleet.endpoint import Program
from partway.gateway.fleet.processes.commands import (
    command_words,
    program_of,
    with_port,
)


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


@pytest.mark.parametrize(
    ("words", "expanded"),
    [
        (("uvicorn", "app:app", "--port", "{port}"), ("uvicorn", "app:app", "--port", "8123")),
        (("serve", "--bind=0.0.0.0:{port}"), ("serve", "--bind=0.0.0.0:8123")),
        (("sh", "-c", "exec a {port} {port}"), ("sh", "-c", "exec a 8123 8123")),
        (("a", '{"port": 1, "b": {}}', "{PORT}", "{ port }", "{port:d}", "{0}"), None),
        (("a", '{"listen": {port}}', "{{port}}"), ("a", '{"listen": 8123}', "{8123}")),
    ],
)
def test_the_port_takes_the_place_of_its_exact_text_alone(words, expanded):
    assert with_port(words, 8123) == (words if expanded is None else expanded)
