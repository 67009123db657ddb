"""Speech by Kokoro-82M, a network whose weights are free: Apache-2.0.

https://huggingface.co/hexgrad/Kokoro-82M, exported to ONNX. It needs onnxruntime, and espeak-ng
for phonemes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from partway.container.errors import ModelError, SettingsRefused
from partway.container.models.voice.engines.kokoro_phonemes import EspeakPhonemes
from partway.container.models.voice.interfaces import Samples, SpeakingOptions

#: Phonemes that the network takes at once, without the two zeros around them.
_CONTEXT: Final = 510
#: The numbers that describe a voice, for each length of text.
_STYLE: Final = 256

#: The voice that its authors grade best.
_BEST: Final = "af_heart"

_Style = NDArray[np.float32]


class Kokoro:
    """The voices of a directory.

    The directory has one ``*.onnx``; ``config.json``, whose member ``vocab`` numbers the phonemes;
    and the voices. They are ``voices/NAME.bin``, or the arrays of one archive, ``voices*.npz`` or
    ``voices*.bin``.
    """

    rate = 24_000
    voices: tuple[str, ...] = ()

    def load(self, place: Path | None) -> None:
        """Load the network and all voices.

        Raises:
            SettingsRefused: the place is no directory.
            ModelError: a file is missing, or has another form.
        """
        if place is None or not place.is_dir():
            raise SettingsRefused(
                f"{str(place or '')!r} is no directory; PARTWAY_VOICE_SPEAKS must name one, such "
                "as kokoro:/voices/kokoro"
            )
        self._vocabulary = _vocabulary(place / "config.json")
        self._styles = _styles(place)
        self.voices = tuple(sorted(self._styles))
        self._usual = _BEST if _BEST in self._styles else self.voices[0]
        self._phonemes = EspeakPhonemes()
        networks = sorted(place.glob("*.onnx"))
        if len(networks) != 1:
            raise ModelError(f"{place} has {len(networks)} files *.onnx; it must have one")
        self._network = _Network(networks[0])
        for _ in self.speak("ready", SpeakingOptions()):  # the first run is slow
            pass

    def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
        """Yield the audio of a phrase, mostly in one piece: the network has no streaming."""
        voice = options.voice if options.voice in self._styles else self._usual
        phonemes = self._phonemes.of(text, voice, options.language)
        numbers = [self._vocabulary[each] for each in phonemes if each in self._vocabulary]
        for start in range(0, len(numbers), _CONTEXT):
            piece = numbers[start : start + _CONTEXT]
            style = self._styles[voice]
            yield self._network.run(piece, style[min(len(piece), len(style)) - 1], options.speed)


class _Network:
    """The network, whose inputs have two names in the exports that there are."""

    def __init__(self, place: Path) -> None:
        import onnxruntime

        self._session = onnxruntime.InferenceSession(place, providers=["CPUExecutionProvider"])
        inputs = {each.name: each.type for each in self._session.get_inputs()}
        self._tokens = "tokens" if "tokens" in inputs else "input_ids"
        if inputs.keys() != {self._tokens, "style", "speed"}:
            raise ModelError(
                f"{place} takes {', '.join(sorted(inputs))}; it must take input_ids (or tokens), "
                "style and speed"
            )
        self._takes_fractions = inputs["speed"] == "tensor(float)"

    def run(self, numbers: list[int], style: _Style, speed: float) -> Samples:
        """Return the audio of some phonemes.

        Args:
            numbers: those of the phonemes.
            style: the voice's, for a text of this length.
            speed: rounded for an export that takes whole numbers; 0 would have no end.
        """
        whole = np.array([max(1, round(speed))], np.int32)
        given = {
            self._tokens: np.array([[0, *numbers, 0]], np.int64),
            "style": style.reshape(1, _STYLE),
            "speed": np.array([speed], np.float32) if self._takes_fractions else whole,
        }
        audio = np.asarray(self._session.run(None, given)[0], np.float32).reshape(-1)
        samples: Samples = (np.clip(audio, -1, 1) * 32_767).astype(np.int16)
        return samples


def _vocabulary(place: Path) -> Mapping[str, int]:
    try:
        found = json.loads(place.read_bytes())["vocab"]
        return {str(letter): int(number) for letter, number in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{place} has no member vocab ({type(error).__name__}); it must be the config.json of "
            "Kokoro-82M"
        ) from None


def _styles(place: Path) -> Mapping[str, _Style]:
    """Return the numbers of each voice, by its name."""
    found = {each.stem: np.fromfile(each, np.float32) for each in place.glob("voices/*.bin")}
    for archive in sorted((*place.glob("voices*.npz"), *place.glob("voices*.bin"))):
        with np.load(archive, allow_pickle=False) as arrays:
            found.update({name: np.asarray(arrays[name], np.float32) for name in arrays.files})
    wrong = sorted(name for name, style in found.items() if not style.size or style.size % _STYLE)
    if wrong or not found:
        raise ModelError(
            f"{place} has {f'a voice {wrong[0]!r} of another form' if wrong else 'no voice'}; it "
            f"must have voices/NAME.bin, or voices.npz, with {_STYLE} numbers for each length"
        )
    return {name: style.reshape(-1, _STYLE) for name, style in found.items()}
