"""Foreign text for a terminal, without control sequences, even when it comes in pieces."""

from __future__ import annotations

import codecs
import enum
import unicodedata
from typing import Final

#: Second character of a string sequence's start (a terminal's title, for example): DCS, SOS, OSC,
#: PM and APC. As one character they are 0x40 higher (ECMA-48 §5.3, §5.6).
_STRINGS: Final = frozenset("PX]^_")
_STRINGS_OF_8_BITS: Final = frozenset(chr(ord(char) + 0x40) for char in _STRINGS)
_CSI: Final = "\x9b"
_ESCAPE: Final = "\x1b"
#: Ends of a string sequence: ST as one character, xterm's BEL, CAN and SUB. A line end ends one
#: too, so that an unfinished string hides one line and not all that follows.
_ENDS_STRING: Final = frozenset("\x9c\x07\x18\x1a\n")

#: Controls that are text.
_KEPT: Final = frozenset("\n\t")

#: Characters that change the direction of the text around them (Unicode's annex 9, §2).
_TURNS: Final = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))


class _Inside(enum.Enum):
    """The construct that the next character belongs to."""

    TEXT = enum.auto()
    ESCAPE = enum.auto()
    CONTROL = enum.auto()  # parameters of a control sequence
    STRING = enum.auto()
    STRING_ESCAPE = enum.auto()


class TerminalText:
    """Messages that come in parts, which may end within a code point or a control sequence.

    Control sequences (ECMA-48 §5.4) and string sequences are removed whole. Other control
    characters are removed too, except for line ends and tabs, and so are changes of the writing
    direction. A sequence ends at the latest with its message.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._inside = _Inside.TEXT

    def shown(self, data: bytes, *, ends: bool) -> str:
        """Take a part; return the text to show, which may begin with earlier bytes.

        Args:
            data: UTF-8, cut anywhere; invalid bytes are replaced.
            ends: whether the message ends with this part.
        """
        kept = [char for char in self._decoder.decode(data, ends) if self._is_text(char)]
        if ends:
            self._decoder.reset()
            self._inside = _Inside.TEXT
        return "".join(kept)

    def _is_text(self, char: str) -> bool:
        """Whether a character is shown; the state for the next character is noted."""
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
        # a sequence of more characters, or a whole one
        return _Inside.ESCAPE if char < "0" else _Inside.TEXT

    def _begins_text(self, char: str) -> bool:
        """Take a character that continues no sequence."""
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
