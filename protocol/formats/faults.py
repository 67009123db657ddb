"""What is wrong with a body or with what a client asks for, in a sentence, by HTTP status.

The sentences are logged. They quote nothing of a body: only its media type, the type's parameters
and ``Accept``, printable and cut at a length. Records count from 0, lines, columns and characters
from 1, bytes from 0.
"""

from __future__ import annotations

from typing import ClassVar


class MediaFault(Exception):
    """A request whose formats or data cannot be served; the client's fault.

    Attributes:
        status: the HTTP status to answer.
        reason: what was wrong, where, and what must be there.
    """

    status: ClassVar[int]

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Malformed(MediaFault):
    """A body that is not what its type says, or whose records do not fit.

    Args:
        reason: what was found and what must be there.
        record: the record's number in the body, from 0; None where no record is to blame.
        line: the number of its line, from 1, in formats that have lines.

    Attributes:
        line: the same.
    """

    status = 400

    def __init__(self, reason: str, *, record: int | None = None, line: int | None = None) -> None:
        if record is not None:
            place = f"record {record}" if line is None else f"record {record} (line {line})"
            reason = f"{place}: {reason}"
        super().__init__(reason)
        self.line = line


class NotAcceptable(MediaFault):
    """``Accept`` allows no format that answers can be written in."""

    status = 406


class OverLimit(MediaFault):
    """A record that is too long, or more records or numbers than are read at a time."""

    status = 413


class UnsupportedMedia(MediaFault):
    """A body of a type that is not read, or with a parameter that is not."""

    status = 415
