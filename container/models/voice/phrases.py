"""Text that comes in pieces, cut into phrases that can be spoken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from partway.container.models.voice.limits import MAX_PHRASE

#: Least characters of a phrase that ends at a punctuation mark.
_LEAST: Final = 12
#: The first phrase is short, so that it sounds early: it may end at a mark within a sentence, or at
#: a space after this many characters.
_FIRST_AT_SPACE: Final = 40
#: Characters before a mark's end in which a short form is searched: the longest one, and more.
_SHORT_FORM_WITHIN: Final = 12

#: Quotes and brackets that close after a mark.
_CLOSING: Final = r"[\"'”’»)\]]*+"
_WIDE_CLOSING: Final = "[」』”’）]*"


def _end_at(marks: str, wide_marks: str) -> re.Pattern[str]:
    """Return the pattern of an end. It tries a run of marks once, not from each of its marks."""
    narrow = rf"(?<![{marks}])[{marks}]++{_CLOSING}(?=\s)"
    return re.compile(rf"{narrow}|[{wide_marks}]+{_WIDE_CLOSING}|\n")


_SENTENCE_END: Final = _end_at(".!?…", "。！？")
_CLAUSE_END: Final = _end_at(".!?…,;:—–", "。！？、，；：")
_SPACE: Final = re.compile(r"\s")

#: A full stop after one of these, or after a single letter, ends no sentence.
_SHORT_FORM: Final = re.compile(
    r"\b([^\W\d_]|approx|capt|col|dept|dr|etc|fig|gen|jr|lt|mr|mrs|ms|nos|prof|rev|sgt|sr|st|vs)\.$",
    re.IGNORECASE,
)


class PhraseCutter:
    """Cuts text into phrases, as early as it can.

    A phrase has no spaces at its ends, and at most MAX_PHRASE characters. Together, the phrases
    have all words of the text, in order.
    """

    def __init__(self) -> None:
        self._text = ""
        self._first = True

    def add(self, piece: str) -> list[str]:
        """Add text, and return the phrases that are complete.

        The end of a sentence counts once a space follows: "3." may go on with "14".
        """
        self._text += piece
        return list(self._phrases())

    def end(self) -> list[str]:
        """Return the rest of the text; the next text begins with a short phrase again."""
        phrases = self.add("\n")
        rest = self._text.strip()
        self.clear()
        return [*phrases, rest] if rest else phrases

    def clear(self) -> None:
        """Forget the text that is in no phrase yet."""
        self._text = ""
        self._first = True

    def _phrases(self) -> Iterator[str]:
        while True:
            self._text = self._text.lstrip()
            end = self._end()
            if not end:
                return
            phrase, self._text = self._text[:end].rstrip(), self._text[end:]
            self._first = False
            yield phrase

    def _end(self) -> int:
        """Return the length of the phrase that the text begins with; 0 if it is not known yet."""
        # The character after the longest phrase may be the space that completes its last mark.
        text = self._text[: MAX_PHRASE + 1]
        ends = [_first_end(_CLAUSE_END if self._first else _SENTENCE_END, text)]
        if self._first and (space := _SPACE.search(text, _FIRST_AT_SPACE)):
            ends.append(space.end())
        end = min(filter(None, ends), default=0)
        if end <= MAX_PHRASE and (end or len(text) <= MAX_PHRASE):
            return end
        head = text[:MAX_PHRASE]
        clauses = [mark.end() for mark in _CLAUSE_END.finditer(head)]
        spaces = [space.end() for space in _SPACE.finditer(head)]
        return (clauses or spaces or [MAX_PHRASE])[-1]


def _first_end(pattern: re.Pattern[str], text: str) -> int:
    """Return where a phrase of enough characters ends; 0 if nowhere."""
    for mark in pattern.finditer(text):
        end = mark.end()
        if end >= _LEAST and not _SHORT_FORM.search(text[max(0, end - _SHORT_FORM_WITHIN) : end]):
            return end
    return 0


def phrases_of(text: str) -> list[str]:
    """Return the phrases of a whole text."""
    cutter = PhraseCutter()
    return [*cutter.add(text), *cutter.end()]
