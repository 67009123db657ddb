"""Faults of a body or of a client's wishes: a sentence and an HTTP status.

The sentences are logged. They never quote a body: only its media type, the type's parameters and
``Accept``, printable and cut at a length. Records count from 0, lines, columns and characters from
1, bytes from 0.
"""

from __future__ import annotations

from typing import ClassVar


class MediaFault(Exception):
    """A request whose formats or data cannot be served; the client's fault.

    Attributes:
        status: the HTTP status to answer.
        reason: the fault, its place, and what is required.
    """

    status: ClassVar[int]

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Malformed(MediaFault):
    """A body that does not have its declared type, or whose records have the wrong form.

    Args:
        record: the record's number in the body, from 0; None if no record is at fault.
        line: the number of its line, from 1, in formats that have lines.
    """

    status = 400

    def __init__(self, reason: str, *, record: int | None = None, line: int | None = None) -> None:
        if record is not None:
            place = f"record {record}" if line is None else f"record {record} (line {line})"
            reason = f"{place}: {reason}"
        super().__init__(reason)
        self.line = line


class NotAcceptable(MediaFault):
    """``Accept`` allows none of the formats that are available for answers."""

    status = 406


class OverLimit(MediaFault):
    """A record that is too long, or too many records or numbers."""

    status = 413


class UnsupportedMedia(MediaFault):
    """A body of an unsupported type, or with an unsupported parameter."""

    status = 415
