"""Heads of one connection that differ in no more than what a client says anew each time.

A client that signs sends the same head again and again but for a date, a signature, an id of its
own and the length of its body; one that asks several endpoints, but for its target. What the rest
means has been read once.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from partway.gateway.serving.facts import ANEW
from partway.gateway.serving.http1_request import HEADER_HELD_BYTES, Http1Head

_LINE_ENDS: Final = b"\r\n"
_NAME_ENDS: Final = re.compile(rb":[\t ]*")

#: Where a length stands among headers, which says how a request is read on.
_LENGTH: Final = "content-length"

#: A path that means the same to everybody.
_PATH: Final = re.compile(rb"/[A-Za-z0-9._~/:%-]*")

#: Every number of so many digits is one that llhttp takes.
_LENGTH_DIGITS: Final = 15


#: A line whose value another head may have in its place: which, the header's name in lower case,
#: and the line up to its value.
_Place: TypeAlias = tuple[int, str, bytes]


class AlikeHeads:
    """Heads that are alike: where they differ, and the last of them, which the next is held to.

    Args:
        head: the first, no two of whose headers have the same name.
        data: its bytes, without the empty line.

    Attributes:
        held: bytes of memory that this holds, about.
    """

    __slots__ = ("_asks", "_lines", "_places", "_says", "_size", "held")

    def __init__(self, head: Http1Head, data: bytes) -> None:
        self._lines = lines = data.split(_LINE_ENDS)
        self._size = len(data)
        target = head.target.encode("utf-8", "surrogateescape")
        asks, _, says = lines[0].partition(target)
        is_path = asks == b"%b " % head.method.encode() and _PATH.fullmatch(target) is not None
        #: What stands around the target; None where another target might be read differently.
        self._asks: bytes | None = asks if is_path else None
        self._says = says
        self._places: list[_Place] = []
        for number, line in enumerate(lines[1:], 1):
            value = _NAME_ENDS.search(line)
            if value is None:  # it goes on in the next: llhttp refuses that today
                continue
            name = line[: value.start()].decode("ascii").lower()
            if name in ANEW or name == _LENGTH:
                self._places.append((number, name, line[: value.end()]))
        self.held = 2 * len(data) + HEADER_HELD_BYTES * (1 + len(self._places))

    def read(self, known: Http1Head, data: bytes, behind: int) -> Http1Head | None:
        """Read a head that is like the one before it; None where it is not.

        Args:
            known: the one before, which was returned last, or is the first.
            data: the other's bytes, without the empty line.
            behind: bytes that have come behind it, which must be of its body.
        """
        lines, before = data.split(_LINE_ENDS), self._lines
        if len(lines) != len(before):
            return None
        expected = before.copy()
        length, target = known.length, known.target
        if lines[0] != before[0]:
            other = self._target(lines[0])
            if other is None:
                return None
            expected[0], target = lines[0], other
        anew = {}
        for number, name, begins in self._places:
            line = lines[number]
            if line != before[number]:
                # Visible ASCII, blanks between (RFC 9110 §5.5).
                if not line.startswith(begins) or not line.isascii():
                    return None
                value = line[len(begins) :].decode("ascii")
                if not value.isprintable() or value.strip(" ") != value or not value:
                    return None
                expected[number] = line
                anew[name] = value
        if _LENGTH in anew:
            stated = anew[_LENGTH]
            if not stated.isdigit() or len(stated) > _LENGTH_DIGITS:
                return None
            length = int(stated)
        if lines != expected or length is None or behind > length:
            return None
        size = known.size + len(data) - self._size
        self._lines, self._size = lines, len(data)
        return known.changed(target, anew, length, size)

    def _target(self, line: bytes) -> str | None:
        """The target of a request's first line, if that is all that it has of its own."""
        asks, says = self._asks, self._says
        if asks is None or not line.startswith(asks) or not line.endswith(says):
            return None
        target = line[len(asks) : len(line) - len(says)]
        return target.decode("ascii") if _PATH.fullmatch(target) else None
