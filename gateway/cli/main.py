"""``partway``: finds the command and runs it."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from partway import __version__, completion
from partway.documentation import page
from partway.log_lines import say_failure, start_logging_as_asked
from partway.variables import unknown_variables

COMMANDS: Final = (
    *("serve", "deploy", "delete", "endpoints", "logs"),
    *("invoke", "transform", "certs", "kubeconfig", "dev", "conform", "replay"),
)

#: Those that read variables, or hand them on to a container that they start.
_READERS: Final = frozenset(
    {"serve", "deploy", "delete", "endpoints", "logs", "invoke", "transform", "kubeconfig"}
    | {"dev", "conform"}
)

_PROG: Final = "partway"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    # The one that is asked for is all that is imported: the others take half a second.
    known = given[:1] if set(given[:1]) & set(COMMANDS) else COMMANDS
    options = _parser(known).parse_args(given)
    if options.command == "serve":
        start_logging_as_asked(getattr(options, "log_format", None), os.environ)
    if options.command in _READERS and (unknown := unknown_variables(os.environ)):
        say_failure(f"{_PROG} {options.command}", unknown)
        return 2
    status: int = options.run(options)
    return status


def _parser(names: Iterable[str]) -> argparse.ArgumentParser:
    """Make the parser of the commands of these names."""
    parser = argparse.ArgumentParser(
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
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in names:
        importlib.import_module(f"partway.gateway.cli.{name}").add_to(commands)
    completion.add_to(commands, lambda: _parser(COMMANDS), prog=_PROG)
    return parser


if __name__ == "__main__":
    sys.exit(main())
