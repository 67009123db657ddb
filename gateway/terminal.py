"""Consoles for tables: a terminal, or the log of a CI job."""

from __future__ import annotations

from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

#: Width of tables outside a terminal: logs have the same lines everywhere.
PLAIN_WIDTH: Final = 120


def console_for(file: TextIO, plain_width: int = PLAIN_WIDTH) -> Console:
    """Make a console; outside a terminal it is plain, without colours and of one width."""
    if file.isatty():
        return Console(file=file, highlight=False)
    return Console(
        file=file, highlight=False, width=plain_width, force_terminal=False, color_system=None
    )


def print_line(console: Console, line: Text) -> None:
    """Print one line as it is, whatever the console's width."""
    console.print(line, soft_wrap=True)
