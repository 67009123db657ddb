"""``partway-container``: find the command and run it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from partway import __version__, completion
from partway.command_parser import CommandParser
from partway.container.cli import COMMANDS, CommandError
from partway.documentation import page
from partway.importing import import_to_stay
from partway.log_lines import say_failure, start_logging_as_asked

_PROG = "partway-container"


class _Parser(CommandParser):
    def error(self, message: str) -> NoReturn:
        """Report an error in one line, without the usage text; the status is argparse's."""
        say_failure(_PROG, f"{message}; see {self.prog} --help")
        self.exit(2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the process's exit status.

    The status is 0 after an orderly end, 1 after a failure, 2 for wrong usage.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = next((word for word in given if word in COMMANDS), None)
    program: list[str] = []
    if command == "serve":
        start_logging_as_asked(given, os.environ)
        given, program = _split(given)
    parser = _parser(command)
    options = parser.parse_args(given, argparse.Namespace(program=program))
    if options.command is None:
        parser.print_help()
        return 0
    try:
        status: int = options.run(options)
    except CommandError as error:
        say_failure(_PROG, str(error))
        return error.status
    return status


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Split a command line at ``--``: the command's own words, and another program's."""
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end + 1 :]


def _parser(*asked: str | None) -> argparse.ArgumentParser:
    """Make the parser of all commands, with the flags of the named ones.

    Only the named commands are imported.
    """
    parser: argparse.ArgumentParser = _Parser(
        prog=_PROG,
        description="A model container for bidirectional streams.",
        epilog=f"documentation: {page('README.md')}",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"{_PROG} {__version__}",
        help="print the version",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        if name in asked:
            import_to_stay(f"partway.container.cli.{name}").add_to(commands)
        else:
            commands.add_parser(name, help=purpose)
    completion.add_to(commands, lambda: _parser(*COMMANDS), prog=_PROG)
    return parser


if __name__ == "__main__":
    sys.exit(main())
