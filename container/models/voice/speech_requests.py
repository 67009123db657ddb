"""Requests for speech in the form of OpenAI's API.

https://platform.openai.com/docs/api-reference/audio/createSpeech
"""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from partway.container.errors import ModelError
from partway.container.model import Reply, Request
from partway.container.models.chat.json_objects import object_of
from partway.container.models.ignored_names import log_ignored
from partway.container.models.openai_events import (
    EVENT_STREAM,
    JSON,
    server_sent_event,
    typed_event,
)
from partway.container.models.voice.audio_formats import AudioFormat
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.interfaces import SpeakingOptions
from partway.container.models.voice.limits import (
    MAX_NAME,
    MAX_SPEECH_BODY,
    MAX_SPEECH_INPUT,
    MAX_WHOLE_WAV,
)
from partway.container.models.voice.speaking import Speaking
from partway.container.models.voice.speech_encoders import COMPRESSED, encoded
from partway.container.models.voice.speech_formats import speed_of
from partway.container.models.voice.spoken_audio import BegunAudio, in_wav, spoken_audio
from partway.container.models.voice.wav_header import wav_header
from partway.container.models.voice.wires.realtime_faults import Members, RealtimeFault
from partway.container.serving.body import HeldBodies
from partway.protocol.openai.errors import error_body

_log = logging.getLogger("partway.container.voice")

PATH: Final = "v1/audio/speech"

#: OpenAI's format of all answers: 24 kHz, one channel.
_AUDIO: Final = AudioFormat("linear16", 24_000)
_FORMATS: Final = ("pcm", "wav", *COMPRESSED)
_STREAMS: Final = ("audio", "sse")
_KNOWN: Final = frozenset(
    {"input", "model", "voice", "response_format", "speed", "stream_format", "language"}
)


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """A parsed request.

    Attributes:
        format: the name of a format; empty if the client names none.
        stream: ``audio`` or ``sse``; empty if the client names none.
        ignored: names of members without effect.
    """

    text: str
    options: SpeakingOptions = field(default_factory=SpeakingOptions)
    format: str = ""
    stream: str = ""
    ignored: tuple[str, ...] = ()


def read_speech_request(body: bytes) -> SpeechRequest:
    """Read a request's body.

    Raises:
        ModelError: the body is not such a request; the status is 400 or 413.
    """
    if len(body) > MAX_SPEECH_BODY:
        raise ModelError(
            f"the body has {len(body)} bytes; it must have at most {MAX_SPEECH_BODY}", status=413
        )
    members = object_of(body)
    if members is None:
        raise ModelError("the body must be a JSON object", status=400)
    try:
        return _request_of(Members(members))
    except RealtimeFault as fault:
        raise ModelError(fault.message, status=400) from None


def _request_of(given: Members) -> SpeechRequest:
    if given.value("input") is None:
        raise ModelError(
            f"input is missing; it must be a string of 1 to {MAX_SPEECH_INPUT} characters",
            status=400,
        )
    text = given.text("input")
    if not 1 <= len(text) <= MAX_SPEECH_INPUT:
        raise ModelError(
            f"input has {len(text)} characters; it must have 1 to {MAX_SPEECH_INPUT}", status=400
        )
    speed = given.value("speed")
    options = SpeakingOptions(
        voice=given.name_or_id("voice"),
        speed=1.0 if speed is None else speed_of(speed),
        language=given.text("language", most=MAX_NAME),
    )
    return SpeechRequest(
        text=text,
        options=options,
        format=given.one_of("response_format", _FORMATS, ""),
        stream=given.one_of("stream_format", _STREAMS, ""),
        ignored=tuple(sorted(given.ignored(_KNOWN))),
    )


async def answer_speech(request: Request, engines: Engines, bodies: HeldBodies) -> Reply:
    """Answer a request; an error has OpenAI's form.

    Args:
        request: its body is JSON.
        engines: speak.
        bodies: bounds the body, with those of other requests.
    """
    try:
        engines.need(PATH, "speaks")
        assert engines.speaking is not None
        async with bodies.whole(request.body) as body:
            asked = read_speech_request(body)
        log_ignored(_log, "members of a request are ignored", PATH, asked.ignored)
        return await _answer(asked, engines.speaking, engines.ffmpeg)
    except ModelError as error:
        return Reply(error_body(error.reason, error.status), JSON, status=error.status)


async def _answer(asked: SpeechRequest, speaking: Speaking, ffmpeg: str | None) -> Reply:
    """Begin to speak, so that an early failure still has a status of its own."""
    format_name = asked.format or ("mp3" if ffmpeg else "wav")
    compressed = COMPRESSED.get(format_name)
    audio = spoken_audio(speaking, asked.text, asked.options, _AUDIO)
    if compressed is not None:
        if ffmpeg is None:
            raise ModelError(
                f"response_format is {format_name!r}, which needs ffmpeg, and it is not installed "
                "here; it must be pcm or wav",
                status=400,
            )
        audio = encoded(ffmpeg, audio, _AUDIO, compressed)
        content_type = compressed.content_type
    else:
        content_type = f"audio/{format_name}"
        if format_name == "wav" and not asked.stream:
            return await _wav(audio)
        if format_name == "wav":
            audio = in_wav(audio, _AUDIO)
    begun = await BegunAudio.begin(audio)
    if asked.stream == "sse":
        return Reply(SpeechEvents(begun), EVENT_STREAM)
    return Reply(begun, content_type)


async def _wav(audio: AsyncGenerator[bytes]) -> Reply:
    """Return a whole file, or a long one as it comes."""
    pieces, size = [], 0
    async for data in audio:
        pieces.append(data)
        size += len(data)
        if size > MAX_WHOLE_WAV:
            begun = wav_header(_AUDIO, None) + b"".join(pieces)
            return Reply(BegunAudio(begun, audio), "audio/wav")
    return Reply(wav_header(_AUDIO, size) + b"".join(pieces), "audio/wav")


class SpeechEvents(AsyncIterator[bytes]):
    """Audio as server-sent events; an error after the first of them is an event too.

    Args:
        audio: closed with this.
    """

    def __init__(self, audio: BegunAudio) -> None:
        self._audio = audio
        self._has_ended = False

    async def __anext__(self) -> bytes:
        if self._has_ended:
            raise StopAsyncIteration
        try:
            data = await anext(self._audio)
        except StopAsyncIteration:
            self._has_ended = True
            return typed_event("speech.audio.done", usage=_USAGE)
        except ModelError as error:  # the head has been sent
            self._has_ended = True
            return server_sent_event(error_body(error.reason, error.status))
        return typed_event("speech.audio.delta", audio=base64.b64encode(data).decode())

    async def aclose(self) -> None:
        await self._audio.aclose()


#: No engine here counts tokens; OpenAI's clients need the members.
_USAGE: Final = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
