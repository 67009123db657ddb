"""partway.container.models.voice.engines.kokoro: files and inputs, with a network that repeats."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from partway.container.errors import ModelError, SettingsRefused
from partway.container.models.voice.engines import kokoro
from partway.container.models.voice.engines.kokoro import Kokoro
from partway.container.models.voice.interfaces import SpeakingOptions

LETTERS = "abcdefghijklmnopqrstuvwxyz ,."
INPUTS = {"tokens": "tensor(int64)", "style": "tensor(float)", "speed": "tensor(float)"}


class Session:
    """Its audio has a sample for each number, and one each of the style and the speed."""

    inputs = INPUTS

    def __init__(self, place: Path, providers: list[str]) -> None:
        assert place.name == "kokoro.onnx"

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(name=name, type=kind) for name, kind in self.inputs.items()]

    def run(self, outputs: None, given: dict[str, Any]) -> list[Any]:
        tokens, style, speed = (given[name] for name in self.inputs)
        assert (tokens.dtype, style.dtype) == (np.int64, np.float32)
        assert (tokens.ndim, style.shape, speed.shape) == (2, (1, 256), (1,))
        assert tokens[0, 0] == tokens[0, -1] == 0
        told = [style[0, 0] / 1000, speed[0] / 10, 7.0]
        return [np.array([[*(tokens[0, 1:-1] / 100), *told]], np.float32)]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A directory of a network with two voices, whose styles are the lengths of their texts."""
    vocabulary = {letter: number for number, letter in enumerate(LETTERS, 1)}
    (tmp_path / "config.json").write_text(json.dumps({"vocab": vocabulary}))
    (tmp_path / "kokoro.onnx").write_bytes(b"")
    styles = np.repeat(np.arange(1, 511, dtype=np.float32), 256)
    np.savez(tmp_path / "voices.npz", af_one=styles.reshape(510, 1, 256), bf_two=styles + 100)
    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace(InferenceSession=Session))
    phonemes = SimpleNamespace(of=lambda text, voice, language: text)
    monkeypatch.setattr(kokoro, "EspeakPhonemes", lambda: phonemes)
    monkeypatch.setattr(Session, "inputs", INPUTS)
    return tmp_path


def spoken(engine: Kokoro, text: str, **options: Any) -> list[list[int]]:
    return [audio.tolist() for audio in engine.speak(text, SpeakingOptions(**options))]


def loaded(folder: Path) -> Kokoro:
    engine = Kokoro()
    engine.load(folder)
    return engine


def level(*values: float) -> list[int]:
    return [int(value * 32_767) for value in np.array(values, np.float32)]


def test_a_text(folder):
    engine = loaded(folder)
    assert engine.voices == ("af_one", "bf_two")
    assert engine.rate == 24_000
    assert spoken(engine, "ab!c") == [level(0.01, 0.02, 0.03, 0.003, 0.1, 1)]
    assert spoken(engine, "a", voice="bf_two", speed=2.0) == [level(0.01, 0.101, 0.2, 1)]
    assert spoken(engine, "a", voice="alloy") == [level(0.01, 0.001, 0.1, 1)]
    assert spoken(engine, "!") == []


def test_a_long_text_is_spoken_in_parts(folder):
    assert [len(part) for part in spoken(loaded(folder), "a" * 1000)] == [513, 493]


def test_the_other_names_of_inputs(folder, monkeypatch):
    inputs = {"input_ids": "tensor(int64)", "style": "tensor(float)", "speed": "tensor(int32)"}
    monkeypatch.setattr(Session, "inputs", inputs)
    engine = loaded(folder)
    assert spoken(engine, "a", speed=2.0) == [level(0.01, 0.001, 0.2, 1)]
    assert spoken(engine, "a", speed=0.25) == [level(0.01, 0.001, 0.1, 1)]
    assert spoken(engine, "a", speed=1.75) == [level(0.01, 0.001, 0.2, 1)]
    monkeypatch.setattr(Session, "inputs", {"x": "tensor(int64)"})
    with pytest.raises(ModelError, match="takes x; it must take input_ids"):
        loaded(folder)


def test_voices_in_files_of_their_own(folder):
    (folder / "voices.npz").unlink()
    (folder / "voices").mkdir()
    np.ones(510 * 256, np.float32).tofile(folder / "voices" / "af_x.bin")
    assert loaded(folder).voices == ("af_x",)
    np.ones(100, np.float32).tofile(folder / "voices" / "af_y.bin")
    with pytest.raises(ModelError, match="has a voice 'af_y' of another form"):
        loaded(folder)


def test_files_that_are_missing(folder):
    for place in (None, folder / "config.json"):
        with pytest.raises(
            SettingsRefused, match="is no directory; PARTWAY_VOICE_SPEAKS must name"
        ):
            Kokoro().load(place)
    (folder / "kokoro.onnx").unlink()
    with pytest.raises(ModelError, match=r"has 0 files \*\.onnx; it must have one"):
        loaded(folder)
    (folder / "voices.npz").unlink()
    with pytest.raises(ModelError, match="has no voice; it must have"):
        loaded(folder)
    (folder / "config.json").write_text("[]")
    with pytest.raises(ModelError, match=r"config\.json has no member vocab"):
        loaded(folder)
