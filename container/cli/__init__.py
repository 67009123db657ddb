"""The commands of ``partway-container``, one module each; listing them imports none."""

from __future__ import annotations

from typing import Final

#: The purpose of each command, by name.
COMMANDS: Final = {
    "serve": "serve a model until SIGTERM",
    "new": "write a starter project",
    "convert": "write records in another format",
    "inspect": "show the format of a file of records, and its first fault",
}


class CommandError(Exception):
    """The command cannot do what it was asked; the text says what, where, and what to do.

    Attributes:
        status: the process's exit status: 2 for wrong usage, 1 for a failure.
    """

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status
