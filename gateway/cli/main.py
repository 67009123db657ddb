"""``partway``: finds the command and runs it."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Final

COMMANDS: Final = ("serve", "invoke", "certs", "dev", "conform", "replay")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="partway", description="The open gateway for bidirectional model streams."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # The one that is asked for is all that is imported: the others take half a second.
    for name in given[:1] if set(given[:1]) & set(COMMANDS) else COMMANDS:
        importlib.import_module(f"gateway.cli.{name}").add_to(commands)
    options = parser.parse_args(given)
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
