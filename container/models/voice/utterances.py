"""Utterances of one stream: their audio, and what is reported of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from partway.container.models.voice.interfaces import HEARING_RATE, Samples, Transcript
from partway.container.models.voice.speech_turns import (
    LongSilence,
    SpeechResumed,
    SpeechStarted,
    SpeechStopped,
)

_SAMPLE_BYTES = 2

#: Seconds before the limit of an utterance in which longer audio is cut, at its quietest place.
CUT_WITHIN = 5.0

#: Why an utterance is over: by silence, by its client's commit, by the end of the audio, or because
#: it is too long.
Ending: TypeAlias = Literal["endpoint", "commit", "end", "cut"]


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """A piece of a stream's audio that is heard at once.

    Attributes:
        id: its number in the stream, from 1.
        start: seconds from the beginning of the stream's audio to that of ``audio``.
        audio: what was said, with a little silence around it.
    """

    id: int
    start: float
    audio: Samples

    @property
    def duration(self) -> float:
        return len(self.audio) / HEARING_RATE

    @property
    def end(self) -> float:
        return (round(self.start * HEARING_RATE) + len(self.audio)) / HEARING_RATE


@dataclass(frozen=True, slots=True)
class Interim:
    """The text of an utterance that is not over.

    Attributes:
        utterance: its number, and its audio so far.
        transcript: its words' times count from ``utterance.start``.
        paused: whether it was heard at a pause, so that it may be the whole text.
    """

    utterance: Utterance
    transcript: Transcript
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Final:
    """The text of an utterance that is over.

    Attributes:
        transcript: its words' times count from ``utterance.start``.
        reason: why it is over. After each commit exactly one utterance, or failure, has it.
    """

    utterance: Utterance
    transcript: Transcript
    reason: Ending


@dataclass(frozen=True, slots=True)
class HearingFailed:
    """An utterance could not be heard; the stream goes on.

    Attributes:
        reason: why it could not, for the client.
        ending: why the utterance is over.
    """

    utterance: Utterance
    reason: str
    ending: Ending


ListenerEvent: TypeAlias = (
    SpeechStarted | SpeechResumed | SpeechStopped | Interim | Final | HearingFailed | LongSilence
)


class AudioWindow:
    """The latest audio of one stream, by its times.

    Attributes:
        start: seconds from the beginning of the stream to the oldest sample that is kept.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._dropped = 0

    @property
    def start(self) -> float:
        return self._dropped / HEARING_RATE

    @property
    def end(self) -> float:
        return (self._dropped + len(self._bytes) // _SAMPLE_BYTES) / HEARING_RATE

    def add(self, audio: Samples) -> None:
        self._bytes += audio.tobytes()

    def between(self, start: float, end: float) -> Samples:
        """Return a copy of the audio from one time to another, as far as it is kept."""
        first, last = self._index(start), self._index(end)
        return np.frombuffer(
            bytes(self._bytes[first * _SAMPLE_BYTES : last * _SAMPLE_BYTES]), np.int16
        )

    def drop_before(self, time: float) -> None:
        count = self._index(time)
        del self._bytes[: count * _SAMPLE_BYTES]
        self._dropped += count

    def _index(self, time: float) -> int:
        count = round(time * HEARING_RATE) - self._dropped
        return min(max(0, count), len(self._bytes) // _SAMPLE_BYTES)


def quietest(audio: Samples) -> float:
    """Return the seconds from the beginning of some audio to the middle of its quietest 100 ms."""
    width = HEARING_RATE // 100
    count = len(audio) // width
    if count < 10:
        return len(audio) / HEARING_RATE
    power = (audio[: count * width].astype(np.float64) ** 2).reshape(count, width).sum(axis=1)
    summed = np.convolve(power, np.ones(10), "valid")
    return (int(summed.argmin()) + 5) * width / HEARING_RATE


def loudness(audio: Samples) -> float:
    """Return the root of the mean square of some samples; 0 for none."""
    if not len(audio):
        return 0.0
    return float(np.sqrt(np.mean(audio.astype(np.float64) ** 2)))
