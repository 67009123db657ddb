"""Commands that start containers, as they are written: their words, and which program is meant."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from partway.gateway.fleet.endpoints import Program

#: The commands of this installation.
_OURS: Final = frozenset({"partway", "partway-container"})


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

    ``partway`` and ``partway-container`` are those of this installation where the path has none:
    its folder is not on the path of somebody who runs ``.venv/bin/partway``.

    Args:
        words: program and arguments.
        folder: where it runs, and where a program's relative path with a slash begins; None for
            the gateway's own.
    """
    program, *arguments = words
    if "/" in program:
        program = program if folder is None else str(folder / program)
    elif program in _OURS and shutil.which(program) is None:
        beside = Path(sys.executable).with_name(program)
        program = str(beside) if beside.exists() else program
    return Program((program, *arguments), folder)
