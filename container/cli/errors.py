"""What ends a command in one line."""

from __future__ import annotations


class CommandError(Exception):
    """The command cannot do what it was asked; the text says what, where, and what to do.

    Attributes:
        status: the process's exit status: 2 where it was asked wrongly, 1 where something failed.
    """

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status
