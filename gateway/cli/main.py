"""``partway``: finds the command and runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gateway.cli import certs, conform, dev, invoke, replay, serve


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit status."""
    parser = argparse.ArgumentParser(
        prog="partway", description="The open gateway for bidirectional model streams."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve.add_to(commands)
    invoke.add_to(commands)
    certs.add_to(commands)
    dev.add_to(commands)
    conform.add_to(commands)
    replay.add_to(commands)
    options = parser.parse_args(arguments)
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
