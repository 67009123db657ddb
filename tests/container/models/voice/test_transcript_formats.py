"""partway.container.models.voice.transcript_formats: subtitles and verbose JSON."""

from __future__ import annotations

import pytest

from partway.container.models.voice.interfaces import HeardWord
from partway.container.models.voice.transcript_formats import (
    Segment,
    segments_of,
    srt,
    verbose,
    vtt,
)

SEGMENTS = [Segment("Hi <you> & me.", 0.0, 1.5, 0.5), Segment("Bye.", 3661.2345, 3662.0, 1.0)]


def words(*spoken: tuple[str, float, float]) -> list[HeardWord]:
    return [HeardWord(text, start, end, 1.0) for text, start, end in spoken]


def test_subrip():
    assert srt(SEGMENTS) == (
        "1\n00:00:00,000 --> 00:00:01,500\nHi <you> & me.\n\n"
        "2\n01:01:01,234 --> 01:01:02,000\nBye.\n\n"
    )
    assert srt([]) == ""


def test_webvtt():
    assert vtt(SEGMENTS[:1]) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHi &lt;you&gt; &amp; me.\n\n"
    )


@pytest.mark.parametrize(
    ("spoken", "texts"),
    [
        ([], []),
        ([("One.", 0, 1), ("Two", 1, 2), ("three.", 2, 3)], ["One.", "Two three."]),
        ([("One", 0, 1), ("two", 2, 3)], ["One", "two"]),
        ([(str(n), n, n + 1) for n in range(9)], ["0 1 2 3 4 5 6", "7 8"]),
    ],
)
def test_segments_end_with_sentences_before_pauses_and_when_they_are_long(spoken, texts):
    segments = segments_of(words(*spoken))
    assert [each.text for each in segments] == texts


def test_verbose_json_has_what_was_asked_for():
    spoken = words(("One.", 0.5, 1))
    assert verbose("One.", "en", 1.25, words=spoken, segments=None) == {
        "task": "transcribe",
        "language": "en",
        "duration": 1.25,
        "text": "One.",
        "usage": {"type": "duration", "seconds": 2},
        "words": [{"word": "One.", "start": 0.5, "end": 1}],
    }
    (segment,) = verbose("One.", "en", 1.25, words=None, segments=segments_of(spoken))["segments"]
    assert (segment["id"], segment["start"], segment["end"]) == (0, 0.5, 1)
    assert (segment["text"], segment["avg_logprob"]) == ("One.", 0.0)
