"""NVIDIA's dialect for hearing: transcription as its speech NIMs serve it.

The client sends audio without end and commits every chunk, so a commit ends no utterance: silence
does. An interim transcript is a ``delta`` with the whole text so far.

https://docs.nvidia.com/nim/riva/asr/latest/realtime-asr.html
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from partway.container.errors import ModelError
from partway.container.models.voice.audio_formats import (
    LEAST_RATE,
    MOST_RATE,
    AudioFormat,
    Encoding,
)
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.interfaces import HearingOptions, Transcript
from partway.container.models.voice.limits import MAX_INSTRUCTIONS, MAX_NAME
from partway.container.models.voice.listener import ListenerOptions, SpeechListener
from partway.container.models.voice.utterances import Final as FinalText
from partway.container.models.voice.utterances import HearingFailed, Interim
from partway.container.models.voice.wires.dialects import (
    kept_session,
    nvidia_error,
    obey_all,
    unknown_type,
)
from partway.container.models.voice.wires.listen_query import checked_keyterms
from partway.container.models.voice.wires.realtime_events import event
from partway.container.models.voice.wires.realtime_faults import Members, RealtimeFault
from partway.container.models.voice.wires.realtime_messages import ClientEvent, audio_of
from partway.container.stream import Stream

_UPDATE: Final = "transcription_session.update"
_ENDS: Final = ("input_audio_buffer.done", "session.end")
_KNOWN: Final = (_UPDATE, "input_audio_buffer.append", "input_audio_buffer.commit", *_ENDS)
#: A client that sends a file says "none": its chunks have no header, and are PCM.
_ENCODINGS: Final[Mapping[str, Encoding]] = {
    "pcm16": "linear16",
    "none": "linear16",
    "g711_ulaw": "mulaw",
    "g711_alaw": "alaw",
}
_USUAL_RATE: Final = 16_000
_MOST_CHANNELS: Final = 8
_MOST_BOOSTED: Final = 64
_TRANSCRIPTION: Final = "conversation.item.input_audio_transcription"


class NvidiaHearing:
    """One stream.

    Args:
        first: the client's first message, which has the session.

    Raises:
        ModelError: no engine hears.
        RealtimeFault: the session is refused.
    """

    def __init__(self, stream: Stream, engines: Engines, first: ClientEvent) -> None:
        engines.need("transcription", "hears")
        assert engines.hearing is not None
        self._stream = stream
        self._engines = engines
        self._options = _options(first.members.inner("session"), engines)
        self._session = kept_session(first.members)
        self._listener = SpeechListener(engines.hearing, engines.turns, self._options)

    async def run(self, messages: AsyncIterator[str | bytes]) -> None:
        """Serve the stream until the client ends it; the text of all audio is told."""
        async with self._listener, asyncio.TaskGroup() as group:
            group.create_task(self._tell())
            await obey_all(messages, self._take, self._refuse, _ENDS)
            await self._listener.end()

    async def _take(self, message: ClientEvent) -> None:
        match message.kind:
            case "input_audio_buffer.append":
                audio = audio_of(message.members, "audio")
                ends = message.members.inner("runtime_config").text("force_eou") == "true"
                await self._listener.feed(audio)
                if ends:
                    await self._listener.commit()
            case "input_audio_buffer.commit":
                pass
            case "transcription_session.update":
                if _options(message.members.inner("session"), self._engines) != self._options:
                    raise RealtimeFault(
                        "the session cannot change once it has begun; open another stream",
                        code="session_fixed",
                        param="session",
                    )
                await self._tell_session()
            case _:
                raise unknown_type(message, _KNOWN)

    async def _tell_session(self) -> None:
        await self._stream.send(event("transcription_session.updated", session=self._session))

    async def _tell(self) -> None:
        told_last = False
        async for found in self._listener.events():
            match found:
                case Interim(utterance=utterance, transcript=transcript):
                    await self._tell_of(utterance.id, "delta", delta=transcript.text)
                case FinalText(utterance=utterance, transcript=transcript, reason=reason):
                    told_last = reason == "end"
                    await self._tell_of(
                        utterance.id,
                        "completed",
                        transcript=transcript.text,
                        words_info={"words": _words(transcript)},
                        is_last_result=told_last,
                    )
                case HearingFailed(utterance=utterance, reason=failure):
                    error = {"type": "server_error", "message": failure}
                    await self._tell_of(utterance.id, "failed", error=error)
        if not told_last:
            await self._tell_of(0, "completed", transcript="", is_last_result=True)

    async def _tell_of(self, utterance: int, kind: str, **members: Any) -> None:
        text = event(
            f"{_TRANSCRIPTION}.{kind}", item_id=f"item_{utterance}", content_index=0, **members
        )
        await self._stream.send(text)

    async def _refuse(self, fault: RealtimeFault) -> None:
        await self._stream.send(nvidia_error("invalid_request_error", fault.code, fault.message))


def _options(session: Members, engines: Engines) -> ListenerOptions:
    """Read a session.

    Raises:
        RealtimeFault: a member has another value than it may have.
    """
    encoding = session.one_of("input_audio_format", tuple(_ENCODINGS), "pcm16")
    audio = session.inner("input_audio_params")
    transcription = session.inner("input_audio_transcription")
    recognition = session.inner("recognition_config")
    language = transcription.text("language", engines.settings.language, most=MAX_NAME)
    return ListenerOptions(
        audio=AudioFormat(
            _ENCODINGS[encoding],
            audio.whole("sample_rate_hz", LEAST_RATE, MOST_RATE, _USUAL_RATE),
            audio.whole("num_channels", 1, _MOST_CHANNELS, 1),
        ),
        hearing=HearingOptions(
            language=language.partition("-")[0].lower(),
            prompt=transcription.text("prompt", most=MAX_INSTRUCTIONS),
            keyterms=_keyterms(session.inner("word_boosting")),
            words=recognition.flag("enable_word_time_offsets", default=False),
        ),
        endpointing=engines.settings.endpointing_ms / 1000,
        eager=engines.settings.eager_ms / 1000,
        interims=True,
    )


def _keyterms(boosting: Members) -> tuple[str, ...]:
    """Return the phrases of all groups of boosted words."""
    found: list[str] = []
    for group in boosting.objects("word_boosting_list", _MOST_BOOSTED):
        phrases = group.value("phrases")
        if not isinstance(phrases, list) or not all(isinstance(each, str) for each in phrases):
            raise group.fault("phrases", "a list of strings")
        found += phrases
    try:
        return checked_keyterms(found)
    except ModelError as error:
        path = boosting.path_of("word_boosting_list")
        raise RealtimeFault(f"{path}: {error.reason}", param=path) from None


def _words(transcript: Transcript) -> list[dict[str, Any]]:
    """Return words with their times in milliseconds."""
    return [
        {
            "word": word.text,
            "start_time": round(word.start * 1000),
            "end_time": round(word.end * 1000),
            "confidence": word.confidence,
        }
        for word in transcript.words
    ]
