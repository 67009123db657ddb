"""Word error rates of the engine, bare and behind ``v1/listen``, on the same audio.

Behind the stream, the texts of all voices may have at most one word error more for each hundred
words. So may those of each voice, or one word, and the engine's texts in all, beside faster-whisper
with its whole windows. Whisper's own normaliser
prepares them. ``SENTENCES`` in the environment limits the number of sentences.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jiwer
import pytest
from whisper_normalizer.english import EnglishTextNormalizer

from benchmarks.voice_words import bare_text
from partway.container.models.voice.engines.faster_whisper import FasterWhisper
from partway.container.models.voice.interfaces import HearingOptions
from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.testing import Served, serving
from tests.container.models.voice.sounds import silence
from tests.container.models.voice.spoken import (
    SENTENCES,
    VOICES,
    Spoken,
    spoken,
    whisper_directory,
)

pytestmark = pytest.mark.timeout(1800)

COUNT = int(os.environ.get("SENTENCES", len(SENTENCES)))
#: Points that the stream may add to the bare engine's rate, and the engine to faster-whisper's.
MOST_MORE = 1.0
#: Bytes of a client's message: 20 ms.
PIECE = 640


@dataclass(slots=True)
class Texts:
    """What was said, and what was heard."""

    said: list[str]
    bare: list[str]
    streamed: list[str]


def rate(said: list[str], heard: list[str]) -> float:
    """The word error rate in per cent."""
    normal = EnglishTextNormalizer()
    return 100 * jiwer.wer([normal(each) for each in said], [normal(each) for each in heard])


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: each takes minutes, and hears the same."""
    return "asyncio"


@pytest.fixture(scope="module")
def engine() -> FasterWhisper:
    engine = FasterWhisper()
    engine.load(whisper_directory())
    return engine


async def streamed(served: Served, each: Spoken) -> str:
    """The text of a sentence behind ``v1/listen``."""
    query = {"language": "en", "sample_rate": "16000", "encoding": "linear16"}
    audio = each.audio.tobytes() + silence(0.6).tobytes()
    texts = []
    async with served.stream("v1/listen", query) as client:
        for begin in range(0, len(audio), PIECE):
            await client.send(audio[begin : begin + PIECE])
        await client.send('{"type":"CloseStream"}')
        async for message in client:
            event = json.loads(message)
            if event["type"] == "Results":
                texts.append(event["channel"]["alternatives"][0]["transcript"])
    return " ".join(filter(None, texts))


@pytest.fixture(scope="module")
def all_texts() -> Iterator[dict[str, Texts]]:
    texts: dict[str, Texts] = {}
    yield texts
    said = [text for each in texts.values() for text in each.said]
    bare = [text for each in texts.values() for text in each.bare]
    heard = [text for each in texts.values() for text in each.streamed]
    if said:
        print(f"\nall: bare {rate(said, bare):.1f} %, behind the stream {rate(said, heard):.1f} %")


@pytest.mark.parametrize("turns", [os.environ.get("TURNS", "energy")])
@pytest.mark.parametrize("voice", VOICES)
async def test_the_stream_adds_no_word_errors(
    voice: str,
    turns: str,
    engine: FasterWhisper,
    all_texts: dict[str, Texts],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sentences = spoken(voice, tmp_path, COUNT)
    texts = all_texts[voice] = Texts([each.text for each in sentences], [], [])
    began = time.monotonic()
    wishes = HearingOptions(language="en")
    texts.bare += [engine.hear(each.audio, wishes).text for each in sentences]
    middle = time.monotonic()
    settings = VoiceSettings(hears=f"faster-whisper:{whisper_directory()}", turns=turns)
    async with serving(Voice(settings)) as served:
        texts.streamed += [await streamed(served, each) for each in sentences]
    end = time.monotonic()
    bare, behind = rate(texts.said, texts.bare), rate(texts.said, texts.streamed)
    with capsys.disabled():
        print(
            f"\n{voice}: {len(sentences)} sentences, bare {bare:.1f} % in {middle - began:.0f} s, "
            f"behind the stream {behind:.1f} % in {end - middle:.0f} s"
        )
        for said, one, other in zip(texts.said, texts.bare, texts.streamed, strict=True):
            if rate([said], [other]) > rate([said], [one]):
                print(f"  said: {said}\n  bare: {one}\n  streamed: {other}")
    one_word = 100 / len(" ".join(texts.said).split())
    assert behind <= bare + max(MOST_MORE, one_word)


def test_the_stream_adds_no_word_errors_in_all(all_texts: dict[str, Texts]) -> None:
    """The human recording alone has fewer words than a hundred."""
    said = [text for each in all_texts.values() for text in each.said]
    bare = [text for each in all_texts.values() for text in each.bare]
    heard = [text for each in all_texts.values() for text in each.streamed]
    assert said, "the voices were heard before"
    assert rate(said, heard) <= rate(said, bare) + MOST_MORE


@pytest.mark.skipif(len(SENTENCES) > COUNT, reason="a few words are more than a point")
def test_short_windows_add_no_word_errors_in_all(
    engine: FasterWhisper, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from faster_whisper import WhisperModel

    model = WhisperModel(str(whisper_directory()), local_files_only=True)
    said, bare, heard = [], [], []
    for voice in VOICES:
        folder = tmp_path / voice
        folder.mkdir()
        for each in spoken(voice, folder, COUNT):
            said.append(each.text)
            bare.append(bare_text(model, each.audio))
            heard.append(engine.hear(each.audio, HearingOptions(language="en")).text)
    whole, short = rate(said, bare), rate(said, heard)
    with capsys.disabled():
        print(f"\nwhole windows {whole:.1f} %, short ones {short:.1f} %")
    assert short <= whole + MOST_MORE


def test_silence_and_noise_have_no_text(engine: FasterWhisper) -> None:
    import numpy as np

    noise = np.random.default_rng(1).normal(0, 200, 80_000).astype(np.int16)
    for audio in (silence(5.0), noise):
        assert engine.hear(audio, HearingOptions()).text == ""
