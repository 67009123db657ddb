"""Wishes for speech in a query, as Deepgram's clients name them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from multidict import MultiMapping

from partway.container.errors import ModelError
from partway.container.models.voice.audio_formats import ENCODINGS, AudioFormat, Encoding
from partway.container.models.voice.interfaces import SpeakingOptions

#: OpenAI's range of speeds; Deepgram's is within it.
SLOWEST: Final = 0.25
FASTEST: Final = 4.0

#: Samples per second, where a client names none; as Deepgram's.
_USUAL_RATE: Final[Mapping[str, int]] = {"linear16": 24_000, "mulaw": 8_000, "alaw": 8_000}
_CONTAINERS: Final = ("none", "wav")
_OBEYED: Final = frozenset({"encoding", "sample_rate", "container", "model", "speed"})
#: Deepgram's SDK has it as a number, which may be written with a point.
_RATE: Final = re.compile(r"[0-9]{1,6}(\.0)?")
#: The language at the end of a Deepgram voice's name, such as aura-2-helena-en or flux-haley-en.
_LANGUAGE: Final = re.compile(r"(?:aura|flux)-.*-([a-z]{2})")


@dataclass(frozen=True, slots=True)
class SpeechQuery:
    """A query of ``v1/speak`` or ``v2/speak``.

    Attributes:
        container: ``none`` or ``wav``.
        ignored: names of parameters without effect.
    """

    audio: AudioFormat
    container: str = "none"
    options: SpeakingOptions = field(default_factory=SpeakingOptions)
    ignored: tuple[str, ...] = ()


def read_speech_query(query: MultiMapping[str], *, container: str = "none") -> SpeechQuery:
    """Read a query.

    Args:
        query: the parameters; the last one of a name counts.
        container: of a client that names none.

    Raises:
        ModelError: a parameter is out of range; the status is 400.
    """
    found = dict(query.items())
    encoding = found.get("encoding", "linear16")
    if encoding not in ENCODINGS:
        raise refused("encoding", encoding, f"one of {', '.join(ENCODINGS)}")
    rate = found.get("sample_rate", str(_USUAL_RATE[encoding]))
    if not _RATE.fullmatch(rate):
        raise refused("sample_rate", rate, "a whole number")
    container = found.get("container", container)
    if container not in _CONTAINERS:
        raise refused("container", container, f"one of {', '.join(_CONTAINERS)}")
    try:
        audio = AudioFormat(cast("Encoding", encoding), int(float(rate)))
    except ValueError as error:
        raise ModelError(str(error), status=400) from None
    voice = found.get("model", "")
    language = _LANGUAGE.fullmatch(voice)
    options = SpeakingOptions(
        voice=voice,
        speed=speed_of(found.get("speed", "1")),
        language="" if language is None else language[1],
    )
    return SpeechQuery(audio, container, options, tuple(sorted(found.keys() - _OBEYED)))


def speed_of(value: object) -> float:
    """Return a speed, from a number or its text.

    Raises:
        ModelError: it is no number, or out of range; the status is 400.
    """
    return number_of("speed", value, SLOWEST, FASTEST)


def number_of(name: str, value: object, least: float, most: float) -> float:
    """Return a number that a client has written as such, or as a text.

    Raises:
        ModelError: it is no number, or out of range; the status is 400.
    """
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not least <= number <= most:
        raise refused(name, value, f"a number from {least:g} to {most:g}")
    return number


def refused(name: str, value: object, expected: str) -> ModelError:
    """Return the refusal of a client's wish, with the status 400."""
    return ModelError(f"{name} is {ascii(value)[:40]}; it must be {expected}", status=400)
