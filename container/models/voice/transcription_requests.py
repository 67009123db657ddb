"""Requests for transcriptions in the form of OpenAI's API.

https://platform.openai.com/docs/api-reference/audio/createTranscription
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Final

from partway.container.errors import ModelError
from partway.container.model import Reply, Request
from partway.container.models.ignored_names import log_ignored
from partway.container.models.openai_events import (
    EVENT_STREAM,
    JSON,
    json_of,
    server_sent_event,
    typed_event,
)
from partway.container.models.voice.audio_files import AudioFiles
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.hearing import Hearing
from partway.container.models.voice.interfaces import (
    HEARING_RATE,
    HeardWord,
    HearingOptions,
    Samples,
    Transcript,
)
from partway.container.models.voice.limits import MAX_UTTERANCE
from partway.container.models.voice.multipart_forms import Form, read_form
from partway.container.models.voice.transcript_formats import (
    segments_of,
    srt,
    usage,
    verbose,
    vtt,
)
from partway.container.models.voice.utterances import CUT_WITHIN, quietest
from partway.container.serving.body import HeldBodies
from partway.protocol.openai.errors import error_body

_log = logging.getLogger("partway.container.voice")

PATH: Final = "v1/audio/transcriptions"

_FORMATS: Final = ("json", "text", "srt", "vtt", "verbose_json")
_TEXT_TYPE: Final = "text/plain; charset=utf-8"
_GRANULARITIES: Final = ("word", "segment")
_KNOWN: Final = frozenset(
    {
        *("file", "model", "language", "prompt", "response_format", "stream"),
        *("timestamp_granularities[]", "timestamp_granularities"),
    }
)


@dataclass(frozen=True, slots=True)
class TranscriptionRequest:
    """A parsed request.

    Attributes:
        granularities: whose times ``verbose_json`` has: ``word``, ``segment``.
        ignored: names of fields without effect.
    """

    options: HearingOptions
    format: str
    streams: bool
    granularities: frozenset[str]
    ignored: tuple[str, ...]

    @classmethod
    def read(cls, form: Form, language: str) -> TranscriptionRequest:
        """Read a form.

        Args:
            form: the request's.
            language: the language if the client names none.

        Raises:
            ModelError: a field is out of range; the status is 400.
        """
        wanted = form.one_of("response_format", _FORMATS) or "json"
        streams = form.one_of("stream", ("true", "false")) == "true"
        if streams and wanted not in ("json", "text"):
            raise ModelError(
                f"response_format is {wanted!r} with stream; it must be json or text", status=400
            )
        granularities = [
            *form.all("timestamp_granularities[]"),
            *form.all("timestamp_granularities"),
        ]
        for each in granularities:
            if each not in _GRANULARITIES:
                raise ModelError(
                    f"timestamp_granularities[] is {each[:40]!r}; it must be word or segment",
                    status=400,
                )
        return cls(
            options=HearingOptions(
                language=form.first("language") or language,
                prompt=form.first("prompt"),
                words=wanted in ("srt", "vtt", "verbose_json"),
            ),
            format=wanted,
            streams=streams,
            granularities=frozenset(granularities) or frozenset({"segment"}),
            ignored=tuple(sorted(form.names - _KNOWN)),
        )


class Transcriptions:
    """Answers requests for transcriptions.

    Args:
        engines: hear.
        bodies: bounds the bodies and their audio, with those of other requests.
    """

    def __init__(self, engines: Engines, bodies: HeldBodies) -> None:
        self._engines = engines
        self._bodies = bodies
        self._files = AudioFiles(engines.ffmpeg)

    async def answer(self, request: Request) -> Reply:
        """Answer a request; an error has OpenAI's form."""
        try:
            self._engines.need(PATH, "hears")
            assert self._engines.hearing is not None
            async with AsyncExitStack() as held:
                asked, audio = await self._read(request, held)
                texts = heard(self._engines.hearing, audio, asked.options)
                if not asked.streams:
                    return _whole(asked, [each async for each in texts], _seconds(audio))
                held.push_async_callback(texts.aclose)
                first = await anext(texts, None)  # an early failure has a status of its own
                events = TranscriptEvents(first, texts, _seconds(audio), held.pop_all())
            return Reply(events, EVENT_STREAM)
        except ModelError as error:
            return Reply(error_body(error.reason, error.status), JSON, status=error.status)

    async def _read(
        self, request: Request, held: AsyncExitStack
    ) -> tuple[TranscriptionRequest, Samples]:
        """Return what is asked, and the file's audio, which counts until ``held`` ends."""
        async with self._bodies.whole(request.body) as body:
            form = read_form(request.content_type, body)
            asked = TranscriptionRequest.read(form, self._engines.settings.language)
            if form.file is None:
                raise ModelError("the form has no file; it must have one, named file", status=400)
            log_ignored(_log, "fields of a request are ignored", PATH, asked.ignored)
            audio = await self._files.read(form.file)
            held.enter_context(self._bodies.counting(audio.nbytes))
            return asked, audio


async def heard(
    hearing: Hearing, audio: Samples, options: HearingOptions
) -> AsyncGenerator[Transcript]:
    """Yield the texts of a long piece of audio, with times from its beginning.

    Raises:
        Exception: any exception of the engine.
    """
    at = 0
    while at < len(audio):
        end = _end_of_utterance(audio, at)
        text = await hearing.transcribe(audio[at:end], options)
        start = at / HEARING_RATE
        words = (
            replace(word, start=start + word.start, end=start + word.end) for word in text.words
        )
        yield replace(text, words=tuple(words))
        at = end


def _end_of_utterance(audio: Samples, begin: int) -> int:
    end = begin + int(MAX_UTTERANCE * HEARING_RATE)
    if end >= len(audio):
        return len(audio)
    earliest = end - int(CUT_WITHIN * HEARING_RATE)
    return earliest + int(quietest(audio[earliest:end]) * HEARING_RATE)


def _whole(asked: TranscriptionRequest, texts: list[Transcript], duration: float) -> Reply:
    text = " ".join(each.text for each in texts if each.text)
    words: list[HeardWord] = [word for each in texts for word in each.words]
    language = next((each.language for each in texts if each.language), "")
    match asked.format:
        case "text":
            return Reply(f"{text}\n", _TEXT_TYPE)
        case "srt":
            return Reply(srt(segments_of(words)), _TEXT_TYPE)
        case "vtt":
            return Reply(vtt(segments_of(words)), _TEXT_TYPE)
        case "verbose_json":
            members = verbose(
                text,
                language,
                duration,
                words=words if "word" in asked.granularities else None,
                segments=segments_of(words) if "segment" in asked.granularities else None,
            )
            return Reply(json_of(members), JSON)
        case _:
            return Reply(json_of({"text": text, "usage": usage(duration)}), JSON)


class TranscriptEvents(AsyncIterator[bytes]):
    """A transcription as server-sent events; an error after the first of them is an event too.

    Args:
        first: the first part of the text, if there is one.
        rest: the parts after it.
        duration: seconds of audio.
        held: ends with this; it closes ``rest``.
    """

    def __init__(
        self,
        first: Transcript | None,
        rest: AsyncIterator[Transcript],
        duration: float,
        held: AsyncExitStack,
    ) -> None:
        self._first = first
        self._rest = rest
        self._duration = duration
        self._held = held
        self._text = ""
        self._has_ended = False

    async def __anext__(self) -> bytes:
        if self._has_ended:
            raise StopAsyncIteration
        try:
            while (part := await self._next()) is not None:
                if part.text:
                    delta = f" {part.text}" if self._text else part.text
                    self._text += delta
                    return typed_event("transcript.text.delta", delta=delta)
        except ModelError as error:  # the head has been sent
            self._has_ended = True
            return server_sent_event(error_body(error.reason, error.status))
        self._has_ended = True
        return typed_event("transcript.text.done", text=self._text, usage=usage(self._duration))

    async def _next(self) -> Transcript | None:
        first, self._first = self._first, None
        return first if first is not None else await anext(self._rest, None)

    async def aclose(self) -> None:
        await self._held.aclose()


def _seconds(audio: Samples) -> float:
    return len(audio) / HEARING_RATE
