"""Reading an instance's output from any position, with its times."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Final, Self, overload

from partway.gateway.fleet.container_ids import instance_of as instance_of_container
from partway.gateway.fleet.output.log_files import (
    ENTRY,
    HEAD_BYTES,
    PrintedHead,
    instance_of,
    log_files,
    times_files,
)
from partway.gateway.storage.files import open_regular

_POSITION: Final = itemgetter(0)
_TIME: Final = itemgetter(1)


class _Entries(Sequence[tuple[int, int]]):
    """The entries of a file of times; each is read on access."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._many = max(0, os.fstat(descriptor).st_size - HEAD_BYTES) // ENTRY.size

    def __len__(self) -> int:
        return self._many

    @overload
    def __getitem__(self, number: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[tuple[int, int]]: ...
    def __getitem__(self, number: int | slice) -> tuple[int, int] | Sequence[tuple[int, int]]:
        assert isinstance(number, int), "bisect asks for one"
        at = HEAD_BYTES + ENTRY.size * (number if number >= 0 else self._many + number)
        position, time = ENTRY.unpack(os.pread(self._descriptor, ENTRY.size, at))
        return position, time


@dataclass(frozen=True, slots=True)
class _Part:
    log: int
    entries: _Entries
    begin: int
    end: int


class Printed:
    """An instance's output that is still on disk when it is opened.

    A context that closes the files at its end; made by :meth:`opened`.

    Attributes:
        begin: the first position that is still there.
        end: the position after the last one.
    """

    def __init__(self, endpoint: str, parts: Sequence[_Part], descriptors: Sequence[int]) -> None:
        self.endpoint = endpoint
        self.begin = parts[0].begin
        self.end = parts[-1].end
        self._parts = parts
        self._descriptors = descriptors
        self._span = (0, 0, 0)

    @classmethod
    def opened(cls, folder: Path, instance: str) -> Self | None:
        """Open an instance's output; None without output. Links are not followed."""
        descriptors: list[int] = []
        try:
            # Newer files first: a rename meanwhile then hides none of them. Logs before times: an
            # inode that is open here cannot belong to a new file.
            logs = _open_all(log_files(folder, instance), descriptors)
            times = _open_all(times_files(folder, instance), descriptors)
            heads = [(PrintedHead.read(os.pread(each, HEAD_BYTES, 0)), each) for each in times]
            parts = {}
            for log in logs:
                found = os.fstat(log)
                for head, its_times in heads:
                    if head is not None and head.inode == found.st_ino:
                        entries = _Entries(its_times)
                        end = head.begin + found.st_size
                        parts[head.begin] = _Part(log, entries, head.begin, end)
            ordered = _without_gap([part for _, part in sorted(parts.items()) if part.entries])
            whose = next((head.endpoint for head, _ in heads if head is not None), None)
            if ordered and whose is not None:
                printed = cls(whose, ordered, tuple(descriptors))
                descriptors.clear()
                return printed
            return None
        finally:
            for each in descriptors:
                os.close(each)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for each in self._descriptors:
            os.close(each)

    @property
    def first_time(self) -> int:
        """When the first byte was written, in milliseconds since the epoch."""
        return self._parts[0].entries[0][1]

    @property
    def last_time(self) -> int:
        """When the last byte was written, in milliseconds since the epoch."""
        return self._parts[-1].entries[-1][1]

    def read(self, position: int, size: int) -> bytes:
        """Read bytes from a position on; fewer where a log ends, none only at the end."""
        for part in self._parts:
            if position < part.end:
                at = max(0, position - part.begin)
                return os.pread(part.log, min(size, part.end - part.begin - at), at)
        return b""

    def before(self, position: int, size: int) -> bytes:
        """Read at most so many bytes before a position."""
        said = b""
        for part in reversed(self._parts):
            end = min(position, part.end) - part.begin
            if end > 0:
                begin = max(0, end - (size - len(said)))
                said = os.pread(part.log, end - begin, begin) + said
        return said

    def time_at(self, position: int) -> int:
        """Return when the byte at a position was written, in milliseconds since the epoch."""
        begin, end, time = self._span
        if begin <= position < end:
            return time
        for part in self._parts:
            if position < part.end:
                break
        entries = part.entries
        number = bisect_right(entries, position, key=_POSITION) - 1
        begin, time = entries[max(0, number)]
        end = entries[number + 1][0] if number + 1 < len(entries) else part.end
        self._span = (begin, end, time)
        return time

    def position_at(self, time: int) -> int:
        """Return the position of the first byte that was written at a time or later.

        Args:
            time: in milliseconds since the epoch.
        """
        for part in self._parts:
            number = bisect_left(part.entries, time, key=_TIME)
            if number < len(part.entries):
                return min(part.entries[number][0], part.end)
        return self.end


def _without_gap(parts: Sequence[_Part]) -> Sequence[_Part]:
    """Return the parts after the last gap; a log that was removed by hand leaves a gap."""
    for number in range(len(parts) - 1, 0, -1):
        if parts[number - 1].end != parts[number].begin:
            return parts[number:]
    return parts


def _open_all(paths: Sequence[Path], descriptors: list[int]) -> list[int]:
    """Open those files that exist, and add them to the open descriptors."""
    found = []
    for path in paths:
        try:
            with open_regular(path, follows=False) as file:
                found.append(os.dup(file.fileno()))
        except OSError:
            continue
        descriptors.append(found[-1])
    return found


def printed_instances(folder: Path) -> dict[str, str]:
    """Return the instances with output on disk, and the endpoint of each.

    Returns:
        The names of the endpoints, by the instances' ids.
    """
    found = {}
    try:
        names = sorted({instance_of(entry.name) or "" for entry in os.scandir(folder)})
    except FileNotFoundError:
        return {}
    for instance in filter(None, names):
        for path in times_files(folder, instance):
            try:
                with open_regular(path, follows=False) as file:
                    head = PrintedHead.read(file.read(HEAD_BYTES))
            except OSError:
                continue
            if head is not None:
                found[instance] = head.endpoint
                break
    return found


def last_printed(folder: Path, endpoint: str) -> tuple[str, ...]:
    """Return the container ids of the endpoint's instance that printed last.

    Returns:
        Nothing if no instance of the endpoint has output on disk.
    """
    written: dict[str, float] = {}
    for container, whose in printed_instances(folder).items():
        if whose == endpoint:
            with suppress(OSError):
                written[container] = log_files(folder, container)[0].stat().st_mtime
    if not written:
        return ()
    last = instance_of_container(max(written, key=lambda each: written[each]))
    return tuple(each for each in written if instance_of_container(each) == last)
