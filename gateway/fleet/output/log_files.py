"""The files with what instances have printed: a log of the bytes as they came, and their times.

Beside each ``INSTANCE.log`` lies an ``INSTANCE.times``, and both are renamed together. It begins
with a head of one size, a line of JSON; behind that, each write has an entry of two numbers: the
position at which it begins, and the time. Positions count from the first byte that an instance has
printed, whichever file that is in: so they outlive that a log is renamed. The head names its log by
its inode, so that nobody takes the times of one log for those of another.
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

#: The id of an instance, or of one of its several containers, which is part of its files' names.
INSTANCE_ID: Final = re.compile(
    r"(?=.{1,200}\Z)[A-Za-z0-9][A-Za-z0-9-]*(?:_[A-Za-z0-9][A-Za-z0-9-]*)?"
)

_MOST: Final = 2**63


@dataclass(frozen=True, slots=True)
class PrintedHead:
    """What the times of a log say of it.

    Attributes:
        endpoint: whose instance has printed it.
        inode: of the log.
        begin: the position of its first byte.
    """

    endpoint: str
    inode: int
    begin: int

    def written(self) -> bytes:
        """The head as a file has it."""
        return json.dumps(asdict(self)).encode().ljust(HEAD_BYTES - 1) + b"\n"

    @classmethod
    def read(cls, data: bytes) -> Self | None:
        """The head that a file begins with; None if it begins with something else."""
        try:
            said = json.loads(data[:HEAD_BYTES])
            endpoint, inode, begin = said["endpoint"], said["inode"], said["begin"]
        except (ValueError, TypeError, KeyError):
            return None
        if not isinstance(endpoint, str) or type(inode) is not int or type(begin) is not int:
            return None
        return cls(endpoint, inode, begin) if 0 <= begin < _MOST else None


def log_files(folder: Path, instance: str) -> tuple[Path, Path]:
    """Where an instance's output is, and where its older output is.

    Args:
        folder: of the logs.
        instance: its id.
    """
    return folder / f"{instance}.log", folder / f"{instance}.log.1"


def times_files(folder: Path, instance: str) -> tuple[Path, Path]:
    """Where the times of an instance's output are, and those of its older output.

    Args:
        folder: of the logs.
        instance: its id.
    """
    return folder / f"{instance}.times", folder / f"{instance}.times.1"


def instance_of(name: str) -> str | None:
    """The instance of which a file in the folder of the logs is; None for another file.

    Args:
        name: the file's.
    """
    instance, _, kind = name.partition(".")
    return instance if kind in ("log", "log.1", "times", "times.1") else None


class PrintedFiles:
    """Writes what one instance prints, and when.

    Args:
        folder: of the logs.
        instance: its id.
        endpoint: whose it is.
    """

    def __init__(self, folder: Path, instance: str, endpoint: str) -> None:
        self._logs = log_files(folder, instance)
        self._times = times_files(folder, instance)
        self._endpoint = endpoint
        self._end = 0

    def append(self, data: bytes, milliseconds: int) -> None:
        """Write to the log, or to a new one if that one is full.

        Args:
            data: what was printed.
            milliseconds: the time, since the epoch.

        Raises:
            OSError: it cannot be written, or not whole.
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
        """Note when what comes next in a log is written; returns the position of its first byte.

        Before it is written: there are times without bytes, but no bytes without a time.
        """
        descriptor = _opened(self._times[0], os.O_RDWR)
        try:
            head = PrintedHead.read(os.pread(descriptor, HEAD_BYTES, 0))
            # The inode of a log that was removed may be that of the next one, which is empty.
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
            os.ftruncate(descriptor, size)  # an entry of which a full disk took half
            if size > HEAD_BYTES:  # a clock that goes back would have later lines come earlier
                _, last = ENTRY.unpack(os.pread(descriptor, ENTRY.size, size - ENTRY.size))
                milliseconds = max(milliseconds, last)
            _write(descriptor, ENTRY.pack(head.begin + log.st_size, milliseconds))
            return head.begin
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _end_of_older(self) -> int:
        """The position behind the older log; 0 if there is none."""
        try:
            descriptor = os.open(self._times[1], os.O_RDONLY | _NO_OTHER)
        except OSError:
            return 0
        try:
            head = PrintedHead.read(os.pread(descriptor, HEAD_BYTES, 0))
        finally:
            os.close(descriptor)
        return 0 if head is None else head.begin + _size(self._logs[1])


#: Neither what a link leads to nor a pipe that nobody reads, which would hold all others up.
_NO_OTHER: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _opened(path: Path, flags: int) -> int:
    return os.open(path, flags | os.O_APPEND | os.O_CREAT | _NO_OTHER, 0o600)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:  # a disk that has no more room may take a part of it
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
