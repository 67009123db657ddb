"""``partway-container``: finds the command and runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from partway import __version__, completion
from partway.container.cli import convert, inspect, new, serve
from partway.container.cli.errors import CommandError
from partway.documentation import page
from partway.log_lines import say_failure

_PROG = "partway-container"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, without the usage above it; the status is argparse's."""
        self.exit(2, f"{_PROG}: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit status.

    0 after an orderly end, 1 when something failed, 2 when it was asked wrongly.
    """
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except CommandError as error:
        say_failure(_PROG, str(error))
        return error.status
    return status


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog=_PROG,
        description="A model container for bidirectional streams.",
        epilog=f"documentation: {page('README.md')}",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"{_PROG} {__version__}",
        help="say which one this is",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve.add_to(commands)
    new.add_to(commands)
    convert.add_to(commands)
    inspect.add_to(commands)
    completion.add_to(commands, _parser, prog=_PROG)
    return parser


if __name__ == "__main__":
    sys.exit(main())
