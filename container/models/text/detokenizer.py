"""Incremental detokenization: tokens in, the stable part of their text out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

#: Stands in decoded text for bytes that are not UTF-8, or an incomplete code point.
_REPLACEMENT: Final = "\ufffd"

#: Most bytes of an incomplete code point, before and after a cut through it. Decoders write one
#: replacement character for all of them (byte level) or one for each (byte fallback).
_MAX_INCOMPLETE: Final = 3

#: Possible numbers of tokens kept as context when the window is cut: more bytes than a code point
#: can have. Of four neighbouring cuts, one lies between code points, as byte fallback needs.
_KEPT: Final = range(8, 12)

#: Length at which the window is cut. If a cut would change later text, the window may grow first.
#: After that it is cut regardless: its decoder is not of the kinds described below.
_WINDOW: Final = 16
_MAX_WINDOW: Final = 64


class Detokenizer:
    """Turns tokens into text as they come, without incomplete code points.

    The joined results of :meth:`add` and :meth:`flush` equal ``decode`` of all tokens at once, for
    a ``decode`` of the usual kinds:

    - byte level: the tokens' bytes, put together and decoded, with one U+FFFD for each maximal
      part of a broken code point, as Python and Rust do it;
    - pieces of words, whose first loses its leading space or its mark;
    - byte fallback, as long as its bytes are UTF-8. It decodes a run of bytes as a whole, so that a
      bad byte changes the text of earlier ones: text that was shown stays.

    The ``decode`` must not clean up spaces, because that changes text already shown.

    A token costs little more than one call of ``decode`` with a dozen recent tokens. Most of their
    text has been shown. A token that does not change the text costs two calls.
    """

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        #: The window's text, and the beginning of it that has been shown.
        self._text = ""
        self._shown = ""
        #: Tokens since the window's text stopped beginning with the text that was shown.
        self._in_doubt = 0

    def add(self, ids: Sequence[int]) -> str:
        """Add tokens, and return the text that can now be shown."""
        return "".join([self._add(token) for token in ids])

    def flush(self) -> str:
        """Return the rest of the text after the last token; then another text may begin."""
        rest = self._text[len(self._shown) :]
        self._window = []
        self._text = self._shown = ""
        self._in_doubt = 0
        return rest

    def _add(self, token: int) -> str:
        text = self._decode([*self._window, token])
        if text and text == self._text and not self._decode([token]):
            return ""  # a special token, which is skipped: it would only fill the window
        self._window.append(token)
        self._text = text
        if not text.startswith(self._shown):
            # A run of bytes has a new byte, which is not a whole code point yet.
            self._in_doubt += 1
            if self._in_doubt <= _MAX_INCOMPLETE and text.endswith(_REPLACEMENT):
                return ""
        self._in_doubt = 0
        incomplete = min(len(text) - len(text.rstrip(_REPLACEMENT)), _MAX_INCOMPLETE)
        # The rest of a code point after a cut looks incomplete, but has been shown.
        settled = text[: max(len(self._shown), len(text) - incomplete)]
        new = settled[len(self._shown) :]
        self._shown = settled
        self._cut()
        return new

    def _cut(self) -> None:
        """Drop the oldest tokens of the window, if it has become long."""
        window = self._window
        if len(window) < _WINDOW:
            return
        if not self._text:  # no text yet; the first token may be a mark for a space
            del window[_KEPT.start :]
            return
        held = len(self._text) - len(self._shown)
        for kept in _KEPT:
            text = self._decode(window[-kept:])
            # A cut may go through a code point. Then the text begins with up to three replacement
            # characters, and only the text after them must agree.
            if self._text.endswith(text[_MAX_INCOMPLETE:]):
                break
        else:
            if len(window) < _MAX_WINDOW:
                return
        del window[:-kept]
        self._text = text
        self._shown = text[: len(text) - held]
