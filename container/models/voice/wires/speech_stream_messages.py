"""Messages of ``v1/audio/speech/stream``, as vLLM-Omni's clients send and read them.

https://docs.vllm.ai/projects/vllm-omni/en/stable/serving/speech_api/
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from partway.container.models.openai_events import json_text
from partway.container.models.voice.audio_formats import AudioFormat
from partway.container.models.voice.interfaces import SpeakingOptions
from partway.container.models.voice.limits import MAX_NAME
from partway.container.models.voice.speech_encoders import COMPRESSED
from partway.container.models.voice.speech_formats import FASTEST, SLOWEST
from partway.container.models.voice.wires.realtime_faults import Members, RealtimeFault

#: The audio of every answer; clients take this rate for granted.
SPEECH_AUDIO: Final = AudioFormat("linear16", 24_000)

_FORMATS: Final = ("wav", "pcm", *COMPRESSED)
_GRANULARITIES: Final = ("none", "sentence", "clause")
_KNOWN: Final = frozenset(
    {
        *("type", "model", "voice", "speaker", "language", "speed"),
        *("response_format", "stream_audio", "split_granularity", "word_timestamps"),
    }
)
#: vLLM-Omni's clients name languages in English.
_LANGUAGES: Final[Mapping[str, str]] = {
    "auto": "",
    "chinese": "zh",
    "english": "en",
    "french": "fr",
    "german": "de",
    "italian": "it",
    "japanese": "ja",
    "korean": "ko",
    "portuguese": "pt",
    "russian": "ru",
    "spanish": "es",
}


@dataclass(frozen=True, slots=True)
class SpeechConfig:
    """A ``session.config``.

    Attributes:
        format: ``pcm``, ``wav``, or the name of a compressed format.
        is_streamed: whether audio is sent as it is made, rather than a file at a time.
        is_in_json: whether audio is sent in ``audio.chunk``, rather than in binary messages.
        is_cut: whether sentences are spoken before the end of their utterance.
        ignored: paths of members without effect.
    """

    options: SpeakingOptions
    format: str
    is_streamed: bool
    is_in_json: bool
    is_cut: bool
    ignored: frozenset[str]

    @classmethod
    def of(cls, members: Members, *, can_compress: bool) -> Self:
        """Read a message.

        Args:
            can_compress: whether compressed formats can be made here.

        Raises:
            RealtimeFault: a member has another value than it may have.
        """
        is_streamed = members.flag("stream_audio", default=False)
        is_in_json = members.flag("word_timestamps", default=False)
        form = members.one_of("response_format", _FORMATS, "pcm" if is_streamed else "wav")
        if form != "pcm" and is_streamed:
            raise members.fault("response_format", "pcm where stream_audio is true")
        if is_in_json and not is_streamed:
            raise RealtimeFault(
                "word_timestamps is true, and needs stream_audio: set stream_audio too",
                param="word_timestamps",
            )
        if form in COMPRESSED and not can_compress:
            raise members.fault(
                "response_format", "pcm or wav: ffmpeg, which other formats need, is not here"
            )
        options = SpeakingOptions(
            voice=members.text("voice", most=MAX_NAME) or members.text("speaker", most=MAX_NAME),
            speed=members.number("speed", SLOWEST, FASTEST, 1.0),
            language=_language_of(members.text("language", most=MAX_NAME)),
        )
        return cls(
            options=options,
            format=form,
            is_streamed=is_streamed,
            is_in_json=is_in_json,
            is_cut=members.one_of("split_granularity", _GRANULARITIES, "none") != "none",
            ignored=members.ignored(_KNOWN),
        )


def _language_of(name: str) -> str:
    """Return the code of a language, which may be named in English or with a region."""
    name = name.lower()
    return _LANGUAGES.get(name, name.partition("-")[0])


@dataclass(slots=True)
class SentenceEvents:
    """The events of one sentence, in their order; it counts its audio.

    Attributes:
        place: the members that tell the sentence from others.
        size: bytes of audio that were sent.
    """

    place: Mapping[str, int]
    config: SpeechConfig
    size: int = 0
    _chunks: int = field(default=0, init=False)

    def start(self, text: str) -> str:
        about: dict[str, Any] = {"sentence_text": text, "format": self.config.format}
        if self.config.format == "pcm":
            about["sample_rate"] = SPEECH_AUDIO.rate
        if self.config.is_in_json:
            about["word_timestamps"] = True
        return self._event("audio.start", **about)

    def audio(self, data: bytes) -> str | bytes:
        """Return the message that carries some audio."""
        begin = self.size
        self.size += len(data)
        return self._chunk(data, begin) if self.config.is_in_json else data

    def timestamps(self) -> str:
        """Return the chunk that ends a sentence: no engine here knows the times of its words."""
        return self._chunk(b"", 0)

    def done(self, *, failed: bool) -> str:
        return self._event("audio.done", total_bytes=self.size, error=failed)

    def _chunk(self, data: bytes, begin: int) -> str:
        chunk_id, self._chunks = self._chunks, self._chunks + 1
        return self._event(
            "audio.chunk",
            chunk_id=chunk_id,
            chunk_start_ms=_milliseconds(begin),
            chunk_end_ms=_milliseconds(self.size),
            sample_rate=SPEECH_AUDIO.rate,
            audio_b64=base64.b64encode(data).decode(),
            timestamps=None,
        )

    def _event(self, kind: str, **members: Any) -> str:
        return json_text({"type": kind, **self.place, **members})


def _milliseconds(size: int) -> int:
    return round(1000 * size / SPEECH_AUDIO.frame_bytes / SPEECH_AUDIO.rate)


def utterance_done(utterance: int, sentences: int) -> str:
    """Return the event after the last sentence of an utterance; the stream goes on."""
    return json_text(
        {"type": "session.done", "utterance_index": utterance, "total_sentences": sentences}
    )


def refused_event(fault: RealtimeFault) -> str:
    return json_text({"type": "error", "message": fault.message, "code": fault.code})


def failed_event(reason: str, *, has_audio: bool) -> str:
    """Return the event of a sentence that could not be spoken to its end.

    Args:
        has_audio: whether some audio was sent; the client should drop that.
    """
    partial = {"partial_audio": True, "action": "discard"} if has_audio else {}
    return json_text({"type": "error", "message": reason, "code": "speaking_failed", **partial})
