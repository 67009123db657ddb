"""Speech by ``piper``, a separate program that stays for many phrases.

https://github.com/OHF-Voice/piper1-gpl 1.8 (GPL-3.0-or-later; never loaded into this process)

The program speaks each line of its input. It does not mark the end of a line's audio. But with
``--debug`` it logs each line before the line is spoken. So every phrase is followed by a line
without sound, and the phrase's audio is complete once that line is logged.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from partway.container.errors import ModelError, SettingsRefused
from partway.container.models.voice.audio_formats import LEAST_RATE, MOST_RATE
from partway.container.models.voice.engines.piped_program import (
    PipedProgram,
    SampleBytes,
    one_line,
    program_at,
)
from partway.container.models.voice.interfaces import Samples, SpeakingOptions
from partway.container.models.voice.limits import (
    ABANDONED_PHRASE,
    PROGRAM_SILENCE,
    PROGRAM_START,
)

#: A line of no phonemes; a text of clients never has it.
_MARK: Final = "[[]]"
_MARK_LOGGED: Final = f"text={_MARK},".encode()
#: Bytes kept of an unfinished line: more than a logged mark has.
_MOST_LINE: Final = 4096
_UNLOAD: Final = 0.5  # seconds for a thread to see that its program has ended
_MOST_SAID: Final = 200  # characters of a line in an error


class Piper:
    """A voice of Piper. A program is kept for each phrase that is spoken at a time.

    Each has loaded the voice once, and any thread may use it.
    """

    rate: int
    voices: tuple[str, ...] = ()

    def load(self, place: Path | None) -> None:
        """Read the voice's description, and start the program that speaks the first phrase.

        Args:
            place: the voice, ``NAME.onnx``; its description is ``NAME.onnx.json``.

        Raises:
            SettingsRefused: there is no such voice or program.
            ModelError: it does not speak.
        """
        if place is None or not place.is_file():
            raise SettingsRefused(
                f"the voice {str(place or '')!r} is no file; PARTWAY_VOICE_SPEAKS must name one, "
                "such as piper:/voices/en_US-joe-medium.onnx"
            )
        self.rate = _rate_of(place.with_name(f"{place.name}.json"))
        program = program_at(None, "piper")
        self._command = [program, "--model", str(place), "--output-raw", "--debug"]
        self._kept: set[_KeptProgram] = set()
        self._idle: list[_KeptProgram] = []  # of the kept ones
        self._lock = threading.Lock()
        self._is_unloaded = False
        try:
            for _ in self.speak("ready", SpeakingOptions()):
                pass
        except ModelError:
            self.unload()
            raise

    def unload(self) -> None:
        """End all programs, and with them the phrases that are being spoken; on any thread."""
        with self._lock:
            self._is_unloaded = True
            kept, self._kept = self._kept, set()
            self._idle.clear()
        for program in kept:
            program.end()
        for program in kept:
            # A thread that speaks sees the end, and releases the pipes itself.
            if program.in_use.acquire(timeout=_UNLOAD):
                program.kill()
                program.in_use.release()

    def speak(self, text: str, options: SpeakingOptions) -> Iterator[Samples]:
        """Yield the audio of each sentence; speed and voice are those of the voice's files.

        An abandoned phrase has ABANDONED_PHRASE seconds to end. After that its program is replaced.
        """
        line = one_line(text)
        if not line:
            return
        program = self._taken()
        try:
            yield from program.speak(line)
        finally:
            self._give_back(program)

    def _taken(self) -> _KeptProgram:
        """Return a program that this phrase alone uses: an idle one, or a new one."""
        with self._lock:
            while self._idle and not self._idle[-1].running:
                program = self._idle.pop()
                self._kept.discard(program)
                program.kill()
            program = self._idle.pop() if self._idle else self._started()
            program.in_use.acquire()
        return program

    def _give_back(self, program: _KeptProgram) -> None:
        """Keep a program for the next phrase; replace it if this phrase does not end in time."""
        is_quiet = program.quiet()
        if not is_quiet:
            program.kill()
        program.in_use.release()
        with self._lock:
            if self._is_unloaded:
                return  # unload() has the program
            if not is_quiet:
                self._kept.discard(program)
                program = self._started()  # it loads the voice until the next phrase
            self._idle.append(program)

    def _started(self) -> _KeptProgram:
        if self._is_unloaded:
            raise ModelError("the voice is unloaded")
        program = _KeptProgram(self._command)
        self._kept.add(program)
        return program


class _KeptProgram:
    """A program that speaks one phrase after another; used on one thread at a time.

    Attributes:
        in_use: held while a phrase has the program.
    """

    def __init__(self, command: list[str]) -> None:
        self.in_use = threading.Lock()
        self._program = PipedProgram(command)
        self._last_error = b""
        self._rest = b""  # of error output, an unfinished line
        self._marks = 0  # that the program has not logged
        self._silence = PROGRAM_START

    def speak(self, line: str) -> Iterator[Samples]:
        """Yield the audio of a line.

        Raises:
            ModelError: the program has ended, or is silent for too long.
        """
        self._marks += 1
        self._program.write(f"{line}\n{_MARK}\n")
        joined = SampleBytes()
        while self._marks:
            samples = joined.feed(self._receive(time.monotonic() + self._silence))
            if len(samples):
                yield samples
        self._silence = PROGRAM_SILENCE

    @property
    def running(self) -> bool:
        return self._program.running

    def quiet(self) -> bool:
        """Drop the rest of an abandoned phrase; return whether that was possible in time."""
        deadline = time.monotonic() + ABANDONED_PHRASE
        try:
            while self._marks:
                self._receive(deadline)
        except ModelError:
            return False
        return True

    def end(self) -> None:
        self._program.end()

    def kill(self) -> None:
        self._program.kill()

    def _receive(self, deadline: float) -> bytes:
        """Return audio, and count the marks that the program has logged."""
        received = self._program.receive(deadline)
        if received.ended:
            said = self._last_error.decode("utf-8", "replace").strip()
            raise ModelError(f"piper has ended: {said[-_MOST_SAID:]}")
        *lines, rest = (self._rest + received.errors).split(b"\n")
        self._rest = rest[-_MOST_LINE:]
        for line in lines:
            self._marks -= _MARK_LOGGED in line
            self._last_error = line
        return received.output


def _rate_of(description: Path) -> int:
    """Return a voice's samples per second.

    Raises:
        ModelError: the file is not there, has another form, or describes a voice whose text is not
            turned into phonemes by espeak-ng: the mark would sound there.
    """
    try:
        found = json.loads(description.read_bytes())
        rate = found["audio"]["sample_rate"]
        kind = found.get("phoneme_type", "espeak")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{description} is no description of a voice ({type(error).__name__}); it must be the "
            "file that comes with the voice"
        ) from None
    if not isinstance(rate, int) or not LEAST_RATE <= rate <= MOST_RATE:
        raise ModelError(
            f"{description}: audio.sample_rate is {rate!r}; it must be a whole number from "
            f"{LEAST_RATE} to {MOST_RATE}"
        )
    if kind != "espeak":
        raise ModelError(f"{description}: phoneme_type is {kind!r}; it must be 'espeak'")
    return rate
