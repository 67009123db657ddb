"""Variables in commands, which no shell expands: warnings, and what to write instead."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from partway.gateway.fleet.endpoint import Program, Source, Variant
from partway.gateway.fleet.processes.commands import PORT_PLACEHOLDER
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")

#: The log line for a variable that a program gets as it is written.
NOT_EXPANDED: Final = "a variable in a command is not expanded"

#: A variable as shells write it, ``$NAME`` or ``${NAME…}``.
_VARIABLE: Final = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)[^}]*\})")

#: Programs that expand variables in the word after their option ``-c``.
_SHELLS: Final = frozenset({"sh", "ash", "bash", "dash", "fish", "ksh", "mksh", "zsh"})
_SCRIPT_OPTION: Final = re.compile(r"-[A-Za-z]*c[A-Za-z]*")

#: Variables that hold a port: SageMaker's, Vertex AI's, Cloud Run's, and others by custom.
_PORT_NAME: Final = re.compile(r"SAGEMAKER_BIND_TO_PORT|(?:[A-Z0-9_]+_)?PORT")


def unexpanded_variables(words: Sequence[str]) -> Iterator[str]:
    """Say for each ``$NAME`` that the program gets it unexpanded, and what to write instead.

    A shell's own script (``sh -c '…'``) is left out: the shell expands it.
    """
    script = _script_of(words)
    literal = (word for at, word in enumerate(words) if at != script)
    named = {
        found[0]: found[1] or found[2] for word in literal for found in _VARIABLE.finditer(word)
    }
    for written, name in named.items():
        instead = (
            f"write {PORT_PLACEHOLDER}, which stands for the port"
            if _PORT_NAME.fullmatch(name)
            else "write its value, or have a shell expand it: sh -c 'exec …'"
        )
        yield f"no shell expands {written}, so the program gets it as written: {instead}"


def warn_of_variables(endpoint: str, variant: Variant) -> None:
    sources: list[Source] = [each.source for each in variant.containers]
    for source in sources or [variant.source]:
        if isinstance(source, Program):
            for reason in unexpanded_variables(source.command):
                whose = {"endpoint": endpoint, "variant": variant.name}
                log.warning(LogLine(NOT_EXPANDED, **whose, reason=reason))


def _script_of(words: Sequence[str]) -> int | None:
    """Return the index of the word that a shell of the command runs as a script, else None.

    The words after it are the script's arguments, which no shell expands.
    """
    shells = (at for at, word in enumerate(words) if Path(word).name in _SHELLS)
    shell = next(shells, len(words))
    behind = range(shell + 1, len(words))
    option = next((at for at in behind if _SCRIPT_OPTION.fullmatch(words[at])), len(words))
    return next((at for at in behind if at > option and not words[at].startswith("-")), None)
