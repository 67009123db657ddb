"""The data of server-sent events, read from bytes that may be cut anywhere.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from partway.protocol.limits import MIB

#: Most bytes of one event: a chunk with the arguments of a tool call has some kilobytes.
MAX_EVENT_BYTES: Final = MIB

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class EventTooLong(ValueError):
    """An event has more than MAX_EVENT_BYTES."""


class EventLines:
    """Collects bytes, and yields the data of each event that is complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0  # of the unfinished event's lines

    def add(self, received: bytes) -> Iterator[bytes]:
        """Yield the data of the events that end in these bytes; other fields are skipped.

        Raises:
            EventTooLong: an event is too long.
        """
        searched = max(len(self._rest) - 1, 0)  # the last byte may be half of a line's end
        buffered = self._rest + received
        begin = 0
        for end in _LINE_END.finditer(buffered, searched):
            if end.group() == b"\r" and end.end() == len(buffered):
                break  # a line feed may follow
            line, begin = buffered[begin : end.start()], end.end()
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
                self._size += len(line)
            elif not line and self._data:
                data, self._data, self._size = b"\n".join(self._data), [], 0
                yield data
        self._rest = buffered[begin:]
        if len(self._rest) + self._size > MAX_EVENT_BYTES:
            raise EventTooLong(f"an event has more than {MAX_EVENT_BYTES} bytes")
