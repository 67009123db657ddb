"""Heads of one connection that differ in no more than what a client says anew each time.

A client that signs sends the same head again and again but for a date, a signature, an id of its
own and the length of its body; one that asks several endpoints, but for its target. What the rest
means has been read once.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from itertools import compress
from operator import ne
from typing import Final

from partway.protocol.http1.request import (
    AUTHORIZATION,
    HEADER_HELD_BYTES,
    LENGTH,
    SAID_ANEW,
    SIGNATURE,
    Http1Head,
)

_LINE: Final = re.compile(rb"\r\n([^\r\n:]+):[\t ]*([^\r\n]*)")

#: A path that means the same to everybody.
_PATH: Final = re.compile(rb"/[A-Za-z0-9._~/:%-]*")

#: Every number of so many digits is one that llhttp takes.
_LENGTH_DIGITS: Final = 15


class AlikeHeads:
    """Heads that are alike: where they differ, and the last of them, which the next is held to.

    Args:
        head: the first, no two of whose headers have the same name.
        data: its bytes.
        most: bytes that another may have.

    Attributes:
        held: bytes of memory that this holds, about.
        size: bytes of the last head.
    """

    __slots__ = (
        *("_asks", "_asks_path", "_constants", "_first", "_most", "_names", "_said", "_stated"),
        *("_unpack", "held", "size"),
    )

    def __init__(self, head: Http1Head, data: bytes, most: int) -> None:
        target = head.target.encode("utf-8", "surrogateescape")
        asks = head.method.encode() + b" "
        #: Whether the target is a path; of what is none, another might be read differently.
        self._asks_path = (
            data.startswith(b"%b%b " % (asks, target)) and _PATH.fullmatch(target) is not None
        )
        places = [(len(asks), len(asks) + len(target)) if self._asks_path else (0, 0)]
        names, anew = [], head.says_anew()
        for line in _LINE.finditer(data):
            name = line[1].decode("ascii").lower()
            begins = line.start(2)
            ends = begins + len(line[2].rstrip(b" \t"))
            if name == AUTHORIZATION and SIGNATURE in anew:
                name, begins = SIGNATURE, ends - len(anew[SIGNATURE])
            if name in anew:
                places.append((begins, ends))
                names.append(name)
        self._names = tuple(names)
        at = 0
        pieces: list[bytes] = []
        for begins, ends in places:
            pieces += data[at:begins], data[begins:ends]
            at = ends
        pieces.append(data[at:])
        self._constants = tuple(pieces[::2])
        self._asks, *self._said = pieces[1::2]
        self._stated = anew.get(LENGTH)
        self._unpack = _unpack_like(pieces)
        self._first = head
        self._most = most
        self.size = len(data)
        self.held = 3 * len(data) + HEADER_HELD_BYTES * (1 + len(places))

    def read(self, known: Http1Head, data: bytes) -> Http1Head | None:
        """Read a head that is like the one before it; None where it is not.

        Args:
            known: the one before, which was returned last, or is the first.
            data: the other's bytes, and behind them what has come of its body.
        """
        unpack, size = self._unpack, self.size
        # Most have each value where the one before has it.
        try:
            pieces = unpack(data)
        except struct.error:  # there are fewer bytes
            pieces = ()
        if pieces[::2] != self._constants:
            pieces = self._cut(data)
            unpack, size = _unpack_like(pieces), sum(map(len, pieces))
            if not 0 < size <= self._most:
                return None
        asks, *said = pieces[1::2]
        if not _is_plain(said):
            new = [*compress(said, map(ne, said, self._said))]
            if not _is_plain(new) and not all(map(SAID_ANEW.fullmatch, new)):
                return None
        target, length = known.target, known.length
        if asks != self._asks:
            if not self._asks_path or not _PATH.fullmatch(asks):
                return None
            target = asks.decode("ascii")
        anew = dict(zip(self._names, said, strict=True))
        stated = anew.get(LENGTH)
        if stated != self._stated:
            if stated is None or not stated.isdigit() or len(stated) > _LENGTH_DIGITS:
                return None
            length = int(stated)
        if length is None or len(data) - size > length:
            return None
        head = self._first.changed(target, anew, length, known.size + size - self.size)
        self._unpack, self._asks, self._said = unpack, asks, said
        self._stated, self.size = stated, size
        return head

    def _cut(self, data: bytes) -> tuple[bytes, ...]:
        """The head's pieces, the values at odd places; none where others are not as they were."""
        first, *others = self._constants
        if not data.startswith(first):
            return ()
        pieces, at = [first], len(first)
        for constant in others:
            # Hardly a value has in it what is behind it: a blank, or a line's end.
            ends = data.find(constant[:1], at)
            if not data.startswith(constant, ends):
                return ()
            pieces += data[at:ends], constant
            at = ends + len(constant)
        return tuple(pieces)


def _is_plain(values: list[bytes]) -> bool:
    """Whether values have nothing but letters, digits, hyphens and equals signs, as most have."""
    signs = b"".join(values).replace(b"-", b"").replace(b"=", b"")
    return signs.isalnum() and all(values)


def _unpack_like(pieces: Iterable[bytes]) -> Callable[[bytes], tuple[bytes, ...]]:
    """Takes apart bytes that begin with pieces of the same lengths."""
    return struct.Struct("".join([f"{len(piece)}s" for piece in pieces])).unpack_from
