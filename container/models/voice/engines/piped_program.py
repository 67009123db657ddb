"""A separate program that takes text from a pipe and gives audio to another."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

import numpy as np

from partway.container.errors import ModelError, SettingsRefused
from partway.container.models.voice.interfaces import Samples

#: Bytes of one read: the most that a pipe of Linux holds.
_READ: Final = 65_536
#: Bytes of error output that are kept for a refusal.
_KEPT: Final = 200
#: Seconds for a killed program to disappear.
_REAP: Final = 1.0

_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def one_line(text: str) -> str:
    """Return text as one line that speech programs read as text alone.

    espeak-ng takes control characters for commands. Like Piper, it takes text in ``[[ ]]`` for
    phonemes.
    """
    plain = _CONTROLS.sub(" ", text).encode("utf-8", "replace").decode()
    return plain.replace("[[", "[ ").replace("]]", " ]").strip()


def program_at(place: Path | None, usual: str) -> str:
    """Return the path of a program: the named one, or the usual one on the path.

    Raises:
        SettingsRefused: the program is not there.
    """
    wanted = usual if place is None else str(place)
    found = shutil.which(wanted)
    if found is None:
        raise SettingsRefused(
            f"the program {wanted!r} was not found; install it, or name its place in "
            "PARTWAY_VOICE_SPEAKS"
        )
    return found


class SampleBytes:
    """Joins bytes to 16-bit samples, wherever the bytes were cut."""

    def __init__(self) -> None:
        self._half = b""

    def feed(self, data: bytes) -> Samples:
        data = self._half + data
        whole = len(data) & ~1
        self._half = data[whole:]
        return np.frombuffer(data[:whole], "<i2").astype(np.int16)


class Received(NamedTuple):
    """Bytes of a program; without any, its output has ended."""

    output: bytes
    errors: bytes

    @property
    def ended(self) -> bool:
        return not (self.output or self.errors)


class PipedProgram:
    """A running program; used on one thread at a time.

    It inherits only the search path and a locale from the environment, and no files but its pipes.

    Args:
        command: the program and its options. Text of a client must never be among them.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._name = Path(command[0]).name
        self._process = subprocess.Popen(  # noqa: S603 (the operator names the program)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
            cwd="/",
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._input: IO[bytes] = self._process.stdin
        self._output: IO[bytes] = self._process.stdout
        self._errors: IO[bytes] = self._process.stderr
        self._open = selectors.DefaultSelector()
        for pipe in (self._output, self._errors):
            os.set_blocking(pipe.fileno(), False)
            self._open.register(pipe, selectors.EVENT_READ)
        self._last_errors = b""

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def write(self, text: str, *, last: bool = False) -> None:
        """Send text, and end the input if this is all.

        The text must fit into an empty pipe. A program that has ended already takes it too.
        """
        with suppress(BrokenPipeError):
            self._input.write(text.encode())
        if last:
            self._input.close()

    def receive(self, deadline: float) -> Received:
        """Wait for output or error output, and return up to 64 KiB of each.

        Output that the program wrote before some error output is not returned after it.

        Args:
            deadline: a time of :func:`time.monotonic`.

        Raises:
            ModelError: nothing came before the deadline.
        """
        while self._open.get_map():
            if not self._open.select(max(deadline - time.monotonic(), 0)):
                raise ModelError(f"{self._name} has given nothing in time")
            errors = self._take(self._errors)
            output = self._take(self._output)  # second, so that it has all that came before
            if errors or output:
                return Received(output, errors)
        return Received(b"", b"")

    def outputs(self, silence: float) -> Iterator[bytes]:
        """Yield all output as it comes, until its end; :attr:`said` has the errors.

        Args:
            silence: the longest wait for a piece, in seconds.

        Raises:
            ModelError: as :meth:`receive`.
        """
        while not (received := self.receive(time.monotonic() + silence)).ended:
            self._last_errors = (self._last_errors + received.errors)[-_KEPT:]
            if received.output:
                yield received.output

    @property
    def said(self) -> str:
        """The end of the error output that :meth:`outputs` has met."""
        return self._last_errors.decode("utf-8", "replace").strip()

    def _take(self, pipe: IO[bytes]) -> bytes:
        """Return the bytes that are there; a pipe that has ended is not waited for again."""
        if pipe.fileno() not in self._open.get_map():
            return b""
        try:
            data = os.read(pipe.fileno(), _READ)
        except BlockingIOError:
            return b""
        if not data:
            self._open.unregister(pipe)
        return data

    def status(self, deadline: float) -> int:
        """Wait for the program's end, and return its status.

        Raises:
            ModelError: it has not ended before the deadline.
        """
        try:
            return self._process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            raise ModelError(f"{self._name} has not ended in time") from None

    def end(self) -> None:
        """Kill the program unless it has ended; on any thread, and more than once."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_REAP)

    def kill(self) -> None:
        """End the program, and release its pipes; more than once."""
        self.end()
        self._open.close()
        for pipe in (self._input, self._output, self._errors):
            pipe.close()
