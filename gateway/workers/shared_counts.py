"""Counts that all processes of a gateway share, in memory that they map together.

Each process has a row of its own, and only it writes there. So nothing has to be locked: a process
adds to its own row, and reads the others' for a sum.
"""

from __future__ import annotations

import mmap
import os
from hashlib import blake2b
from typing import Final

#: A row's cells. Each has the digest of a name, and its count; both are 8 bytes.
_CELLS: Final = 1 << 15
_WORDS: Final = 2 * _CELLS
_ROW_BYTES: Final = 8 * _WORDS
#: Cells in which a name may be, one behind the other.
_REACH: Final = 64


class SharedCounts:
    """Counts by name; a name whose counts are 0 takes no room.

    Another process may read a count while it changes, and sees the old or the new one. A row that
    is full counts further names in this process alone.

    Args:
        descriptor: of the memory, from :func:`shared_memory`.
        rows: how many processes there are at most.
        row: this process's own.
    """

    def __init__(self, descriptor: int, rows: int, row: int) -> None:
        self._memory = mmap.mmap(descriptor, rows * _ROW_BYTES)
        words = memoryview(self._memory).cast("q")
        self._rows = [words[each * _WORDS : (each + 1) * _WORDS] for each in range(rows)]
        self._mine = self._rows[row]
        self._others = [each for each in self._rows if each is not self._mine]
        #: The counts of this process, by name; those that are not 0.
        self._own: dict[str, int] = {}

    def add(self, name: str, number: int) -> None:
        """Change this process's count."""
        count = self._own.pop(name, 0) + number
        if count:
            self._own[name] = count
        key = _key(name)
        cell = _cell(self._mine, key)
        if cell is None:
            cell = self._free_cell(key)
        if cell is not None:
            self._mine[cell + 1] = count

    def others(self, name: str) -> int:
        """Return the sum of all other processes' counts."""
        key = _key(name)
        found = 0
        for row in self._others:
            cell = _cell(row, key)
            if cell is not None:
                found += row[cell + 1]
        return found

    def total(self, name: str) -> int:
        """Return the sum of all counts."""
        return self._own.get(name, 0) + self.others(name)

    def clear(self, row: int) -> None:
        """Clear the row of a process that has ended."""
        words = self._rows[row]
        words[:] = memoryview(bytes(_ROW_BYTES)).cast("q")

    def _free_cell(self, key: int) -> int | None:
        """Take a cell for a name; None if all in its reach are in use."""
        for cell in _cells_of(key):
            if not self._mine[cell + 1]:
                self._mine[cell] = key
                return cell
        return None


def shared_memory(rows: int) -> int:
    """Return a descriptor of memory for so many rows, all zeros; children may inherit it."""
    descriptor = os.memfd_create("partway-counts")
    os.ftruncate(descriptor, rows * _ROW_BYTES)
    return descriptor


def _key(name: str) -> int:
    """Return a number that stands for a name; never 0, which marks an empty cell."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True) or 1


def _cells_of(key: int) -> range | list[int]:
    first = key % _CELLS
    if first + _REACH <= _CELLS:
        return range(2 * first, 2 * (first + _REACH), 2)
    return [2 * (each % _CELLS) for each in range(first, first + _REACH)]


def _cell(row: memoryview, key: int) -> int | None:
    """Return the cell of a name; None if it has none."""
    for cell in _cells_of(key):
        found = row[cell]
        if found == key:
            return cell
        if not found:
            return None
    return None
