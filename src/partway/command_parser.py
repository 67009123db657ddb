"""The parser of a command line with commands of its own, such as ``partway serve``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


class CommandParser(argparse.ArgumentParser):
    """A parser that refuses unknown words itself, so that the usage shown is its command's.

    argparse hands the words that a command does not know to the parser above the command.
    """

    def parse_known_args(  # type: ignore[override]  # argparse has three overloads of it
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse all words; exit with status 2 if one is unknown."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown
