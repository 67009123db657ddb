"""Playback of one answer by a client: how much of it can have been heard.

A client plays audio from the moment when it comes, without gaps while there is more. So audio that
is sent as fast as it is made is heard much later, and an interruption would find it all sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from partway.container.models.voice.interfaces import Samples
from partway.container.models.voice.limits import PLAYBACK_AHEAD

#: Seconds of a piece that is sent at once.
_PIECE: Final = 0.1
#: Characters per second of speech: a phrase is taken to last this long while its end is unknown.
_CHARACTERS: Final = 15

#: A millisecond, to which a client counts.
_TOLERANCE: Final = 0.001

_WORD: Final = re.compile(r"\S+")

#: Seconds, from any beginning.
Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True)
class _Phrase:
    text: str
    begins: float  # seconds of audio before it
    ended: bool = False
    seconds: float = 0.0


class Playback:
    """Paces the audio of one answer, and keeps what can have been heard.

    Call :meth:`begin` for each phrase, then :meth:`paced` with its audio, then :meth:`end_phrase`.
    Audio that is sent without a pace goes to :meth:`add` instead.

    Args:
        rate: samples per second.
        clock: seconds; by default those of the event loop.
        sleep: waits for seconds of the clock.
    """

    def __init__(self, rate: int, clock: Clock | None = None, sleep: Sleep = asyncio.sleep) -> None:
        self._rate = rate
        self._clock = clock or asyncio.get_running_loop().time
        self._sleep = sleep
        self._sent = 0.0  # seconds of audio
        self._silent_at = self._clock()  # when all sent audio will have been heard
        self._phrases: list[_Phrase] = []
        self._truncated_ms: int | None = None  # by the client's own count

    @property
    def sent_ms(self) -> int:
        """Milliseconds of audio that were sent."""
        return round(self._sent * 1000)

    @property
    def heard_ms(self) -> int:
        """Milliseconds of audio that can have been heard by now, or that the client has named."""
        if self._truncated_ms is not None:
            return self._truncated_ms
        return round((self._sent - self._ahead()) * 1000)

    def begin(self, text: str) -> None:
        """Begin a phrase."""
        self._phrases.append(_Phrase(text, self._sent))

    def end_phrase(self) -> None:
        """End the phrase: all its audio was sent."""
        self._phrases[-1].ended = True

    async def paced(self, audio: Samples) -> AsyncGenerator[Samples]:
        """Yield audio in short pieces, each once it may be sent.

        At most PLAYBACK_AHEAD seconds of it are sent and cannot have been heard yet.
        """
        length = round(_PIECE * self._rate)
        for start in range(0, len(audio), length):
            piece = audio[start : start + length]
            seconds = len(piece) / self._rate
            if (early := self._ahead() + seconds - PLAYBACK_AHEAD) > 0:
                await self._sleep(early)
            self.add(seconds)
            yield piece

    def truncate(self, heard_ms: int) -> str:
        """Believe the client's own count of what was heard, and return those words."""
        self._truncated_ms = heard_ms
        return self.heard_text()

    def heard_text(self, heard_ms: int | None = None) -> str:
        """Return the words that can have been heard.

        Within a phrase they are taken to last as long as their characters are many. A word counts
        once it was heard in full.

        Args:
            heard_ms: milliseconds from the answer's beginning, such as a client's own count; None
                for :attr:`heard_ms`.
        """
        heard = (self.heard_ms if heard_ms is None else heard_ms) / 1000
        said = (_heard_part(phrase, heard - phrase.begins) for phrase in self._phrases)
        return " ".join(filter(None, said))

    def _ahead(self) -> float:
        return max(self._silent_at - self._clock(), 0.0)

    def add(self, seconds: float) -> None:
        """Note audio that is sent; :meth:`paced` does so itself."""
        self._silent_at = max(self._silent_at, self._clock()) + seconds
        self._sent += seconds
        if self._phrases:
            self._phrases[-1].seconds += seconds


def _heard_part(phrase: _Phrase, heard: float) -> str:
    """Return the words of a phrase that fit into some seconds."""
    if heard <= 0:
        return ""
    if phrase.ended and heard >= phrase.seconds - _TOLERANCE:
        return phrase.text
    length = phrase.seconds
    if not phrase.ended:
        length = max(length, len(phrase.text) / _CHARACTERS, _TOLERANCE)
    characters = len(phrase.text) * heard / length
    ends = [word.end() for word in _WORD.finditer(phrase.text) if word.end() <= characters]
    return phrase.text[: ends[-1]] if ends else ""
