"""Settings of the model ``voice``: environment variables, the only way to configure an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, Strict

from partway.container.errors import SettingsRefused
from partway.container.limits import MAX_RUNNING
from partway.container.models.chat.settings import ChatSettings
from partway.container.models.text.settings import TextSettings
from partway.container.settings import Settings

#: The settings of engines that answer; the engines read them when they load.
_OF_ANSWERS: Final[Mapping[str, type[Settings]]] = {"chat": ChatSettings, "text": TextSettings}

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

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], *, flags: bool = True) -> Self:
        """Read the settings, and check those of ``chat`` or ``text`` if that model answers.

        Raises:
            SettingsRefused: a variable of either model is wrong, missing or unknown.
        """
        faults = _faults_of_answers(environment)
        try:
            settings = super().from_environment(environment, flags=flags)
        except SettingsRefused as refused:
            raise SettingsRefused("\n".join((str(refused), *faults))) from None
        if faults:
            raise SettingsRefused(*faults)
        return settings


def _faults_of_answers(environment: Mapping[str, str]) -> tuple[str, ...]:
    answers, _, _ = environment.get(variable_of("answers"), "").partition(":")
    try:
        if (kind := _OF_ANSWERS.get(answers)) is not None:
            kind.from_environment(environment, flags=False)
    except SettingsRefused as refused:
        return (str(refused),)
    return ()


def variable_of(name: str) -> str:
    return f"{VoiceSettings.variable_prefix}{name.upper()}"
