"""Reads what an instance has printed, from its files, while it goes on printing."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import BinaryIO, Final

from partway.gateway.fleet.limits import MAX_LOG_LINE
from partway.gateway.fleet.output.log_files import log_files
from partway.gateway.storage.files import open_regular

#: Read at once.
_BLOCK: Final = 64 * 1024


class LogTail:
    """What an instance has printed: its last lines, then what comes.

    The file is renamed when it is full, and another one begun in its place. What was there before
    is read to its end first, so that nothing is lost over it, as long as not two files are filled
    between two calls of :meth:`read`.

    Every method may be called from any thread; :meth:`close` alone waits for nobody.

    Args:
        folder: of the logs.
        instance: its id.
        lines: how many of those that are there to begin with; None for all.
    """

    def __init__(self, folder: Path, instance: str, lines: int | None) -> None:
        self._path, self._older = log_files(folder, instance)
        self._lines = lines
        self._started = False
        self._closed = False
        #: Open files, oldest first; what is read is the first one.
        self._files: list[BinaryIO] = []
        self._begun = b""
        # A follower that leaves closes this while a thread may be reading, from a disk that hangs.
        self._turn = threading.Lock()

    def read(self) -> bytes:
        """Return whole lines that have not been read yet, some 64 KiB at most; empty for none.

        A line that is longer than that comes in pieces, each with a line end.
        """
        try:
            with self._turn:
                return self._read()
        finally:
            if self._closed:  # meanwhile, by somebody who did not wait
                self.close()

    def rest(self) -> bytes:
        """Return the line that was begun and never ended, with a line end; empty if there is none.

        To be called when nothing more will come.
        """
        try:
            with self._turn:
                rest, self._begun = self._begun, b""
                return rest and rest + b"\n"
        finally:
            if self._closed:
                self.close()

    def close(self) -> None:
        """Close the files; there is nothing to read from here on.

        Where a thread is reading, that one closes them when it has read.
        """
        self._closed = True
        if self._turn.acquire(blocking=False):
            try:
                while self._files:
                    self._files.pop().close()
            finally:
                self._turn.release()

    def _read(self) -> bytes:
        if self._closed:
            return b""
        if not self._started:
            self._start()
        while self._files or self._newer():
            block = self._files[0].read(_BLOCK)
            if block:
                if whole := self._whole_lines(block):
                    return whole
            elif len(self._files) > 1:
                self._files.pop(0).close()
            elif not self._newer():
                break
        return b""

    def _whole_lines(self, block: bytes) -> bytes:
        whole, end, self._begun = (self._begun + block).rpartition(b"\n")
        if len(self._begun) > MAX_LOG_LINE:
            whole, end, self._begun = whole + end + self._begun, b"\n", b""
        return whole + end

    def _start(self) -> None:
        """Open the files, and go to the first of the last lines."""
        self._started = True
        self._files = _opened(self._older, self._path)
        if self._lines is None:
            return
        wanted = self._lines
        for file in reversed(self._files):
            wanted -= _back(file, wanted)

    def _newer(self) -> bool:
        """Look whether files have been begun since; those that were go behind the others."""
        found = _opened(self._older, self._path)
        known = {_identity(file) for file in self._files}
        # After the one that is read: where that one is the older one now, so is what is before it.
        for number, file in enumerate(found):
            if _identity(file) in known:
                for old in found[: number + 1]:
                    old.close()
                found = found[number + 1 :]
                break
        self._files += found
        return bool(found)


def _opened(*paths: Path) -> list[BinaryIO]:
    """Open those that are there, none twice."""
    files: list[BinaryIO] = []
    for path in paths:
        try:
            file = open_regular(path)
        except OSError:
            continue
        if _identity(file) in map(_identity, files):  # renamed between the two
            file.close()
        else:
            files.append(file)
    return files


def _identity(file: BinaryIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino


def _back(file: BinaryIO, lines: int) -> int:
    """Go to where the last lines of a file begin; returns how many there are, at most ``lines``."""
    position = end = file.seek(0, os.SEEK_END)
    if not lines or not end:
        return 0
    found = 0
    while position > 0:
        size = min(_BLOCK, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            if position + at + 1 == end:
                continue  # it ends the last line, and none begins behind it
            found += 1
            if found == lines:
                file.seek(position + at + 1)
                return lines
    file.seek(0)
    return found + 1
