"""Utterances with known places of speech, and noise to hide them in."""

from __future__ import annotations

import io
import shutil
import subprocess
import wave
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import StartError

RATE = 16_000
#: Samples of one frame, which is speech or is not.
FRAME = RATE // 50

#: A frame is speech when it is within this many decibels of its clean signal's loudest.
_SPEECH_RANGE = 40.0
#: Seconds of silence before, between and after phrases.
_SILENCE = (0.5, 2.0)
#: Words in a phrase and phrases in an utterance, from one number to below the other.
_WORDS, _PHRASES = (2, 9), (1, 4)
#: Words a minute, and espeak-ng's pitch.
_SPEEDS, _PITCHES = (120, 230), (20, 80)
#: Of speech, in decibels below full scale: nothing may depend on the gain.
_LEVELS = (-36.0, -18.0)
_TALKERS = 8
_BABBLE_SECONDS = 20
_SAY_TIMEOUT = 20.0

_WORDS_OF = {
    "en-us": "water seven garden people simple travel shadow yellow open question fast music",
    "en-gb-x-rp": "charming thirty station village picture after bright island often mother",
    "en-gb-scotland": "winter castle river nothing eighty bonny weather market around small",
    "de": "Straße zwanzig Fenster schnell Freunde morgen Wasser gehen Zeitung immer Apfel",
    "fr-fr": "bonjour fenêtre chaise toujours quatre maison petit rouge voyage enfant soleil",
    "es": "ventana siempre trece jardín amigo mañana playa perro verde escuchar noche",
    "it": "finestra sempre dodici giardino amico domani spiaggia gatto verde strada",
    "pt-br": "janela cedo quinze jardim cidade amanhã praia cachorro azul escola chuva",
    "pl": "okno zawsze dwanaście ogród przyjaciel jutro pies zielony szkoła deszcz",
    "sv": "fönster alltid tolv trädgård vän imorgon strand hund grön skola regn",
    "ru": "окно всегда двенадцать сад друг завтра пляж собака зелёный школа дождь",
    "tr": "pencere her zaman on iki bahçe arkadaş yarın köpek yeşil okul yağmur",
}
_VARIANTS = ("", "+m1", "+m3", "+m7", "+f1", "+f2", "+f4")

Signal = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Utterance:
    """One utterance, without noise.

    Attributes:
        clean: samples from -1 to 1, at 16 kHz.
        speech: for each whole frame of 20 ms, whether it is speech.
    """

    clean: Signal
    speech: NDArray[np.bool_]

    def power(self) -> float:
        """The mean square of the frames of speech."""
        whole = len(self.speech) * FRAME
        return float(np.mean(self.clean[:whole].reshape(-1, FRAME)[self.speech] ** 2))


def need_espeak() -> None:
    """Check for espeak-ng.

    Raises:
        StartError: espeak-ng is not installed; the message says how to install it.
    """
    if shutil.which("espeak-ng") is None:
        raise StartError("espeak-ng makes the utterances: apt-get install espeak-ng")


# --- Speech --------------------------------------------------------------------------------------


def utterances(count: int, seed: int) -> list[Utterance]:
    """Make ``count`` utterances, the same for the same seed."""
    random = np.random.default_rng(seed)
    return [_utterance(random) for _ in range(count)]


def _utterance(random: np.random.Generator) -> Utterance:
    pieces = [_silence(random)]
    voice = _voice(random)
    for _ in range(random.integers(*_PHRASES)):
        pieces += [_phrase(random, voice), _silence(random)]
    clean = np.concatenate(pieces)
    energies = np.mean(clean[: len(clean) // FRAME * FRAME].reshape(-1, FRAME) ** 2, axis=1)
    utterance = Utterance(clean, energies > energies.max() * 10 ** (-_SPEECH_RANGE / 10))
    gain = 10 ** (random.uniform(*_LEVELS) / 20) / np.sqrt(utterance.power())
    return Utterance(clean * gain, utterance.speech)


def _silence(random: np.random.Generator) -> Signal:
    return np.zeros(int(random.uniform(*_SILENCE) * RATE))


def _voice(random: np.random.Generator) -> tuple[str, str]:
    return str(random.choice(list(_WORDS_OF))), str(random.choice(_VARIANTS))


def _phrase(random: np.random.Generator, voice: tuple[str, str]) -> Signal:
    language, variant = voice
    words = random.choice(_WORDS_OF[language].split(), random.integers(*_WORDS))
    speed, pitch = random.integers(*_SPEEDS), random.integers(*_PITCHES)
    command = ["espeak-ng", "-v", language + variant, "-s", str(speed), "-p", str(pitch)]
    done = subprocess.run(
        [*command, "--stdout", " ".join(words)],
        capture_output=True,
        timeout=_SAY_TIMEOUT,
        check=False,
    )
    if done.returncode or len(done.stdout) <= 44:
        raise StartError(f"espeak-ng said nothing: {done.stderr.decode(errors='replace')[:200]}")
    with wave.open(io.BytesIO(done.stdout)) as sound:
        rate = sound.getframerate()
        samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2") / 32768
    return _resampled(samples, rate)


def _resampled(samples: Signal, rate: int) -> Signal:
    """Resample to 16 kHz: the spectrum is cut off, or continued with zeros."""
    size = len(samples) * RATE // rate
    spectrum = np.fft.rfft(samples)
    kept = np.zeros(size // 2 + 1, complex)
    shared = min(len(kept), len(spectrum))
    kept[:shared] = spectrum[:shared]
    return np.fft.irfft(kept, size) * (size / len(samples))


# --- Noise ---------------------------------------------------------------------------------------


class Noises:
    """Noises of any length, the same for the same seed; their power is about 1."""

    names = ("white", "babble", "street")

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng([seed, 1])
        self._talkers = [self._talker() for _ in range(_TALKERS)]

    def make(self, name: str, size: int) -> Signal:
        """Make ``size`` samples of one of ``names``."""
        made = {"white": self._white, "babble": self._babble, "street": self._street}[name](size)
        return made / np.sqrt(np.mean(made**2))

    def _white(self, size: int) -> Signal:
        return self._random.standard_normal(size)

    def _talker(self) -> Signal:
        """Make one talker without a pause."""
        voice = _voice(self._random)
        pieces: list[Signal] = []
        while sum(map(len, pieces)) < _BABBLE_SECONDS * RATE:
            said = _phrase(self._random, voice)
            pieces.append(said / np.sqrt(np.mean(said**2)))
        return np.concatenate(pieces)

    def _babble(self, size: int) -> Signal:
        """Mix all talkers, each from a random place."""
        total = np.zeros(size)
        for talker in self._talkers:
            total += np.resize(np.roll(talker, self._random.integers(len(talker))), size)
        return total

    def _street(self, size: int) -> Signal:
        """Make pink noise that swells and fades as traffic does, and a mains hum with overtones."""
        seconds = np.arange(size) / RATE
        period = self._random.uniform(4, 8)
        swell = 1 + 0.5 * np.sin(2 * np.pi * (seconds / period + self._random.random()))
        hum = sum(
            np.sin(2 * np.pi * (50 * n * seconds + self._random.random())) / n for n in (1, 2, 3, 5)
        )
        return self._pink(size) * swell + 0.3 * hum

    def _pink(self, size: int) -> Signal:
        spectrum = np.fft.rfft(self._random.standard_normal(size))
        frequencies = np.fft.rfftfreq(size, 1 / RATE)
        pink = np.fft.irfft(spectrum / np.sqrt(np.maximum(frequencies, 20)), size)
        return pink / np.sqrt(np.mean(pink**2))


def noisy(utterance: Utterance, noise: Signal, decibels: float) -> bytes:
    """Mix an utterance with noise of power 1, at a ratio to its speech, as 16-bit PCM."""
    gain = np.sqrt(utterance.power() / 10 ** (decibels / 10))
    mixed = utterance.clean + noise * gain
    return np.clip(np.rint(mixed * 32768), -32768, 32767).astype("<i2").tobytes()


def clips(
    said: list[Utterance], noises: Noises, ratios: tuple[int, ...]
) -> Iterator[tuple[str, int, Utterance, bytes]]:
    """Each utterance in each noise at each ratio: noise, ratio, utterance, PCM."""
    for utterance in said:
        for name in noises.names:
            noise = noises.make(name, len(utterance.clean))
            for ratio in ratios:
                yield name, ratio, utterance, noisy(utterance, noise, ratio)
