"""The log of names that clients sent without an effect, such as those of unknown members."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from partway.log_lines import LogLine

#: Most names that are logged one by one.
MOST_NAMES: Final = 64
_MOST_SHOWN: Final = 200  # characters of the names of one request


class IgnoredNames:
    """Logs names, each once, up to a bounded number.

    Args:
        log: gets the lines.
        event: of the lines; their field is ``member``.
    """

    def __init__(self, log: logging.Logger, event: str) -> None:
        self._log = log
        self._event = event
        self._noted: set[str] = set()

    def note(self, names: Iterable[str]) -> None:
        for name in sorted(set(names) - self._noted):
            if len(self._noted) < MOST_NAMES:
                self._noted.add(name)
                self._log.info(LogLine(self._event, member=name))


def log_ignored(log: logging.Logger, event: str, path: str, names: Iterable[str]) -> None:
    """Log the names of one request or stream in one line; none if it has none."""
    if shown := ", ".join(names)[:_MOST_SHOWN]:
        log.info(LogLine(event, path=path, names=shown))
