"""Following an instance's output from its files while it is written."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import BinaryIO, Final

from partway.gateway.fleet.limits import MAX_LOG_LINE
from partway.gateway.fleet.output.log_files import log_files
from partway.gateway.storage.files import open_regular

#: Bytes of one read.
_BLOCK: Final = 64 * 1024


class LogTail:
    """An instance's output: its last lines, then new lines as they come.

    A full file is renamed, and another one begins. The old file is read to its end first, so
    nothing is lost unless two files are filled between two calls of :meth:`read`.

    Every method may be called from any thread. All but :meth:`close` may wait for a read under way.

    Args:
        lines: how many of the existing lines to begin with; None for all.
    """

    def __init__(self, folder: Path, instance: str, lines: int | None) -> None:
        self._path, self._older = log_files(folder, instance)
        self._lines = lines
        self._started = False
        self._closed = False
        #: Open files, oldest first; the first one is read.
        self._files: list[BinaryIO] = []
        self._begun = b""
        # close() may be called while a thread reads from a disk that hangs.
        self._turn = threading.Lock()

    def read(self) -> bytes:
        """Return whole lines that have not been read yet, about 64 KiB at most; empty for none.

        A longer line is returned in pieces, each with a line end.
        """
        try:
            with self._turn:
                return self._read()
        finally:
            if self._closed:  # closed during the read
                self.close()

    def rest(self) -> bytes:
        """Return an unfinished last line, with a line end; empty after a finished one.

        Must be called when nothing more will come.
        """
        try:
            with self._turn:
                rest, self._begun = self._begun, b""
                return rest and rest + b"\n"
        finally:
            if self._closed:
                self.close()

    def close(self) -> None:
        """Close the files; reads return nothing from here on.

        A thread that is reading closes them after its read.
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
        self._started = True
        self._files = _opened(self._older, self._path)
        if self._lines is None:
            return
        wanted = self._lines
        for file in reversed(self._files):
            wanted -= _back(file, wanted)

    def _newer(self) -> bool:
        found = _opened(self._older, self._path)
        known = {_identity(file) for file in self._files}
        # Files before the known one are old: the known one may be the older file by now.
        for number, file in enumerate(found):
            if _identity(file) in known:
                for old in found[: number + 1]:
                    old.close()
                found = found[number + 1 :]
                break
        self._files += found
        return bool(found)


def _opened(*paths: Path) -> list[BinaryIO]:
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
    """Go to the begin of the last lines; return how many there are, at most ``lines``."""
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
                continue  # it ends the last line; no line begins after it
            found += 1
            if found == lines:
                file.seek(position + at + 1)
                return lines
    file.seek(0)
    return found + 1
