"""The status of an answer to ``/ping``, out of the bytes of it: no socket, no clock."""

from __future__ import annotations

import os
import re
import ssl
from typing import Final

from partway.protocol.limits import KIB

#: An answer's first line (RFC 9112 §4).
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])(?: |\r?$)")

#: Of an answer so much is looked at, in so many pieces: each is looked at with what came before it.
MAX_HEAD: Final = 16 * KIB
MAX_PIECES: Final = 256


class NoAnswer(Exception):
    """What came is no answer of HTTP's; the message says how."""


def cut(error: Exception | None) -> NoAnswer:
    """What is said of a connection that ended before its answer; None for an end in good order."""
    if error is None:
        return NoAnswer("the connection was closed before it")
    number = None if isinstance(error, ssl.SSLError) else getattr(error, "errno", None)
    return NoAnswer(os.strerror(number) if number else str(error))


class PingAnswer:
    """The status line of an answer; interim ones are passed over (RFC 9110 §15.2)."""

    def __init__(self) -> None:
        self._head = b""
        self._taken = 0
        self._pieces = 0

    def take(self, data: bytes) -> int | None:
        """Take the next bytes; returns the status once it is there.

        Raises:
            NoAnswer: it will never be.
        """
        self._pieces += 1
        if self._pieces > MAX_PIECES:
            raise NoAnswer("it comes a few bytes at a time")
        # No more is looked at: so interim answers without end come to an end too.
        self._head += data[: MAX_HEAD - self._taken]
        self._taken += len(data)
        while True:
            line, is_whole, _ = self._head.partition(b"\n")
            if not is_whole and self._taken < MAX_HEAD:
                return None
            found = _STATUS_LINE.match(line)
            if found is None or not is_whole:
                raise NoAnswer("it does not begin as an answer of HTTP/1.1 does")
            if found[1][:1] != b"1":
                return int(found[1])
            _, is_whole, rest = self._head.partition(b"\r\n\r\n")
            if not is_whole:
                if self._taken >= MAX_HEAD:
                    raise NoAnswer("an interim answer has no end")
                return None
            self._head = rest
