"""``partway-container inspect``: describe a file of records, and find its first fault."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from partway.container.cli import COMMANDS
from partway.container.cli.record_flags import add_reading

if TYPE_CHECKING:
    # argparse has no public name for what add_subparsers() returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "inspect",
        help=COMMANDS["inspect"],
        description="Show a file's type, its number of records and features, and its first fault.",
    )
    add_reading(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status: 1 if the file has a fault.

    Raises:
        CommandError: the file cannot be read, or its type is unknown.
    """
    from partway.container.cli.inspection import inspect  # numpy, which other commands do not need

    rows, is_whole = inspect(options)
    print("\n".join(f"{name:<14}{value}" for name, value in rows))
    return 0 if is_whole else 1
