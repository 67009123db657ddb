"""Word error rates of bare faster-whisper, and of the same audio on ``v1/listen``.

Each voice has a stream of its own, and its sentences come in real time, one after the other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jiwer
import numpy as np
from faster_whisper import WhisperModel
from picows import WSFrame, WSMsgType
from whisper_normalizer.english import EnglishTextNormalizer

from benchmarks.load import LoadError
from benchmarks.voice_users import Microphones, Sentence, User, opened
from benchmarks.voice_wires import Samples, event
from partway.container.models.voice.interfaces import HEARING_RATE
from tests.container.models.voice.spoken import Spoken, whisper_directory

#: Points that the stream may add to the bare engine's rate.
MOST_MORE: Final = 1.0
#: Seconds of silence behind a sentence: its turn ends, and a client closes the stream.
_SILENCE: Final = 0.6
_QUERY: Final = f"?language=en&encoding=linear16&sample_rate={HEARING_RATE}"


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of a voice: what was said, and what was heard in each way."""

    said: Sequence[str]
    bare: Sequence[str]
    streamed: Sequence[str]

    def rates(self) -> tuple[float, float]:
        """Return both word error rates, in per cent."""
        return _rate(self.said, self.bare), _rate(self.said, self.streamed)


def joined(all_words: Sequence[Words]) -> Words:
    return Words(
        [text for each in all_words for text in each.said],
        [text for each in all_words for text in each.bare],
        [text for each in all_words for text in each.streamed],
    )


def _rate(said: Sequence[str], heard: Sequence[str]) -> float:
    normal = EnglishTextNormalizer()
    rate = jiwer.wer([normal(each) for each in said], [normal(each) for each in heard])
    return 100 * float(rate)


class Listen:
    """Deepgram's ``v1/listen``: binary samples, and texts in JSON."""

    rate = HEARING_RATE
    greeting = False
    hello: Sequence[bytes] = ()
    kind = WSMsgType.BINARY

    def frame(self, samples: Samples) -> bytes:
        return samples.tobytes()

    def read(self, frame: WSFrame) -> tuple[str, bytes, dict[str, Any]]:
        members = json.loads(frame.get_payload_as_utf8_text())
        return members["type"], b"", members


class Dictation(User):
    """A user who wants the text of a sentence."""

    def __init__(self) -> None:
        super().__init__(Listen(), keep=False)
        self._texts: list[str] = []

    def on_event(self, kind: str, members: dict[str, Any], samples: Samples, now: float) -> None:
        if kind == "Error":
            raise LoadError(f"an error came: {members}")
        if kind == "Results" and members["is_final"]:
            self._texts.append(members["channel"]["alternatives"][0]["transcript"])

    async def dictate(self, audio: Samples) -> str:
        """Say a sentence, and return its text; the stream ends."""
        silence = np.zeros(round(_SILENCE * self.wire.rate), np.int16)
        sentence = Sentence.of(np.concatenate([audio, silence]), self.wire)
        self.say(sentence, 0)
        await self.finish()
        self.send(event("CloseStream"))
        self.is_leaving = True  # nothing more is said
        await self.until("Metadata")
        return " ".join(filter(None, self._texts))


async def streamed(url: str, voices: Mapping[str, Sequence[Spoken]]) -> dict[str, list[str]]:
    """Return the texts of each voice's sentences."""
    texts: dict[str, list[str]] = {voice: [] for voice in voices}
    microphones = Microphones()

    async def dictate(voice: str, phase: float) -> None:
        for each in voices[voice]:
            user = await opened(url + _QUERY, Dictation)
            microphones.add(user, phase)
            texts[voice].append(await user.dictate(each.audio))

    await microphones.run_with(
        *(dictate(voice, number / len(voices)) for number, voice in enumerate(voices))
    )
    return texts


def measure(url: str, voices: Mapping[str, Sequence[Spoken]]) -> dict[str, Words]:
    """Hear all sentences in both ways.

    Args:
        url: of ``v1/listen``.
        voices: the sentences of each voice.
    """
    engine = WhisperModel(str(whisper_directory()), local_files_only=True)
    behind = asyncio.run(streamed(url, voices))
    return {
        voice: Words(
            [each.text for each in spoken],
            [bare_text(engine, each.audio) for each in spoken],
            behind[voice],
        )
        for voice, spoken in voices.items()
    }


def bare_text(engine: WhisperModel, audio: Samples) -> str:
    """Return the text that faster-whisper hears by itself, greedily, in windows of 30 s."""
    segments, _ = engine.transcribe(
        audio.astype(np.float32) / 32768,
        language="en",
        beam_size=1,
        without_timestamps=True,
        condition_on_previous_text=False,
    )
    return " ".join(segment.text.strip() for segment in segments)
