"""One stream of ``v1/speak``: text in, audio out, as Deepgram's clients expect it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing

from partway import __version__
from partway.container.models.ignored_names import log_ignored
from partway.container.models.voice.engine_set import Engines
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
from partway.container.models.voice.wires.text_speaker import (
    Flushed,
    PhraseFailed,
    SpokenAudio,
    TextSpeaker,
    TooMuchText,
)
from partway.container.stream import Stream

_log = logging.getLogger("partway.container.voice")


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
        self._engine = engines.settings.speaks.partition(":")[0]
        self._query = read_speech_query(stream.query)
        self._speaker: TextSpeaker[int] = TextSpeaker(engines.speaking, self._query, stream.id)
        self._flush_id = 0
        self._clear_id = 0
        self._has_begun = False

    async def run(self) -> None:
        """Speak until the client has closed the stream.

        Raises:
            ExceptionGroup: the stream is over.
        """
        log_ignored(_log, "parameters are ignored", self._stream.path, self._query.ignored)
        await self._stream.send(speak_metadata(self._stream.id, self._engine, __version__))
        async with asyncio.TaskGroup() as group:
            speaking = group.create_task(self._speak())
            async for message in self._stream.messages():
                said = await self._read(message)
                if isinstance(said, SpeakClose):
                    break
                if isinstance(said, SpeakClear):
                    speaking.cancel()
                    await asyncio.wait((speaking,))
                    await self._clear()
                    speaking = group.create_task(self._speak())
            self._speaker.end()
        self._stream.close()

    # --- Messages --------------------------------------------------------------------------------

    async def _read(self, message: str | bytes) -> SpeakMessage | None:
        """Take a message; return it unless it is refused."""
        try:
            said = read_speak_message(message)
            if isinstance(said, SpeakFlush):
                self._speaker.flush(self._flush_id)
                self._flush_id += 1
            elif not isinstance(said, SpeakClear | SpeakClose):
                self._speaker.add(said.text)
        except SpeakRefused as refused:
            await self._stream.send(speak_error(refused.code, refused.reason))
            return None
        except TooMuchText as refused:
            await self._stream.send(speak_warning(refused.code, str(refused)))
            return None
        return said

    async def _clear(self) -> None:
        """Drop all text; nothing speaks now."""
        self._speaker.clear()
        await self._stream.send(speak_cleared(self._clear_id))
        self._clear_id += 1

    # --- Audio -----------------------------------------------------------------------------------

    async def _speak(self) -> None:
        """Send what is spoken, in order, until its end."""
        async with aclosing(self._speaker.spoken()) as events:
            async for event in events:
                match event:
                    case SpokenAudio(audio):
                        await self._send(audio)
                    case Flushed(sequence_id):
                        await self._stream.send(speak_flushed(sequence_id))
                    case PhraseFailed(reason):
                        await self._stream.send(speak_error("NET-0000", reason))

    async def _send(self, audio: bytes) -> None:
        if not audio:
            return
        if self._query.container == "wav" and not self._has_begun:
            audio = wav_header(self._query.audio, None) + audio
        self._has_begun = True
        await self._stream.send(audio)
