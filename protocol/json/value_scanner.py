"""The end of a JSON value, in bytes that come in pieces."""

from __future__ import annotations

import re
from typing import Final

from partway.protocol.limits import MAX_JSON_DEPTH

_OPENS_OR_CLOSES: Final = re.compile(rb'["{}\[\]]')
_IN_STRING: Final = re.compile(rb'["\\]')
_AFTER_SCALAR: Final = re.compile(rb"[\s,:\]}]")


class TooDeep(ValueError):
    """Objects and arrays are nested deeper than any record's."""


class JsonScanner:
    """Finds the end of one value, then of the next; looks at each byte once.

    A parser checks the bytes in between: here only the number of brackets counts.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._in_scalar = False

    def scan(self, data: bytes, start: int) -> int:
        """Scan on to the end of the value.

        Args:
            data: the next bytes of the value; those of the last call must be used up.
            start: the place in ``data`` where the value begins or continues.

        Returns:
            The end of the value; -1 if it is not within the bytes. A number or a word ends before
            the next character.

        Raises:
            TooDeep: brackets are nested too deeply.
        """
        while start < len(data):
            if self._in_string:
                start = self._string(data, start)
            elif self._in_scalar:
                found = _AFTER_SCALAR.search(data, start)
                if found is None:
                    return -1
                self._in_scalar = False
                return found.start()
            else:
                start = self._structure(data, start)
            if start < 0:
                return -1
            if not (self._depth or self._in_string or self._in_scalar):
                return start
        return -1

    def _string(self, data: bytes, start: int) -> int:
        if self._escaped:
            self._escaped = False
            return start + 1
        found = _IN_STRING.search(data, start)
        if found is None:
            return -1
        if found.group() == b'"':
            self._in_string = False
        else:
            self._escaped = True
        return found.end()

    def _structure(self, data: bytes, start: int) -> int:
        found = _OPENS_OR_CLOSES.search(data, start)
        if not self._depth and (found is None or found.start() > start):
            self._in_scalar = True
            return start
        if found is None:
            return -1
        bracket = found.group()
        if bracket == b'"':
            self._in_string = True
        elif bracket in b"{[":
            self._depth += 1
            if self._depth > MAX_JSON_DEPTH:
                raise TooDeep(f"it is nested deeper than {MAX_JSON_DEPTH} levels")
        else:
            self._depth = max(self._depth - 1, 0)
        return found.end()
