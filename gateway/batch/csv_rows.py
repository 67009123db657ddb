"""Lines of CSV as columns and back; what is in a column stays as it is written (RFC 4180 §2)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

#: A column whose first character is a quote: to the quote that is not one of two.
_QUOTED: Final = re.compile(rb'"(?:[^"]|"")*"(?=,|\Z)')


def columns_of(line: bytes) -> list[bytes]:
    """The columns of a line, each with its quotes, if it has any.

    Args:
        line: without its end.

    Raises:
        ValueError: a quote that begins a column does not end in it.
    """
    if b'"' not in line:
        return line.split(b",")
    columns: list[bytes] = []
    at = 0
    while True:
        end = line.find(b",", at)
        if line[at : at + 1] == b'"':
            quoted = _QUOTED.match(line, at)
            if quoted is None:
                raise ValueError(
                    f"the quote that begins column {len(columns) + 1} does not end in it; a quoted "
                    "column must end where its line or a comma does, and a quote in it be two"
                )
            end = quoted.end() if quoted.end() < len(line) else -1
        if end < 0:
            columns.append(line[at:])
            return columns
        columns.append(line[at:end])
        at = end + 1


def line_of(columns: Iterable[bytes]) -> bytes:
    """A line of columns, without its end."""
    return b",".join(columns)
