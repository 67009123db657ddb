"""The engines of a container, loaded by its settings."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from partway.container.errors import ModelError
from partway.container.models.voice.engine_names import read_name
from partway.container.models.voice.engine_pool import EnginePool
from partway.container.models.voice.hearing import Hearing
from partway.container.models.voice.interfaces import Answers, Hears, Speaks, Turns
from partway.container.models.voice.settings import VoiceSettings, variable_of
from partway.container.models.voice.speaking import Speaking
from partway.container.models.voice.turn_detection import TurnDetection
from partway.container.workers import Threads
from partway.log_lines import LogLine

_log = logging.getLogger("partway.container.voice")

#: An example of each setting that names an engine, for refusals.
_EXAMPLES: Final[Mapping[str, str]] = {
    "hears": "faster-whisper:/opt/ml/model",
    "speaks": "espeak-ng",
    "answers": "chat",
}


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines that the settings name, for all streams and requests.

    Attributes:
        hearing: None if no engine hears.
        speaking: None if no engine speaks.
        answers: None if no engine answers.
        ffmpeg: the program that reads and writes compressed audio; None where it is not installed.
        pools: the engines that have threads; an engine that answers may bring further ones.
    """

    settings: VoiceSettings
    turns: TurnDetection
    hearing: Hearing | None
    speaking: Speaking | None
    answers: Answers | None
    ffmpeg: str | None
    pools: tuple[EnginePool[Any], ...]

    @classmethod
    def load(cls, settings: VoiceSettings, model_dir: Path) -> Engines:
        """Load each engine, one after the other, and find ffmpeg on the path.

        Raises:
            SettingsRefused: a setting names no engine, or one that lacks a package or a file.
            Exception: any exception of an engine.
        """
        load = _Loading(settings, model_dir)
        turns: EnginePool[Turns] = load.pool("turns", "turn", settings.hearing_threads)
        hears: EnginePool[Hears] | None = load.pool("hears", "hearing", settings.hearing_threads)
        speaks: EnginePool[Speaks] | None = load.pool(
            "speaks", "speaking", settings.speaking_threads
        )
        answers = load.engine("answers")
        _log_unset(settings)
        load.pools += getattr(answers, "pools", ())
        return cls(
            settings=settings,
            turns=TurnDetection(turns),
            hearing=None if hears is None else Hearing(hears),
            speaking=None if speaks is None else Speaking(speaks),
            answers=answers,
            ffmpeg=shutil.which("ffmpeg"),
            pools=tuple(load.pools),
        )

    @property
    def loaded(self) -> tuple[Any, ...]:
        """Every engine; None for one that answers if there is none."""
        return (*(pool.engine for pool in self.pools), self.answers)

    def need(self, what: str, *settings: str) -> None:
        """Check that engines are configured.

        Args:
            what: the path that needs them, for the refusal.
            settings: the names of the settings: ``hears``, ``speaks`` or ``answers``.

        Raises:
            ModelError: the setting of one is empty; the reason names its variable.
        """
        for name in settings:
            if not getattr(self.settings, name):
                raise ModelError(
                    f"{what} needs an engine that {name}, and none is configured: set "
                    f"{variable_of(name)}, such as {_EXAMPLES[name]}",
                    status=501,
                )

    def trouble(self) -> str | None:
        """Why an engine cannot serve, for ``/ping``; None if all can."""
        return next((said for pool in self.pools if (said := pool.trouble())), None)

    def close(self) -> None:
        """End the threads, and unload each engine that has ``unload``; on any thread."""
        for pool in self.pools:
            pool.close()
        for engine in self.loaded:
            if callable(unload := getattr(engine, "unload", None)):
                unload()


def _log_unset(settings: VoiceSettings) -> None:
    """Name the variables of engines that are not configured; without any, nothing is served."""
    unset = [variable_of(name) for name in _EXAMPLES if not getattr(settings, name)]
    if not unset:
        return
    level = logging.WARNING if len(unset) == len(_EXAMPLES) else logging.INFO
    what = "engines are not configured: paths that need them answer 501"
    _log.log(level, LogLine(what, variables=", ".join(unset)))


class _Loading:
    """Loads engines one after the other, and keeps their pools."""

    def __init__(self, settings: VoiceSettings, model_dir: Path) -> None:
        self._settings = settings
        self._model_dir = model_dir
        self.pools: list[EnginePool[Any]] = []

    def pool(self, setting: str, name: str, threads: int) -> Any:
        """Return a loaded engine with its threads; None if the setting is empty."""
        engine = self.engine(setting)
        if engine is None:
            return None
        pool: EnginePool[Any] = EnginePool(
            engine, name, Threads(count=threads, queue=self._settings.queue)
        )
        self.pools.append(pool)
        return pool

    def engine(self, setting: str) -> Any:
        """Return a loaded engine; None if the setting is empty."""
        text = getattr(self._settings, setting)
        if not text:
            return None
        name = read_name(setting, text, self._model_dir)
        began = time.monotonic()
        engine = name.load()
        took = round(time.monotonic() - began, 1)
        _log.info(LogLine("an engine is loaded", setting=setting, engine=text, seconds=took))
        return engine
