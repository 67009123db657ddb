"""Speech by ``espeak-ng``, a separate program for each phrase.

https://github.com/espeak-ng/espeak-ng (GPL-3.0-or-later; never loaded into this process)
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from partway.container.errors import ModelError
from partway.container.models.voice.engines.piped_program import (
    PipedProgram,
    SampleBytes,
    one_line,
    program_at,
)
from partway.container.models.voice.interfaces import Samples, SpeakingOptions
from partway.container.models.voice.limits import PROGRAM_SILENCE

#: Words per minute at speed 1.0, the program's own; and the range that it takes.
_PACE: Final = 175
_SLOWEST, _FASTEST = 80, 450

#: The header before the samples: RIFF, one "fmt " chunk of 16 bytes, "data".
_HEADER: Final = 44
_RATE: Final = struct.Struct("<24xI")

#: A row of ``--voices``: priority, language, age and sex, name, file.
_VOICE: Final = re.compile(r"\s*\d+\s+([A-Za-z0-9-]+)\s+\S+\s+\S+\s+(\S+)")


class Espeak:
    """Voices of ``espeak-ng``, named by their languages, such as ``en-gb``."""

    rate = 22_050  # until the program tells its own
    voices: tuple[str, ...] = ()

    def load(self, place: Path | None) -> None:
        """Find the program, and ask it for its voices and its rate.

        Args:
            place: the program; None for ``espeak-ng`` on the path.

        Raises:
            SettingsRefused: the program is not there.
            ModelError: it does not speak.
        """
        self._program = program_at(place, "espeak-ng")
        listed = b"".join(self._run([self._program, "--voices"], "")).decode("utf-8", "replace")
        rows = map(_VOICE.match, listed.splitlines())
        # Voices of mbrola need another program.
        found = {row[1] for row in rows if row is not None and not row[2].startswith("mb/")}
        self.voices = tuple(sorted(found))
        header = b"".join(self._run(self._command(SpeakingOptions()), "ready"))[:_HEADER]
        if len(header) < _HEADER or header[:4] != b"RIFF" or header[36:40] != b"data":
            raise ModelError(f"{self._program} wrote {header[:12]!r}; it must write a WAV file")
        (self.rate,) = _RATE.unpack_from(header)

    def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
        """Yield the audio as the program writes it."""
        line = one_line(text)
        if not line:
            return
        skip = _HEADER
        joined = SampleBytes()
        with closing(self._run(self._command(options), line)) as output:
            for data in output:
                samples = joined.feed(data[skip:])
                skip = max(skip - len(data), 0)
                if len(samples):
                    yield samples

    def _command(self, options: SpeakingOptions) -> list[str]:
        pace = min(max(round(_PACE * options.speed), _SLOWEST), _FASTEST)
        # -z leaves out a pause at the end, -b 1 is UTF-8.
        command = [self._program, "--stdin", "--stdout", "-z", "-b", "1", "-s", str(pace)]
        for wanted in (options.voice.lower(), options.language.lower()):
            # The program has a voice of its own choice for a code without a country, such as fr.
            if wanted and any(f"{voice}-".startswith(f"{wanted}-") for voice in self.voices):
                return [*command, "-v", wanted]
        return command

    def _run(self, command: list[str], text: str) -> Generator[bytes]:
        """Run the program on a text, and yield its output; leaving the iteration kills it."""
        program = PipedProgram(command)
        try:
            program.write(text, last=True)
            yield from program.outputs(PROGRAM_SILENCE)
            if status := program.status(time.monotonic() + PROGRAM_SILENCE):
                raise ModelError(f"{self._program} has ended with status {status}: {program.said}")
        finally:
            program.kill()
