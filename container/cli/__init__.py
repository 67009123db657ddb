"""The commands of ``partway-container``, one module each; none is imported to say what there is."""

from __future__ import annotations

from typing import Final

#: What each command is for, by its name.
COMMANDS: Final = {
    "serve": "serve a model until SIGTERM",
    "new": "write a starter project",
    "convert": "write records in another format",
    "inspect": "say what a file of records is, and where it breaks",
}


class CommandError(Exception):
    """The command cannot do what it was asked; the text says what, where, and what to do.

    Attributes:
        status: the process's exit status: 2 where it was asked wrongly, 1 where something failed.
    """

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status
