"""One stream of ``v1/speak``: text in, audio out, as Deepgram's clients expect it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias

from partway import __version__
from partway.container.errors import log_failure, reason_of
from partway.container.models.ignored_names import log_ignored
from partway.container.models.voice.audio_formats import AudioWriter
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.limits import MAX_UNSPOKEN, MAX_UNSPOKEN_FLUSHES
from partway.container.models.voice.phrases import PhraseCutter
from partway.container.models.voice.speaking import Speaking
from partway.container.models.voice.speech_formats import read_speech_query
from partway.container.models.voice.wav_header import wav_header
from partway.container.models.voice.wires.speak_messages import (
    SpeakClear,
    SpeakClose,
    SpeakFlush,
    SpeakMessage,
    SpeakRefused,
    read_speak_message,
    speak_cleared,
    speak_error,
    speak_flushed,
    speak_metadata,
    speak_warning,
)
from partway.container.stream import Stream, StreamClosed

_log = logging.getLogger("partway.container.voice")


@dataclass(frozen=True, slots=True)
class _Flush:
    sequence_id: int


#: Work of the task that speaks: a phrase, a flush, or None for the end.
_Work: TypeAlias = str | _Flush | None


class SpeakStream:
    """The handler of one stream.

    1. A phrase is spoken as soon as it is complete; ``Flush`` completes the last one.
    2. ``Flushed`` follows the audio of all text before its ``Flush``, also where a phrase failed.
    3. ``Clear`` cancels the phrase that is being spoken, and drops text and flushes that wait.
       No audio of them follows ``Cleared``.
    4. After ``Close``, or the end of the input, the rest of the text is spoken.
    5. A fault of a message or of the engine is an event; the stream goes on.

    Args:
        stream: the client's.
        engines: those of the container; one of them speaks.

    Raises:
        ModelError: the query has a parameter that is out of range.
    """

    def __init__(self, stream: Stream, engines: Engines) -> None:
        assert engines.speaking is not None, "checked before the stream is accepted"
        self._stream = stream
        self._speaking: Speaking = engines.speaking
        self._engine = engines.settings.speaks.partition(":")[0]
        self._query = read_speech_query(stream.query)
        self._cutter = PhraseCutter()
        self._work: asyncio.Queue[_Work] = asyncio.Queue()  # bounded by the two counts below
        self._unspoken = 0  # characters of phrases that wait
        self._flushes = 0  # so many wait
        self._flush_id = 0
        self._clear_id = 0
        self._writer: AudioWriter | None = None  # of the audio since the last flush
        self._has_begun = False

    async def run(self) -> None:
        """Speak until the client has closed the stream.

        Raises:
            ExceptionGroup: the stream is over.
        """
        log_ignored(_log, "parameters are ignored", self._stream.path, self._query.ignored)
        await self._stream.send(speak_metadata(self._stream.id, self._engine, __version__))
        async with asyncio.TaskGroup() as group:
            speaker = group.create_task(self._speak())
            async for message in self._stream.messages():
                said = await self._read(message)
                if isinstance(said, SpeakClose):
                    break
                if isinstance(said, SpeakClear):
                    speaker.cancel()
                    await asyncio.wait((speaker,))
                    await self._clear()
                    speaker = group.create_task(self._speak())
            self._put(self._cutter.end())
            self._work.put_nowait(None)
        self._stream.close()

    # --- Messages --------------------------------------------------------------------------------

    async def _read(self, message: str | bytes) -> SpeakMessage | None:
        """Take a message; return it unless it is refused."""
        try:
            said = read_speak_message(message)
        except SpeakRefused as refused:
            await self._stream.send(speak_error(refused.code, refused.reason))
            return None
        if isinstance(said, SpeakFlush):
            await self._take_flush()
        elif not isinstance(said, SpeakClear | SpeakClose):
            await self._take_text(said.text)
        return said

    async def _take_text(self, text: str) -> None:
        if self._unspoken + len(text) > MAX_UNSPOKEN:
            reason = (
                f"a text of {len(text)} characters is not spoken: {self._unspoken} characters wait "
                f"already, and at most {MAX_UNSPOKEN} may"
            )
            await self._stream.send(speak_warning("TEXT_QUEUE_FULL", reason))
            return
        self._put(self._cutter.add(text))

    async def _take_flush(self) -> None:
        if self._flushes >= MAX_UNSPOKEN_FLUSHES:
            reason = f"a Flush has no effect: {self._flushes} of them wait already"
            await self._stream.send(speak_warning("FLUSH_QUEUE_FULL", reason))
            return
        self._flushes += 1
        self._put(self._cutter.end())
        self._work.put_nowait(_Flush(self._flush_id))
        self._flush_id += 1

    def _put(self, phrases: list[str]) -> None:
        for phrase in phrases:
            self._unspoken += len(phrase)
            self._work.put_nowait(phrase)

    async def _clear(self) -> None:
        """Drop all text; nothing speaks now."""
        while not self._work.empty():
            self._work.get_nowait()
        self._cutter.clear()
        self._unspoken = self._flushes = 0
        self._writer = None
        await self._stream.send(speak_cleared(self._clear_id))
        self._clear_id += 1

    # --- Audio -----------------------------------------------------------------------------------

    async def _speak(self) -> None:
        """Do the work that waits, in order, until its end."""
        while (work := await self._work.get()) is not None:
            if isinstance(work, _Flush):
                await self._finish_audio()
                self._flushes -= 1
                await self._stream.send(speak_flushed(work.sequence_id))
            else:
                await self._speak_phrase(work)
        await self._finish_audio()

    async def _speak_phrase(self, phrase: str) -> None:
        if self._writer is None:
            self._writer = AudioWriter(self._speaking.rate, self._query.audio)
        try:
            async with aclosing(self._speaking.speak(phrase, self._query.options)) as pieces:
                async for piece in pieces:
                    await self._send(self._writer.feed(piece))
        except StreamClosed:
            raise
        except Exception as error:
            log_failure(_log, "speaking", error, request_id=self._stream.id)
            reason = f"a phrase is not spoken to its end: {reason_of(error)}"
            await self._stream.send(speak_error("NET-0000", reason))
        self._unspoken -= len(phrase)

    async def _finish_audio(self) -> None:
        """Send the audio that the writer has held back."""
        if self._writer is not None:
            rest, self._writer = self._writer.end(), None
            await self._send(rest)

    async def _send(self, audio: bytes) -> None:
        if not audio:
            return
        if self._query.container == "wav" and not self._has_begun:
            audio = wav_header(self._query.audio, None) + audio
        self._has_begun = True
        await self._stream.send(audio)
