"""Requests to ``v1/speak``, as Deepgram's clients send them beside its streams.

https://developers.deepgram.com/reference/text-to-speech/speak-request
"""

from __future__ import annotations

import logging
from typing import Final

from multidict import MultiDict, MultiMapping

from partway.container.errors import ModelError
from partway.container.model import Reply, Request
from partway.container.models.chat.json_objects import object_of
from partway.container.models.ignored_names import log_ignored
from partway.container.models.openai_events import JSON, json_of
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.limits import MAX_SPEAK_CHARACTERS, MAX_SPEECH_BODY
from partway.container.models.voice.speaking import Speaking
from partway.container.models.voice.speech_encoders import COMPRESSED, encoded
from partway.container.models.voice.speech_formats import read_speech_query
from partway.container.models.voice.spoken_audio import BegunAudio, in_wav, spoken_audio
from partway.container.models.voice.wires.speak_messages import without_pronunciations
from partway.container.serving.body import HeldBodies

_log = logging.getLogger("partway.container.voice")

PATH: Final = "v1/speak"

#: The media type of each encoding: RFC 2586 has l16, RFC 4856 the others.
_TYPES: Final = {"linear16": "l16", "mulaw": "PCMU", "alaw": "PCMA"}


async def answer_speak(request: Request, engines: Engines, bodies: HeldBodies) -> Reply:
    """Answer a request with its audio in chunks; an error has Deepgram's form.

    Args:
        request: its body is JSON.
        engines: speak.
        bodies: bounds the body, with those of other requests.
    """
    try:
        engines.need(PATH, "speaks")
        assert engines.speaking is not None
        async with bodies.whole(request.body) as body:
            text = _text_of(body)
        return await _answer(text, request.query, engines.speaking, engines.ffmpeg)
    except ModelError as error:
        told = {"err_code": "SPEAK_FAILED", "err_msg": error.reason}
        return Reply(json_of(told), JSON, status=error.status)


async def _answer(
    text: str, query: MultiMapping[str], speaking: Speaking, ffmpeg: str | None
) -> Reply:
    usual = "mp3" if ffmpeg else "linear16"
    encoding = query.get("encoding", usual)
    compressed = COMPRESSED.get(encoding)
    plain = MultiDict(query)
    plain["encoding"] = encoding
    if compressed is not None:
        if ffmpeg is None:
            raise ModelError(
                f"encoding is {encoding!r}, which needs ffmpeg, and it is not installed here; it "
                "must be linear16, mulaw or alaw",
                status=400,
            )
        for name in ("encoding", "container", "sample_rate"):
            plain.popall(name, None)
    asked = read_speech_query(plain, container="wav")
    log_ignored(_log, "parameters are ignored", PATH, asked.ignored)
    audio = spoken_audio(speaking, text, asked.options, asked.audio)
    if compressed is not None:
        assert ffmpeg is not None
        audio = encoded(ffmpeg, audio, asked.audio, compressed)
        content_type = compressed.content_type
    elif asked.container == "wav":
        audio = in_wav(audio, asked.audio)
        content_type = "audio/wav"
    else:
        content_type = f"audio/{_TYPES[encoding]};rate={asked.audio.rate}"
    return Reply(await BegunAudio.begin(audio), content_type)


def _text_of(body: bytes) -> str:
    """Return the text of a body.

    Raises:
        ModelError: it has none, or too much; the status is 400 or 413.
    """
    if len(body) > MAX_SPEECH_BODY:
        raise ModelError(
            f"the body has {len(body)} bytes; it must have at most {MAX_SPEECH_BODY}", status=413
        )
    members = object_of(body)
    text = None if members is None else members.get("text")
    if not isinstance(text, str) or not text:
        raise ModelError("the body must be a JSON object whose text is a string", status=400)
    if len(text) > MAX_SPEAK_CHARACTERS:
        raise ModelError(
            f"text has {len(text)} characters; it must have at most {MAX_SPEAK_CHARACTERS}",
            status=413,
        )
    return without_pronunciations(text)
