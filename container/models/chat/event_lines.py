"""The data of server-sent events, read from bytes that may be cut anywhere.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from partway.protocol.limits import MIB

#: Most bytes that come without an event: a chunk with the arguments of a tool call has some
#: kilobytes. Comments and blank lines count, since a server may send them without end.
MAX_EVENT_BYTES: Final = MIB

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class EventTooLong(ValueError):
    """More than MAX_EVENT_BYTES have come without an event."""


class EventLines:
    """Collects bytes, and yields the data of each event that is complete."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0  # of the lines since the last event

    def add(self, received: bytes) -> Iterator[bytes]:
        """Yield the data of the events that end in these bytes; other fields are skipped.

        Raises:
            EventTooLong: too many bytes have come without an event.
        """
        rest = self._rest
        searched = max(len(rest) - 1, 0)  # the last byte may be half of a line's end
        rest += received
        begin = 0
        while end := _LINE_END.search(rest, searched):
            if end.group() == b"\r" and end.end() == len(rest):
                break  # a line feed may follow
            line = bytes(rest[begin : end.start()])
            self._size += end.end() - begin
            begin = searched = end.end()
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                data, self._data, self._size = b"\n".join(self._data), [], 0
                yield data
        del rest[:begin]
        if len(rest) + self._size > MAX_EVENT_BYTES:
            raise EventTooLong(f"more than {MAX_EVENT_BYTES} bytes came without an event")
