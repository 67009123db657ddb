"""A stream's text, spoken phrase by phrase, for the wires of Deepgram's clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from partway.container.errors import log_failure, reason_of
from partway.container.models.voice.audio_formats import AudioWriter
from partway.container.models.voice.limits import MAX_UNSPOKEN, MAX_UNSPOKEN_FLUSHES
from partway.container.models.voice.phrases import PhraseCutter
from partway.container.models.voice.speaking import Speaking
from partway.container.models.voice.speech_formats import SpeechQuery

_log = logging.getLogger("partway.container.voice")

_T = TypeVar("_T")


class TooMuchText(Exception):
    """A text or a flush is not taken; the text says why.

    Attributes:
        code: the warning's code.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True, slots=True)
class PhraseBegun:
    text: str


@dataclass(frozen=True, slots=True)
class SpokenAudio:
    """Audio of the phrase that has begun, in the stream's format; it may be empty."""

    data: bytes
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PhraseEnded:
    """All audio of a phrase has come."""


@dataclass(frozen=True, slots=True)
class PhraseFailed:
    reason: str


@dataclass(frozen=True, slots=True)
class Flushed(Generic[_T]):
    """All text before a flush was spoken, or has failed."""

    mark: _T


Spoken: TypeAlias = PhraseBegun | SpokenAudio | PhraseEnded | PhraseFailed | Flushed[_T]


class TextSpeaker(Generic[_T]):
    """Speaks one stream's text. A phrase is spoken as soon as it is complete.

    One task adds text, and one takes :meth:`spoken`.

    Args:
        speaking: the engine.
        query: the stream's wishes.
        request_id: names the stream in the log.

    Attributes:
        options: the wishes for later phrases; they may be replaced.
    """

    def __init__(self, speaking: Speaking, query: SpeechQuery, request_id: str) -> None:
        self.options = query.options
        self._speaking = speaking
        self._audio = query.audio
        self._request_id = request_id
        self._cutter = PhraseCutter()
        # Bounded by the two counts below.
        self._work: asyncio.Queue[str | Flushed[_T] | None] = asyncio.Queue()
        self._unspoken = 0  # characters of phrases that wait
        self._flushes = 0  # so many wait
        self._writer: AudioWriter | None = None  # of the audio since the last flush

    def add(self, text: str) -> None:
        """Add text.

        Raises:
            TooMuchText: it is not taken, because too much waits.
        """
        if self._unspoken + len(text) > MAX_UNSPOKEN:
            raise TooMuchText(
                "TEXT_QUEUE_FULL",
                f"a text of {len(text)} characters is not spoken: {self._unspoken} characters wait "
                f"already, and at most {MAX_UNSPOKEN} may",
            )
        self._put(self._cutter.add(text))

    def flush(self, mark: _T) -> None:
        """Complete the last phrase; ``mark`` comes back after the audio of all text so far.

        Raises:
            TooMuchText: it is not taken, because too many flushes wait.
        """
        if self._flushes >= MAX_UNSPOKEN_FLUSHES:
            raise TooMuchText(
                "FLUSH_QUEUE_FULL", f"a Flush has no effect: {self._flushes} of them wait already"
            )
        self._flushes += 1
        self._put(self._cutter.end())
        self._work.put_nowait(Flushed(mark))

    def end(self) -> None:
        """End the text: :meth:`spoken` ends after the rest of it."""
        self._put(self._cutter.end())
        self._work.put_nowait(None)

    def clear(self) -> None:
        """Drop all text and flushes; nothing takes :meth:`spoken` now."""
        while not self._work.empty():
            self._work.get_nowait()
        self._cutter.clear()
        self._unspoken = self._flushes = 0
        self._writer = None

    async def spoken(self) -> AsyncGenerator[Spoken[_T]]:
        """Yield what is spoken, in order, until the end; closing it ends the engine's phrase."""
        while (work := await self._work.get()) is not None:
            if isinstance(work, str):
                async with aclosing(self._phrase(work)) as events:
                    async for event in events:
                        yield event
            else:
                yield self._rest()
                self._flushes -= 1
                yield work
        yield self._rest()

    async def _phrase(self, phrase: str) -> AsyncGenerator[Spoken[_T]]:
        writer = self._writer = self._writer or AudioWriter(self._speaking.rate, self._audio)
        yield PhraseBegun(phrase)
        try:
            async with aclosing(self._speaking.speak(phrase, self.options)) as pieces:
                async for piece in pieces:
                    yield SpokenAudio(writer.feed(piece), len(piece) / self._speaking.rate)
        except Exception as error:
            log_failure(_log, "speaking", error, request_id=self._request_id)
            yield PhraseFailed(f"a phrase is not spoken to its end: {reason_of(error)}")
        else:
            yield PhraseEnded()
        self._unspoken -= len(phrase)

    def _rest(self) -> SpokenAudio:
        """Return the audio that the writer has held back."""
        writer, self._writer = self._writer, None
        return SpokenAudio(b"" if writer is None else writer.end())

    def _put(self, phrases: list[str]) -> None:
        for phrase in phrases:
            self._unspoken += len(phrase)
            self._work.put_nowait(phrase)
