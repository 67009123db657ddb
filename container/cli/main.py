"""``partway-container``: finds the command and runs it."""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections.abc import Sequence
from typing import NoReturn

from container.cli import new, serve
from container.cli.errors import CommandError

_PROG = "partway-container"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, without the usage above it; the status is argparse's."""
        self.exit(2, f"{_PROG}: {message}; see {self.prog} --help\n")


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"{_PROG} {importlib.metadata.version('partway')}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit status.

    0 after an orderly end, 1 when something failed, 2 when it was asked wrongly.
    """
    parser: argparse.ArgumentParser = _Parser(
        prog=_PROG, description="A model container for bidirectional streams."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="say which one this is")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve.add_to(commands)
    new.add_to(commands)
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
    except CommandError as error:
        print(f"{_PROG}: {error}", file=sys.stderr)
        return error.status
    return status


if __name__ == "__main__":
    sys.exit(main())
