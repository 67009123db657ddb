"""The engines that ship, by name, and the reading of a setting that names one."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from partway.container.cli.target import put_on_path
from partway.container.errors import SettingsRefused
from partway.container.models.voice.settings import variable_of

_HOME: Final = "partway.container.models.voice.engines"

#: The adapters of each setting. They are strings, so that an engine is only imported when a
#: setting names it.
SHIPPED: Final[Mapping[str, Mapping[str, str]]] = {
    "hears": {
        "faster-whisper": f"{_HOME}.faster_whisper:FasterWhisper",
        "stub": f"{_HOME}.stub_hearing:StubHearing",
    },
    "speaks": {
        "espeak-ng": f"{_HOME}.espeak:Espeak",
        "kokoro": f"{_HOME}.kokoro:Kokoro",
        "piper": f"{_HOME}.piper:Piper",
        "stub": f"{_HOME}.stub_speech:StubSpeech",
    },
    "answers": {
        "chat": f"{_HOME}.chat_answers:ChatAnswers",
        "stub": f"{_HOME}.stub_answers:StubAnswers",
        "text": f"{_HOME}.text_answers:TextAnswers",
    },
    "turns": {
        "energy": f"{_HOME}.energy:EnergyTurns",
        "silero": f"{_HOME}.silero:SileroTurns",
        "smart-turn": f"{_HOME}.smart_turn:SmartTurn",
        "stub": f"{_HOME}.stub_turns:StubTurns",
    },
}

#: Methods that an engine of each setting must have.
_METHODS: Final = {
    "hears": ("load", "hear"),
    "speaks": ("load", "speak"),
    "answers": ("load", "answer"),
    "turns": ("load", "detector", "is_complete"),
}


@dataclass(frozen=True, slots=True)
class EngineName:
    """The parts of a setting that names an engine.

    Attributes:
        setting: the setting's name, such as ``hears``.
        text: the setting's text.
        target: ``module:Class``.
        place: the directory or program that the setting names; None if it names none.
    """

    setting: str
    text: str
    target: str
    place: Path | None

    def load(self) -> Any:
        """Create the engine, load it from its place, and return it.

        Raises:
            SettingsRefused: as for :meth:`make`, or a package of an engine that ships is not
                installed.
            Exception: any exception of the engine.
        """
        engine = self.make()
        try:
            engine.load(self.place)
        except ModuleNotFoundError as error:
            if not self._ships:
                raise
            raise SettingsRefused(
                f"{variable_of(self.setting)} is {self.text!r}, which needs the package "
                f"{error.name}, and it is not installed: pip install 'partway[voice]'"
            ) from error
        return engine

    @property
    def _ships(self) -> bool:
        return self.target in SHIPPED[self.setting].values()

    def make(self) -> Any:
        """Import the engine's class, and create the engine.

        Raises:
            SettingsRefused: there is no such class, or it lacks a method; the message names the
                setting.
        """
        variable = variable_of(self.setting)
        module_name, _, attribute = self.target.partition(":")
        if not self._ships:
            put_on_path(Path.cwd())
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            raise SettingsRefused(
                f"{variable} is {self.text!r}; there is no module {error.name} on Python's path"
            ) from error
        kind = getattr(module, attribute, None)
        if not isinstance(kind, type):
            raise SettingsRefused(
                f"{variable} is {self.text!r}; {module_name} has no class {attribute!r}"
            )
        missing = [each for each in _METHODS[self.setting] if not hasattr(kind, each)]
        if missing:
            raise SettingsRefused(
                f"{variable} is {self.text!r}; the class must have {', '.join(missing)}"
            )
        return kind()


def read_name(setting: str, text: str, model_dir: Path) -> EngineName:
    """Read a setting that names an engine.

    Args:
        setting: the setting's name, such as ``hears``.
        text: ``ADAPTER``, ``ADAPTER:PLACE``, ``module:Class`` or ``module:Class:PLACE``.
        model_dir: the folder that a relative place is below.

    Raises:
        SettingsRefused: the text has another form; the message names the setting.
    """
    first, colon, rest = text.partition(":")
    shipped = SHIPPED[setting]
    if first in shipped:
        target, place = shipped[first], rest
    else:
        name, _, place = rest.partition(":")
        if not (colon and name.isidentifier() and _is_module(first)):
            known = ", ".join(sorted(shipped))
            raise SettingsRefused(
                f"{variable_of(setting)} is {text!r}; it must name an engine that ships "
                f"({known}), or your own as module:Class"
            )
        target = f"{first}:{name}"
    return EngineName(setting, text, target, model_dir / place if place else None)


def _is_module(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))
