"""Settings of the model ``voice``: environment variables, the only way to configure an image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

_PREFIX: Final = "PARTWAY_VOICE_"
#: The range of each setting that is a whole number.
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "hearing_threads": (1, 64),
    "speaking_threads": (1, 64),
    "queue": (0, 10_000),
    "endpointing_ms": (10, 10_000),
    "eager_ms": (0, 10_000),
    "min_words": (0, 100),
}
_SWITCHES: Final = {"0": False, "1": True}


@dataclass(frozen=True, slots=True)
class VoiceSettings:
    """The settings; the variable of each is ``PARTWAY_VOICE_`` and its name in capitals.

    An engine is named as ``ADAPTER`` or ``ADAPTER:PLACE``, or as ``module:Class`` if it is an
    author's own.

    Attributes:
        hears: the engine that turns speech into text; empty for none.
        speaks: the engine that turns text into speech; empty for none.
        answers: the engine that continues a conversation; empty for none.
        turns: the engine that finds out when somebody speaks.
        language: the language of speech, such as ``en``, if a client names none; empty to let the
            engine find out.
        system: the system prompt of conversations; empty for none.
        hearing_threads: utterances that are transcribed at a time.
        speaking_threads: phrases that are spoken at a time.
        queue: jobs that may wait for each engine; one more is refused by the engine's name.
        endpointing_ms: silence that ends a turn, if a client names none.
        eager_ms: silence after which an utterance is transcribed before its turn has ended; 0
            waits for the end.
        interrupts: whether speech of the user ends the answer that is being spoken. The variable
            is 0 or 1.
        min_words: words that must be heard before speech interrupts; 0 for any speech.
    """

    hears: str = ""
    speaks: str = ""
    answers: str = ""
    turns: str = "energy"
    language: str = ""
    system: str = ""
    hearing_threads: int = 1
    speaking_threads: int = 1
    queue: int = 64
    endpointing_ms: int = 400
    eager_ms: int = 160
    interrupts: bool = True
    min_words: int = 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings; a variable that is empty counts as unset.

        Raises:
            ValueError: a variable has another form; the message names it.
        """
        found: dict[str, Any] = {}
        for each in fields(cls):
            variable = variable_of(each.name)
            if text := environment.get(variable, ""):
                found[each.name] = _value(each.name, variable, text)
        return cls(**found)


def variable_of(name: str) -> str:
    return _PREFIX + name.upper()


#: The variable of each setting.
VARIABLES: Final = frozenset(variable_of(each.name) for each in fields(VoiceSettings))


def _value(name: str, variable: str, text: str) -> str | int | bool:
    if name in _RANGES:
        return _number(variable, text, *_RANGES[name])
    if name == "interrupts":
        if text not in _SWITCHES:
            raise ValueError(f"{variable} is {text[:40]!r}; it must be 0 or 1")
        return _SWITCHES[text]
    return text


def _number(variable: str, text: str, least: int, most: int) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= 9 and least <= int(text) <= most:
        return int(text)
    raise ValueError(f"{variable} is {text[:40]!r}; it must be a whole number, {least} to {most}")
