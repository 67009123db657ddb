"""One stream of ``v1/audio/speech/stream``: text in, audio out, as vLLM-Omni's clients expect it.

``input.done`` ends an utterance, and the stream goes on. Each sentence has its ``audio.start``,
its audio and its ``audio.done``. Input waits while a sentence is spoken, as at vLLM-Omni.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from partway.container.errors import ModelError, log_failure, reason_of
from partway.container.models.ignored_names import IgnoredNames
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.limits import MAX_PHRASE, MAX_SPEECH_FILE, MAX_UNSPOKEN
from partway.container.models.voice.phrases import PhraseCutter, phrases_of
from partway.container.models.voice.speech_encoders import COMPRESSED, encoded
from partway.container.models.voice.spoken_audio import spoken_audio
from partway.container.models.voice.wav_header import wav_header
from partway.container.models.voice.wires.dialects import obey_all, unknown_type
from partway.container.models.voice.wires.realtime_faults import Members, RealtimeFault
from partway.container.models.voice.wires.realtime_messages import ClientEvent
from partway.container.models.voice.wires.speech_stream_messages import (
    SPEECH_AUDIO,
    SentenceEvents,
    SpeechConfig,
    failed_event,
    refused_event,
    utterance_done,
)
from partway.container.stream import Stream, StreamClosed

_log = logging.getLogger("partway.container.voice")

PATH: Final = "v1/audio/speech/stream"

_ENDS: Final = ("session.close",)
_KNOWN: Final = ("session.config", "input.text", "input.done", *_ENDS)
#: Bytes of audio in a message, where audio is sent as it is made: a second.
_MOST_AUDIO: Final = 48_000


class SpeechStream:
    """One stream.

    1. ``session.config`` comes first. Another one may follow between two utterances.
    2. A text is spoken at ``input.done``, or sentence by sentence if the configuration says so.
    3. ``session.done`` follows the audio of all text before its ``input.done``.
    4. The end of the input has the rest of the text spoken; ``session.close`` does not.
    5. A message that is refused, or a sentence that fails, is an event; the stream goes on.

    Raises:
        ModelError: no engine speaks.
    """

    def __init__(self, stream: Stream, engines: Engines) -> None:
        engines.need(PATH, "speaks")
        assert engines.speaking is not None
        self._stream = stream
        self._speaking = engines.speaking
        self._ffmpeg = engines.ffmpeg
        self._ignored = IgnoredNames(_log, "a member of session.config has no effect")
        self._config: SpeechConfig | None = None
        self._is_open = False  # an utterance has begun
        self._text = ""  # of an utterance that is spoken at its end
        self._cutter = PhraseCutter()  # of one that is spoken sentence by sentence
        self._utterance = 0
        self._sentences = 0  # of this utterance, so far

    async def run(self, messages: AsyncIterator[str | bytes]) -> None:
        """Serve the stream until ``session.close``, or until its input ends."""
        has_ended = await obey_all(messages, self._take, self._refuse, _ENDS)
        if has_ended and self._is_open:
            assert self._config is not None, "an utterance begins after it"
            await self._end_utterance(self._config)

    # --- Messages --------------------------------------------------------------------------------

    async def _take(self, message: ClientEvent) -> None:
        match message.kind:
            case "session.config":
                self._configure(message.members)
            case "input.text":
                await self._add_text(self._configured(message.kind), message.members)
            case "input.done":
                await self._end_utterance(self._configured(message.kind))
            case _:
                raise unknown_type(message, _KNOWN)

    def _configure(self, members: Members) -> None:
        if self._is_open:
            raise RealtimeFault(
                "session.config came within an utterance; send it after input.done",
                code="invalid_state",
            )
        self._config = SpeechConfig.of(members, can_compress=self._ffmpeg is not None)
        self._ignored.note(self._config.ignored)

    def _configured(self, kind: str) -> SpeechConfig:
        if self._config is None:
            raise RealtimeFault(
                f"{kind} came before session.config; send a session.config first",
                code="invalid_state",
            )
        return self._config

    async def _add_text(self, config: SpeechConfig, members: Members) -> None:
        text = members.text("text", most=MAX_UNSPOKEN)
        if len(self._text) + len(text) > MAX_UNSPOKEN:
            raise RealtimeFault(
                f"text: {len(self._text) + len(text)} characters would wait for input.done; they "
                f"must be at most {MAX_UNSPOKEN}",
                param="text",
            )
        self._is_open = self._is_open or bool(text)
        if config.is_cut:
            await self._speak_all(config, self._cutter.add(text))
        else:
            self._text += text

    async def _end_utterance(self, config: SpeechConfig) -> None:
        text, self._text = self._text.strip(), ""
        if config.is_cut:
            rest = self._cutter.end()
        elif config.is_streamed or len(text) <= MAX_PHRASE:
            rest = [text] if text else []
        else:  # a file of all the text would be too long
            rest = phrases_of(text)
        await self._speak_all(config, rest)
        await self._stream.send(utterance_done(self._utterance, self._sentences))
        self._utterance += 1
        self._sentences = 0
        self._is_open = False

    async def _refuse(self, fault: RealtimeFault) -> None:
        await self._stream.send(refused_event(fault))

    # --- Audio -----------------------------------------------------------------------------------

    async def _speak_all(self, config: SpeechConfig, sentences: list[str]) -> None:
        for sentence in sentences:
            place = {"utterance_index": self._utterance, "sentence_index": self._sentences}
            self._sentences += 1
            await self._speak(sentence, SentenceEvents(place, config))

    async def _speak(self, text: str, events: SentenceEvents) -> None:
        """Speak a sentence; an engine's error is told, and the stream goes on."""
        failed = False
        await self._stream.send(events.start(text))
        try:
            if events.config.is_streamed:
                await self._send_pieces(text, events)
            else:
                await self._stream.send(events.audio(await self._file_of(text, events.config)))
        except StreamClosed:
            raise
        except Exception as error:
            failed = True
            log_failure(_log, "speaking", error, request_id=self._stream.id)
            reason = f"a sentence is not spoken to its end: {reason_of(error)}"
            await self._stream.send(failed_event(reason, has_audio=events.size > 0))
        await self._stream.send(events.done(failed=failed))

    async def _send_pieces(self, text: str, events: SentenceEvents) -> None:
        async with aclosing(self._audio_of(text, events.config)) as pieces:
            async for piece in pieces:
                for start in range(0, len(piece), _MOST_AUDIO):
                    await self._stream.send(events.audio(piece[start : start + _MOST_AUDIO]))
        if events.config.is_in_json:
            await self._stream.send(events.timestamps())

    async def _file_of(self, text: str, config: SpeechConfig) -> bytes:
        """Return the whole audio of a sentence.

        Raises:
            ModelError: it is too long.
            Exception: any exception of the engine.
        """
        data = bytearray()
        async with aclosing(self._audio_of(text, config)) as pieces:
            async for piece in pieces:
                data += piece
                if len(data) > MAX_SPEECH_FILE:
                    raise ModelError(
                        f"its audio has more than {MAX_SPEECH_FILE} bytes, which one message may "
                        "have; set stream_audio, or send shorter sentences"
                    )
        header = wav_header(SPEECH_AUDIO, len(data)) if config.format == "wav" else b""
        return header + data

    def _audio_of(self, text: str, config: SpeechConfig) -> AsyncGenerator[bytes]:
        audio = spoken_audio(self._speaking, text, config.options, SPEECH_AUDIO)
        compressed = COMPRESSED.get(config.format)
        if compressed is None:
            return audio
        assert self._ffmpeg is not None, "checked with the configuration"
        return encoded(self._ffmpeg, audio, SPEECH_AUDIO, compressed)
