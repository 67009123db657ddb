"""What ends a command in one line."""

from __future__ import annotations


class CommandError(Exception):
    """The command cannot do what it was asked; its text says what, where, and what to do.

    Attributes:
        status: the process's: 2 where it was asked wrongly, 1 where something failed.
    """

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status
