"""Transcripts in the forms of OpenAI's API: JSON, text and subtitles.

https://platform.openai.com/docs/api-reference/audio/createTranscription
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from partway.container.models.voice.interfaces import HeardWord

#: A subtitle ends with a sentence, before a pause, or when it is long, in seconds.
_PAUSE: Final = 1.0
_LONG: Final = 7.0
_SENTENCE_ENDS: Final = (".", "?", "!", "。", "？", "！")


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a text, with its times.

    Attributes:
        start: seconds from the beginning of the audio.
        end: likewise.
        confidence: 0 to 1.
    """

    text: str
    start: float
    end: float
    confidence: float


def segments_of(words: Iterable[HeardWord]) -> list[Segment]:
    """Join words to segments: sentences, and parts of long ones."""
    segments: list[Segment] = []
    joined: list[HeardWord] = []
    for word in words:
        if joined and (
            joined[-1].text.endswith(_SENTENCE_ENDS)
            or word.start - joined[-1].end >= _PAUSE
            or word.end - joined[0].start > _LONG
        ):
            segments.append(_segment(joined))
            joined = []
        joined.append(word)
    return [*segments, _segment(joined)] if joined else segments


def _segment(words: Sequence[HeardWord]) -> Segment:
    return Segment(
        " ".join(word.text for word in words),
        words[0].start,
        words[-1].end,
        sum(word.confidence for word in words) / len(words),
    )


def srt(segments: Iterable[Segment]) -> str:
    """Write subtitles in SubRip's form."""
    return "".join(
        f"{number}\n{_time(each.start, ',')} --> {_time(each.end, ',')}\n{each.text}\n\n"
        for number, each in enumerate(segments, 1)
    )


def vtt(segments: Iterable[Segment]) -> str:
    """Write subtitles in the form of WebVTT (https://www.w3.org/TR/webvtt1/)."""
    cues = (
        f"{_time(each.start, '.')} --> {_time(each.end, '.')}\n{_escaped(each.text)}\n\n"
        for each in segments
    )
    return "WEBVTT\n\n" + "".join(cues)


def _time(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def verbose(
    text: str,
    language: str,
    duration: float,
    *,
    words: Sequence[HeardWord] | None,
    segments: Sequence[Segment] | None,
) -> dict[str, Any]:
    """Write the members of ``verbose_json``.

    Args:
        text: the whole text.
        language: its code.
        duration: seconds of audio.
        words: None to leave them out.
        segments: None to leave them out.
    """
    found: dict[str, Any] = {
        "task": "transcribe",
        "language": language,
        "duration": round(duration, 3),
        "text": text,
        "usage": usage(duration),
    }
    if words is not None:
        found["words"] = [
            {"word": word.text, "start": round(word.start, 3), "end": round(word.end, 3)}
            for word in words
        ]
    if segments is not None:
        found["segments"] = [_verbose_segment(*each) for each in enumerate(segments)]
    return found


def _verbose_segment(number: int, segment: Segment) -> dict[str, Any]:
    """Write a segment; members that only Whisper's decoder could tell have neutral values."""
    data = segment.text.encode()
    return {
        "id": number,
        "seek": 0,
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "text": segment.text,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": round(math.log(max(segment.confidence, 1e-6)), 4),
        "compression_ratio": round(len(data) / len(zlib.compress(data)), 4) if data else 0.0,
        "no_speech_prob": 0.0,
    }


def usage(duration: float) -> dict[str, Any]:
    return {"type": "duration", "seconds": math.ceil(duration)}
