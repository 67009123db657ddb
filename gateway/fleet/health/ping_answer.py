"""Parsing the status of an answer to ``/ping`` from bytes, without socket or clock."""

from __future__ import annotations

import os
import re
import ssl
from typing import Final

from partway.protocol.limits import KIB

#: An answer's first line (RFC 9112 §4).
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])(?: |\r?$)")

#: Limits of an answer's head: bytes and pieces. Each piece is parsed together with those before.
MAX_HEAD: Final = 16 * KIB
MAX_PIECES: Final = 256


class BadStatus(str):
    """The trouble with a container that is reachable: it has answered with another status."""

    __slots__ = ()


class Silence(str):
    """The trouble with a container whose host gives no sign of life."""

    __slots__ = ()


class NoAnswer(Exception):
    """The answer is not valid HTTP; the message says why."""


def cut(error: Exception | None) -> NoAnswer:
    """Describe a connection that ended before the answer; None means an orderly end."""
    if error is None:
        return NoAnswer("the connection was closed before the answer")
    number = None if isinstance(error, ssl.SSLError) else getattr(error, "errno", None)
    return NoAnswer(os.strerror(number) if number else str(error))


class PingAnswer:
    """The status line of an answer; interim answers are skipped (RFC 9110 §15.2)."""

    def __init__(self) -> None:
        self._head = b""
        self._taken = 0
        self._pieces = 0

    def take(self, data: bytes) -> int | None:
        """Take the next bytes; return the status once it is known.

        Raises:
            NoAnswer: the bytes cannot become a valid answer.
        """
        self._pieces += 1
        if self._pieces > MAX_PIECES:
            raise NoAnswer("the answer comes only a few bytes at a time")
        # The limit also ends an endless row of interim answers.
        self._head += data[: MAX_HEAD - self._taken]
        self._taken += len(data)
        while True:
            line, is_whole, _ = self._head.partition(b"\n")
            if not is_whole and self._taken < MAX_HEAD:
                return None
            found = _STATUS_LINE.match(line)
            if found is None or not is_whole:
                raise NoAnswer("the answer does not begin with a status line of HTTP/1.1")
            if found[1][:1] != b"1":
                return int(found[1])
            _, is_whole, rest = self._head.partition(b"\r\n\r\n")
            if not is_whole:
                if self._taken >= MAX_HEAD:
                    raise NoAnswer("an interim answer has no end")
                return None
            self._head = rest
