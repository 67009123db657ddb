"""``partway-container inspect``: what a file of records is, and where it breaks."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from partway.container.cli import COMMANDS
from partway.container.cli.record_flags import add_reading

if TYPE_CHECKING:
    # argparse has no public name for what add_subparsers() returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001


def add_to(commands: Commands) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "inspect",
        help=COMMANDS["inspect"],
        description="Say what a file of records is: its format, how many records, of what.",
    )
    add_reading(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns its exit status: 1 where the file breaks.

    Raises:
        CommandError: the file cannot be read, or nobody says what it is.
    """
    from partway.container.cli.inspection import inspect  # numpy, which other commands do without

    rows, is_whole = inspect(options)
    print("\n".join(f"{name:<14}{value}" for name, value in rows))
    return 0 if is_whole else 1
