"""The files with the output of instances: a log of the bytes as they came, and their times.

Beside each ``INSTANCE.log`` lies an ``INSTANCE.times``, and both are renamed together. A file of
times begins with a head of fixed size, a line of JSON. Each entry after that belongs to one write:
the position of its first byte, and the time. Positions count from the first byte that the instance
ever printed, so they stay valid when a log is renamed. The head names its log by inode, so that the
times are never matched with another log.
"""

from __future__ import annotations

import json
import os
import re
import struct
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from partway.gateway.fleet.limits import OUTPUT_FILE_BYTES, OUTPUT_TIMES_BYTES

#: A position, and milliseconds since the epoch.
ENTRY: Final = struct.Struct("=QQ")

#: The longest name of an endpoint has 63 characters.
HEAD_BYTES: Final = 256

#: The id of an instance, or of one of its several containers; part of file names.
INSTANCE_ID: Final = re.compile(
    r"(?=.{1,200}\Z)[A-Za-z0-9][A-Za-z0-9-]*(?:_[A-Za-z0-9][A-Za-z0-9-]*)?"
)

_MOST: Final = 2**63


@dataclass(frozen=True, slots=True)
class PrintedHead:
    """The head of a file of times.

    Attributes:
        inode: the inode of the log.
        begin: the position of the log's first byte.
    """

    endpoint: str
    inode: int
    begin: int

    def written(self) -> bytes:
        return json.dumps(asdict(self)).encode().ljust(HEAD_BYTES - 1) + b"\n"

    @classmethod
    def read(cls, data: bytes) -> Self | None:
        """Read the head of a file; None if the file begins with something else."""
        try:
            said = json.loads(data[:HEAD_BYTES])
            endpoint, inode, begin = said["endpoint"], said["inode"], said["begin"]
        except (ValueError, TypeError, KeyError):
            return None
        if not isinstance(endpoint, str) or type(inode) is not int or type(begin) is not int:
            return None
        return cls(endpoint, inode, begin) if 0 <= begin < _MOST else None


def log_files(folder: Path, instance: str) -> tuple[Path, Path]:
    """Return the paths of an instance's current and older output."""
    return folder / f"{instance}.log", folder / f"{instance}.log.1"


def times_files(folder: Path, instance: str) -> tuple[Path, Path]:
    """Return the paths of the times of an instance's current and older output."""
    return folder / f"{instance}.times", folder / f"{instance}.times.1"


def instance_of(name: str) -> str | None:
    """Return the instance that a file in the logs' folder belongs to; None for another file."""
    instance, _, kind = name.partition(".")
    return instance if kind in ("log", "log.1", "times", "times.1") else None


class PrintedFiles:
    """Writes the output of one instance, with its times."""

    def __init__(self, folder: Path, instance: str, endpoint: str) -> None:
        self._logs = log_files(folder, instance)
        self._times = times_files(folder, instance)
        self._endpoint = endpoint
        self._end = 0

    def append(self, data: bytes, milliseconds: int) -> None:
        """Write to the log, or to a new one if that one is full.

        ``milliseconds`` is the time since the epoch.

        Raises:
            OSError: it cannot be written, or only in part.
        """
        log, older = self._logs
        if _size(log) >= OUTPUT_FILE_BYTES or _size(self._times[0]) >= OUTPUT_TIMES_BYTES:
            with suppress(FileNotFoundError):  # either may have been removed
                log.replace(older)
                self._times[0].replace(self._times[1])
        descriptor = _opened(log, os.O_WRONLY)
        try:
            found = os.fstat(descriptor)
            begin = self._note(found, milliseconds)
            _write(descriptor, data)
            self._end = begin + found.st_size + len(data)
        finally:
            os.close(descriptor)

    def _note(self, log: os.stat_result, milliseconds: int) -> int:
        """Note the time of the next write to a log; return the position of its first byte.

        The time is noted before the write. So there may be times without bytes, but no bytes
        without a time.
        """
        descriptor = _opened(self._times[0], os.O_RDWR)
        try:
            head = PrintedHead.read(os.pread(descriptor, HEAD_BYTES, 0))
            # A new, empty log may have the inode of a log that was removed.
            if head is None or head.inode != log.st_ino or not log.st_size:
                if head is not None and head.inode == _inode(self._logs[1]):
                    os.close(descriptor)
                    descriptor = -1
                    self._times[0].replace(self._times[1])
                    descriptor = _opened(self._times[0], os.O_RDWR)
                os.ftruncate(descriptor, 0)
                begin = max(self._end - log.st_size, self._end_of_older(), 0)
                head = PrintedHead(self._endpoint, log.st_ino, begin)
                _write(descriptor, head.written())
            size = os.fstat(descriptor).st_size
            size -= (size - HEAD_BYTES) % ENTRY.size
            os.ftruncate(descriptor, size)  # a full disk may have taken half an entry
            if size > HEAD_BYTES:  # a clock that goes back must not reorder lines
                _, last = ENTRY.unpack(os.pread(descriptor, ENTRY.size, size - ENTRY.size))
                milliseconds = max(milliseconds, last)
            _write(descriptor, ENTRY.pack(head.begin + log.st_size, milliseconds))
            return head.begin
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _end_of_older(self) -> int:
        """Return the position after the older log; 0 without an older log."""
        try:
            descriptor = os.open(self._times[1], os.O_RDONLY | _NO_OTHER)
        except OSError:
            return 0
        try:
            head = PrintedHead.read(os.pread(descriptor, HEAD_BYTES, 0))
        finally:
            os.close(descriptor)
        return 0 if head is None else head.begin + _size(self._logs[1])


#: No links, and no pipes: opening a pipe without a reader would block.
_NO_OTHER: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _opened(path: Path, flags: int) -> int:
    return os.open(path, flags | os.O_APPEND | os.O_CREAT | _NO_OTHER, 0o600)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:  # a full disk may take only a part
        rest = rest[os.write(descriptor, rest) :]


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _inode(path: Path) -> int:
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return 0
