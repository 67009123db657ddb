"""``partway``: finds the command and runs it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from partway import __version__
from partway.command_parser import CommandParser
from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.importing import import_to_stay
from partway.log_lines import format_of_log, say_failure, start_logging_as_asked
from partway.variables import unknown_variables

#: Commands that read variables, or pass them on to a container that they start.
_READERS: Final = frozenset(
    {"serve", "wait", "deploy", "delete", "endpoints", "logs", "invoke", "transform", "kubeconfig"}
    | {"backup", "restore", "operator", "fetch", "dev", "conform"}
)

_PROG: Final = "partway"


class _Parser(CommandParser):
    """A parser whose errors have the form of the log."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line, and exit with status 2."""
        if format_of_log() == "json":
            say_failure(self.prog, f"{message}; see {self.prog} --help")
            self.exit(2)
        super().error(message)


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    command = next((word for word in given if word in COMMANDS), None)
    if command in ("serve", "operator"):
        start_logging_as_asked(given, os.environ)
    parser = _parser(command)
    options = parser.parse_args(given)
    if options.command is None:
        parser.print_help()
        return 0
    if options.command in _READERS and (unknown := unknown_variables(os.environ)):
        say_failure(f"{_PROG} {options.command}", unknown)
        return 2
    status: int = options.run(options)
    return status


def _parser(*asked: str | None) -> argparse.ArgumentParser:
    """Make the parser of all commands, with the flags of those that are named.

    Only these are imported, since a command takes up to a third of a second.
    """
    parser: argparse.ArgumentParser = _Parser(
        prog=_PROG,
        description="The open gateway for bidirectional model streams.",
        epilog=f"documentation: {page('README.md')}",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"{_PROG} {__version__}",
        help="print the version and exit",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        if name in asked:
            import_to_stay(f"partway.gateway.cli.{name}").add_to(commands)
        else:
            commands.add_parser(name, help=purpose)
    if asked == (None,) or len(asked) > 1:  # else another command runs
        from partway import completion

        completion.add_to(commands, lambda: _parser(*COMMANDS), prog=_PROG)
    return parser


if __name__ == "__main__":
    sys.exit(main())
