"""Heads of one connection that differ in no more than what a client says anew each time.

A client that signs sends the same head again and again but for a date, a signature, an id of its
own and the length of its body; one that asks several endpoints, but for its target. What the rest
means has been read once.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from partway.gateway.serving.facts import ANEW
from partway.gateway.serving.http1_request import HEADER_HELD_BYTES, Http1Head

_LINE_ENDS: Final = b"\r\n"
_NAME_ENDS: Final = re.compile(rb":[\t ]*")

#: Where a length stands among headers, which says how a request is read on.
_LENGTH: Final = "content-length"

#: What may stand in place of what was there: visible ASCII, blanks between (RFC 9110 §5.5); a
#: number that no integer of 64 bits is too small for; a path that means the same to everybody.
_VALUE: Final = re.compile(rb"[!-~](?:[\t -~]*[!-~])?")
_NUMBER: Final = re.compile(rb"[0-9]{1,15}")
_PATH: Final = re.compile(rb"/[A-Za-z0-9._~/:%-]*")


class _Place(NamedTuple):
    """A line of a head whose value another one may have in its place.

    Attributes:
        name: the header's, in lower case.
        begins: the line up to its value.
        value: what the value must be.
    """

    name: str
    begins: bytes
    value: re.Pattern[bytes]


class AlikeHeads:
    """Heads that are alike: the first of them, and where others differ.

    Args:
        head: the first, no two of whose headers have the same name.
        data: its bytes, without the empty line.

    Attributes:
        held: bytes of memory that this holds, about.
    """

    __slots__ = ("_asks", "_places", "_says", "held")

    def __init__(self, head: Http1Head, data: bytes) -> None:
        lines = data.split(_LINE_ENDS)
        target = head.target.encode("utf-8", "surrogateescape")
        asks, _, says = lines[0].partition(target)
        is_path = asks == b"%b " % head.method.encode() and _PATH.fullmatch(target) is not None
        #: What stands around the target; None where another target might be read differently.
        self._asks: bytes | None = asks if is_path else None
        self._says = says
        self._places: dict[int, _Place] = {}
        for number, line in enumerate(lines[1:], 1):
            value = _NAME_ENDS.search(line)
            if value is None:  # it goes on in the next: llhttp refuses that today
                continue
            name = line[: value.start()].decode("ascii").lower()
            if name in ANEW or name == _LENGTH:
                pattern = _NUMBER if name == _LENGTH else _VALUE
                self._places[number] = _Place(name, line[: value.end()], pattern)
        self.held = HEADER_HELD_BYTES * (1 + len(self._places))

    def read(self, known: Http1Head, before: bytes, data: bytes) -> Http1Head | None:
        """Read a head that is like the one before it; None where it is not.

        Args:
            known: the one before.
            before: its bytes, without the empty line.
            data: the other's.
        """
        lines, others = data.split(_LINE_ENDS), before.split(_LINE_ENDS)
        if len(lines) != len(others):
            return None
        places, changed, length, target = self._places, {}, known.length, None
        for number, line in enumerate(lines):
            if line == others[number]:
                continue
            place = places.get(number)
            if place is None:
                if number or (target := self._target(line)) is None:
                    return None
                continue
            name, begins, pattern = place
            value = line[len(begins) :]
            if not line.startswith(begins) or pattern.fullmatch(value) is None:
                return None
            changed[name] = text = value.decode("ascii")
            if name == _LENGTH:
                length = int(text)
        size = known.size + len(data) - len(before)
        return known.changed(known.target if target is None else target, changed, length, size)

    def _target(self, line: bytes) -> str | None:
        """The target of a request's first line, if that is all that it has of its own."""
        asks, says = self._asks, self._says
        if asks is None or not line.startswith(asks) or not line.endswith(says):
            return None
        target = line[len(asks) : len(line) - len(says)]
        return target.decode("ascii") if _PATH.fullmatch(target) else None
