"""Commands that start containers, as they are written: their words, and where they run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from partway.gateway.fleet.endpoints import Program


def command_words(text: str) -> tuple[str, ...]:
    """The words of a command, as a shell would part them; nothing else of a shell's is done.

    Raises:
        ValueError: a quotation mark is left open, or there is no program.
    """
    words = tuple(shlex.split(text))
    check_words(words)
    return words


def check_words(words: Sequence[str]) -> None:
    """Refuse words of which no system can start a program.

    Raises:
        ValueError: there are none, the first is empty, or one has a zero byte.
    """
    if not words or not words[0]:
        raise ValueError("there is no program in it")
    if any("\0" in word for word in words):
        raise ValueError("it has a zero byte")


def program_of(words: Sequence[str], folder: Path | None = None) -> Program:
    """A command as what it starts.

    Args:
        words: program and arguments.
        folder: where it runs, and where a program's relative path with a slash begins; None for
            the gateway's own.
    """
    program, *arguments = words
    if "/" in program and folder is not None:
        program = str(folder / program)
    return Program((program, *arguments), folder)
