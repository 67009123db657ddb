"""The loads of a voice benchmark: processes that speak sentences from a folder, and their turns."""

from __future__ import annotations

import sys
import wave
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.rounds import RunError, printed
from benchmarks.voice_peers import on_core
from partway.container.models.voice.interfaces import HEARING_RATE
from tests.container.models.voice.spoken import Spoken

#: Seconds after which a load is ended: longer than any sensible one.
_TIMEOUT: Final = 1_800.0


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of a load; times are seconds.

    Attributes:
        first: of each sentence's number, from the end of speech to the first audio.
        shares: of each answer's time, as :func:`benchmarks.voice_client.shares` divides it.
        wanted: the turns that were wanted; one without an answer is the last of its user.
        silence: the longest silence within an answer.
        late: the longest delay of a part of an answer.
        events: of each turn.
        lateness: the 99th percentile of the load's own frames.
        frames: their number.
    """

    first: Sequence[tuple[int, float]]
    shares: Sequence[Sequence[float]]
    wanted: int
    silence: float
    late: float
    events: Sequence[Sequence[str]]
    lateness: float
    frames: int

    @property
    def are_answered(self) -> bool:
        return len(self.first) == self.wanted

    @classmethod
    def of(cls, found: dict[str, Any]) -> Turns:
        """Read the output of a load.

        Raises:
            RunError: no turn was answered.
        """
        turns = found["turns"]
        answered = [each for each in turns if each["first_audio"] is not None]
        if not answered:
            raise RunError("no turn was answered")
        return cls(
            [(each["sentence"], each["first_audio"]) for each in answered],
            [each["shares"] for each in answered if each["shares"]],
            found["wanted"],
            max(each["silence"] for each in answered),
            max(each["late"] for each in answered),
            [each["events"] for each in turns],
            found["lateness"]["p99"],
            found["frames"],
        )


def turns(url: str, folder: Path, *options: str, core: int | None = None) -> Turns:
    """Let users talk with an assistant."""
    return Turns.of(run("benchmarks.voice_client", url, str(folder), *options, core=core))


def run(module: str, *arguments: str, core: int | None = None) -> dict[str, Any]:
    """Run a load to its end.

    Raises:
        RunError: the load failed, or did not end in time.
    """
    command = on_core(core, [sys.executable, "-m", module, *arguments])
    found: dict[str, Any] = printed(f"{module} {arguments[0]}", command, _TIMEOUT)
    return found


def write(folder: Path, sentences: Iterable[Spoken]) -> Path:
    """Write sentences as the loads read them; return their folder."""
    folder.mkdir()
    for number, each in enumerate(sentences):
        with wave.open(str(folder / f"{number:03}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(HEARING_RATE)
            file.writeframes(each.audio.tobytes())
    return folder


def percentiles(values: Sequence[float], *ranks: float) -> list[float]:
    """Return percentiles; the list may not be empty."""
    return [float(each) for each in np.percentile(values, ranks)]
