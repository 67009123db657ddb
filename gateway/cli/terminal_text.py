"""What others say, as a terminal may show it: without what would steer it, also when cut apart."""

from __future__ import annotations

import codecs
import enum
import unicodedata
from typing import Final

#: Second character of what begins a string for the terminal, such as its title: DCS, SOS, OSC, PM
#: and APC; as one character they are 0x40 higher (ECMA-48 §5.3, §5.6).
_STRINGS: Final = frozenset("PX]^_")
_STRINGS_OF_8_BITS: Final = frozenset(chr(ord(char) + 0x40) for char in _STRINGS)
_CSI: Final = "\x9b"
_ESCAPE: Final = "\x1b"
#: What ends a string for the terminal: ST as one character, xterm's BEL, CAN and SUB; and a line
#: end, so that one that is not ended hides one line and not all that follows.
_ENDS_STRING: Final = frozenset("\x9c\x07\x18\x1a\n")

#: Controls that are text.
_KEPT: Final = frozenset("\n\t")

#: What changes the direction of the text around it (Unicode's annex 9, §2).
_TURNS: Final = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))


class _Inside(enum.Enum):
    """What the next character belongs to."""

    TEXT = enum.auto()
    ESCAPE = enum.auto()
    CONTROL = enum.auto()  # parameters of a control sequence
    STRING = enum.auto()
    STRING_ESCAPE = enum.auto()


class TerminalText:
    """Messages that come in parts, which may end within a code point or a control sequence.

    Control sequences (ECMA-48 §5.4) and strings for the terminal are left out whole, and so are
    other control characters but line ends and tabs, and what turns the direction of writing. What
    has begun with a message ends with it.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._inside = _Inside.TEXT

    def shown(self, data: bytes, *, ends: bool) -> str:
        """Take in a part; returns what of it, and of what was held back, is to be shown.

        Args:
            data: UTF-8, cut anywhere; what is none is replaced.
            ends: whether the message ends with it.
        """
        kept = [char for char in self._decoder.decode(data, ends) if self._is_text(char)]
        if ends:
            self._decoder.reset()
            self._inside = _Inside.TEXT
        return "".join(kept)

    def _is_text(self, char: str) -> bool:
        """Whether a character is shown; notes what the next one belongs to."""
        match self._inside:
            case _Inside.STRING if char not in _ENDS_STRING:
                self._inside = _Inside.STRING_ESCAPE if char == _ESCAPE else _Inside.STRING
                return False
            case _Inside.STRING:
                self._inside = _Inside.TEXT
                return char == "\n"
            case _Inside.STRING_ESCAPE if char == "\\":  # ST, as two characters
                self._inside = _Inside.TEXT
                return False
            case _Inside.CONTROL if " " <= char <= "~":
                if char >= "@":
                    self._inside = _Inside.TEXT
                return False
            case _Inside.ESCAPE | _Inside.STRING_ESCAPE if " " <= char <= "~":
                self._inside = self._after_escape(char)
                return False
            case _:
                return self._begins_text(char)

    @staticmethod
    def _after_escape(char: str) -> _Inside:
        if char == "[":
            return _Inside.CONTROL
        if char in _STRINGS:
            return _Inside.STRING
        return _Inside.ESCAPE if char < "0" else _Inside.TEXT  # of more characters, or whole

    def _begins_text(self, char: str) -> bool:
        """Take a character that continues nothing."""
        self._inside = _Inside.TEXT
        if char == _ESCAPE:
            self._inside = _Inside.ESCAPE
        elif char == _CSI:
            self._inside = _Inside.CONTROL
        elif char in _STRINGS_OF_8_BITS:
            self._inside = _Inside.STRING
        elif char in _KEPT:
            return True
        return unicodedata.category(char) != "Cc" and char not in _TURNS
