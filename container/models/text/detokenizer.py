"""Tokens in, text out: as much of it as later tokens cannot change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

#: What decoders put in place of bytes that are no UTF-8, or not yet.
_REPLACEMENT: Final = "\ufffd"

#: Bytes of a code point that can be there while it is incomplete, and those that can follow where
#: a cut goes through it. Decoders write one replacement character for the incomplete ones (byte
#: level) or one for each (byte fallback).
_MAX_INCOMPLETE: Final = 3

#: Tokens that are kept when the window is cut, as context for what follows: more bytes than a code
#: point can have. Of four neighbouring cuts one is between code points, which byte fallback needs.
_KEPT: Final = range(8, 12)

#: The window is cut when it is so long. Where that fails because later text would not be the same,
#: it may grow; then it is cut regardless, for its decoder is not one of those described below.
_WINDOW: Final = 16
_MAX_WINDOW: Final = 64


class Detokenizer:
    r"""The text of tokens as they come, never half a code point.

    All that :meth:`add` and :meth:`flush` return, put together, is what ``decode`` makes of all the
    tokens at once, for a ``decode`` of the usual kinds:

    - byte level: the tokens' bytes, put together and decoded, with one U+FFFD for each maximal
      part of a broken code point, as Python and Rust do it;
    - pieces of words, whose first loses its leading space or its mark;
    - byte fallback, as long as its bytes are UTF-8. It judges a run of bytes as a whole, so that a
      bad one changes those before it: what was shown of them stays.

    The ``decode`` may not clean up spaces: that changes text which has been shown.

    A token costs little more than one call of ``decode``, with a dozen tokens: a window of recent
    ones, most of whose text has been shown. One that leaves the text as it was costs two.

    Args:
        decode: the text of some tokens.
    """

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        #: The window's text, and which beginning of it has been shown.
        self._text = ""
        self._shown = ""
        #: Tokens since the window's text no longer began with what was shown of it.
        self._in_doubt = 0

    def add(self, ids: Sequence[int]) -> str:
        """The text that can be shown now that these tokens have come."""
        return "".join([self._add(token) for token in ids])

    def flush(self) -> str:
        """The rest of the text, when no token is to come; after that another text may begin."""
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
            # A run of bytes has got a new one that is not a whole code point; it will be soon.
            self._in_doubt += 1
            if self._in_doubt <= _MAX_INCOMPLETE and text.endswith(_REPLACEMENT):
                return ""
        self._in_doubt = 0
        incomplete = min(len(text) - len(text.rstrip(_REPLACEMENT)), _MAX_INCOMPLETE)
        # What a cut made of a code point looks as if it were incomplete; it has been shown.
        settled = text[: max(len(self._shown), len(text) - incomplete)]
        new = settled[len(self._shown) :]
        self._shown = settled
        self._cut()
        return new

    def _cut(self) -> None:
        """Forget the tokens at the window's beginning, if it has become long."""
        window = self._window
        if len(window) < _WINDOW:
            return
        if not self._text:  # tokens without a text; the first may yet be a mark that makes a space
            del window[_KEPT.start :]
            return
        held = len(self._text) - len(self._shown)
        for kept in _KEPT:
            text = self._decode(window[-kept:])
            # A cut may go through a code point: then the text begins with up to three replacement
            # characters. What is after them has to agree.
            if self._text.endswith(text[_MAX_INCOMPLETE:]):
                break
        else:
            if len(window) < _MAX_WINDOW:
                return
        del window[:-kept]
        self._text = text
        self._shown = text[: len(text) - held]
