"""Settings of the model ``voice``: environment variables, the only way to configure an image."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BeforeValidator, Field, Strict

from partway.container.limits import MAX_RUNNING
from partway.container.settings import Settings

_SWITCHES: Final = {"0": False, "1": True}


def _read_switch(value: object) -> object:
    """Read a variable's text; any other text is left to be refused."""
    return _SWITCHES.get(value, value) if isinstance(value, str) else value


Switch = Annotated[bool, Strict(), BeforeValidator(_read_switch)]
ThreadCount = Annotated[int, Field(ge=1, le=64)]


class VoiceSettings(Settings, prefix="PARTWAY_VOICE_"):
    """The settings.

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
        streams: streams that may be open at a time; one more is refused with 503.
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
    hearing_threads: ThreadCount = 1
    speaking_threads: ThreadCount = 1
    queue: int = Field(64, ge=0, le=10_000)
    streams: int = Field(256, ge=1, le=MAX_RUNNING)
    endpointing_ms: int = Field(400, ge=10, le=10_000)
    eager_ms: int = Field(160, ge=0, le=10_000)
    interrupts: Switch = Field(default=True, description="0 or 1")
    min_words: int = Field(0, ge=0, le=100)


def variable_of(name: str) -> str:
    return f"{VoiceSettings.variable_prefix}{name.upper()}"
