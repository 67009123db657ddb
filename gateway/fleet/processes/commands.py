"""Commands that start containers: their words, and where they run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from partway.gateway.fleet.endpoint import Program

#: Stands in a command for the port on which its program must listen.
PORT_PLACEHOLDER: Final = "{port}"


def command_words(text: str) -> tuple[str, ...]:
    """Split a command into words as a shell does; nothing is expanded.

    Raises:
        ValueError: a quotation mark is left open, or there is no program.
    """
    words = tuple(shlex.split(text))
    check_words(words)
    return words


def check_words(words: Sequence[str]) -> None:
    """Refuse words that no system can start.

    Raises:
        ValueError: there are no words, the first is empty, or a word has a zero byte.
    """
    if not words or not words[0]:
        raise ValueError("there is no program in it")
    if any("\0" in word for word in words):
        raise ValueError("it has a zero byte")


def program_of(words: Sequence[str], folder: Path | None = None) -> Program:
    """Return the program that a command starts.

    ``folder`` is the working directory, and the base of a program's relative path with a slash;
    None stands for the gateway's own.
    """
    program, *arguments = words
    if "/" in program and folder is not None:
        program = str(folder / program)
    return Program((program, *arguments), folder)


def with_port(words: Sequence[str], port: int) -> tuple[str, ...]:
    """Replace each ``{port}`` by the port; other braces stay as they are."""
    return tuple(word.replace(PORT_PLACEHOLDER, str(port)) for word in words)
