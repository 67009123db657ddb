"""The four interfaces of the engines behind ``voice``.

An engine is a plain class. ``load`` is called once, on a thread, before ``/ping`` answers 200. An
engine that cannot work raises a :class:`~partway.container.errors.ModelError` with its reason. It
may have ``unload()``, which is called at the end, and ``metrics``, a registry of
``prometheus_client`` that ``GET /metrics`` shows.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

#: Samples per second of all audio that is heard.
HEARING_RATE: Final = 16_000

#: Mono audio: 16-bit samples, in one dimension.
Samples = NDArray[np.int16]


class VoiceEngine(Protocol):
    """The common part of the interfaces."""

    def load(self, place: Path | None) -> None:
        """Load the engine.

        Args:
            place: the directory or program that the setting names; None if it names none.

        Raises:
            Exception: any; the container cannot serve, and its reason says why.
        """


# --- Hearing ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeardWord:
    """A word of a transcript.

    Attributes:
        text: the word as it stands in the text, with its punctuation and without spaces.
        start: seconds from the beginning of the audio that was heard.
        end: likewise.
        confidence: 0 to 1.
    """

    text: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """The text of some audio.

    Attributes:
        text: without spaces at its ends; empty if nothing was said.
        confidence: 0 to 1.
        words: empty unless they were asked for.
        language: a code such as ``en``; empty if the engine names none.
    """

    text: str
    confidence: float = 1.0
    words: tuple[HeardWord, ...] = ()
    language: str = ""


@dataclass(frozen=True, slots=True)
class HearingOptions:
    """Wishes of a client; an engine ignores those that it cannot obey.

    Attributes:
        language: a code such as ``en``; empty to let the engine find out.
        prompt: text that precedes the audio, as context.
        keyterms: words that are likely.
        words: whether words with times are wanted.
    """

    language: str = ""
    prompt: str = ""
    keyterms: tuple[str, ...] = ()
    words: bool = False


class Hears(VoiceEngine, Protocol):
    """Turns speech into text."""

    def hear(self, audio: Samples, options: HearingOptions) -> Transcript:
        """Transcribe one utterance; on a worker thread, one call at a time for each thread.

        Args:
            audio: at ``HEARING_RATE``.
            options: wishes of the client.
        """


# --- Answering --------------------------------------------------------------------------------


class Answers(VoiceEngine, Protocol):
    """Continues a conversation."""

    def answer(
        self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> AsyncGenerator[Mapping[str, Any]]:
        """Yield the deltas of an assistant's turn, as in Chat Completions' chunks.

        Closing the generator cancels the answer, upstream too.

        Args:
            messages: of a chat completion request, the oldest first.
            options: further members of such a request: ``tools``, ``temperature`` and the like.

        Raises:
            ModelError: no answer can be had, or it breaks off.
        """


# --- Speaking ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpeakingOptions:
    """Wishes of a client; an engine ignores those that it cannot obey.

    Attributes:
        voice: the name of a voice; empty for the engine's own.
        speed: 1.0 is the engine's usual speed.
        language: a code such as ``en``; empty for the voice's own.
    """

    voice: str = ""
    speed: float = 1.0
    language: str = ""


class Speaks(VoiceEngine, Protocol):
    """Turns text into speech.

    Attributes:
        rate: samples per second of the audio, known once the engine is loaded.
        voices: names that ``voice`` may have; empty if the engine has one voice only.
    """

    rate: int
    voices: Sequence[str]

    def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
        """Yield the audio of a phrase; on a worker thread, one call at a time for each thread."""


# --- Turns ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpeechEdge:
    """A beginning or an end of speech.

    Attributes:
        begins: whether speech begins; otherwise it ends.
        at: seconds from the beginning of the stream's audio.
    """

    begins: bool
    at: float


class SpeechDetector(Protocol):
    """Finds speech in the audio of one stream.

    Attributes:
        judged: seconds of audio about which the detector has decided.
    """

    judged: float

    def feed(self, audio: Samples) -> Sequence[SpeechEdge]:
        """Add any number of samples at ``HEARING_RATE``; called on the event loop."""

    def end(self) -> Sequence[SpeechEdge]:
        """End the audio, and any speech in it."""


class Turns(VoiceEngine, Protocol):
    """Finds out when somebody speaks, and when a turn is over."""

    def detector(self) -> SpeechDetector:
        """Make the detector of one stream."""

    def is_complete(self, audio: Samples) -> bool:
        """Whether a turn sounds complete, judged at a pause; on a worker thread.

        Args:
            audio: the turn so far, at ``HEARING_RATE``.
        """
