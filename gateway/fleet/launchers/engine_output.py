"""Decoding a container's output from the stream of an engine's API, without IO.

The stream consists of entries. Eight bytes precede each: the number of the output, three zeros, and
the entry's length, big-endian. Each entry begins with its time and a space. The times are requested
so that after a cut, such as an engine's restart, the next stream goes on where the last one ended.
"""

from __future__ import annotations

import re
import struct
from datetime import datetime
from typing import Final

from partway.gateway.fleet.limits import ENGINE_LOG_ENTRY

_HEAD: Final = struct.Struct(">B3xI")
_OUTPUTS: Final = range(4)

#: RFC 3339; an engine writes at most nine digits, and Podman its own time zone.
_TIME: Final = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
_LONGEST_TIME: Final = 40


class EngineOutputError(Exception):
    """The engine's bytes are not a stream of a container's output."""


class EngineOutput:
    """The output of one container, in one stream or several that follow each other.

    Args:
        begins: the epoch second from which output is wanted; 0 for all.
    """

    def __init__(self, begins: int = 0) -> None:
        self._begins = begins
        self._buffer = bytearray()
        self._rest = 0  # bytes to come of an entry that was returned in part
        self._last = b""  # the time of the last returned entry
        self._count = 0  # returned entries with that time
        self._skip = 0  # entries with that time to skip
        self._skipping = False
        self._dropping = False  # whether the entry under way is skipped

    @property
    def since(self) -> int:
        """The epoch second from which the next stream must be requested; 0 for all."""
        found = _TIME.fullmatch(self._last)
        if found is None:
            return self._begins
        # fromisoformat of Python 3.11 reads Z too.
        return int(datetime.fromisoformat((found[1] + found[2]).decode()).timestamp())

    def begin(self) -> None:
        self._buffer.clear()
        self._rest = 0
        self._dropping = False
        self._skip = self._count
        self._skipping = self._count > 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take more of the stream; return the container's output, in order.

        Raises:
            EngineOutputError: the bytes are not such a stream.
        """
        self._buffer += data
        found = []
        while (piece := self._next()) is not None:
            if piece:
                found.append(piece)
        return found

    def _next(self) -> bytes | None:
        """Decode the next piece, which may be empty; None if more bytes are needed."""
        if self._rest:
            piece = self._take(min(self._rest, len(self._buffer)))
            self._rest -= len(piece)
            if not piece:
                return None
            return b"" if self._dropping else piece
        if len(self._buffer) < _HEAD.size:
            return None
        output, length = _HEAD.unpack_from(self._buffer)
        if output not in _OUTPUTS or any(self._buffer[1:4]):
            raise EngineOutputError(
                f"{bytes(self._buffer[:8])!r} was found where an entry must begin"
            )
        whole = min(length, ENGINE_LOG_ENTRY)
        if len(self._buffer) < _HEAD.size + whole:
            return None
        del self._buffer[: _HEAD.size]
        entry = self._take(whole)
        self._rest = length - whole
        return self._entry(entry)

    def _take(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _entry(self, entry: bytes) -> bytes:
        """Strip an entry's time; return nothing for an entry that was already returned."""
        head, space, text = entry[:_LONGEST_TIME].partition(b" ")
        if not space or not _TIME.fullmatch(head):
            self._dropping = False
            return entry
        self._dropping = self._was_there(head)
        if self._dropping:
            return b""
        self._count = self._count + 1 if head == self._last else 1
        self._last = head
        return text + entry[_LONGEST_TIME:]

    def _was_there(self, time: bytes) -> bool:
        if not self._skipping:
            return False
        if time == self._last and self._skip:
            self._skip -= 1
            return True
        if time < self._last:
            return True
        self._skipping = False
        return False
