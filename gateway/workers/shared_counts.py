"""Counts that all processes of a gateway share, in memory that they map together.

Each process has a row of its own, and only it writes there. So nothing has to be locked: a process
adds to its own row, and reads the others' for a sum.
"""

from __future__ import annotations

import mmap
import os
from hashlib import blake2b
from typing import Final, NamedTuple

from partway.gateway.kept_state import KeptState

#: The name of the kept entry.
_NAME: Final = "counts"

#: A row's cells. Each has the digest of a name, and its count; both are 8 bytes.
_CELLS: Final = 1 << 15
_WORDS: Final = 2 * _CELLS
_ROW_BYTES: Final = 8 * _WORDS
#: Cells in which a name may be, one behind the other.
_REACH: Final = 64
#: Bytes behind the rows: the key of all digests. Without it clients could choose addresses whose
#: names all want the same cells.
_KEY_BYTES: Final = 16


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
        self._memory = mmap.mmap(descriptor, rows * _ROW_BYTES + _KEY_BYTES)
        self._key = self._memory[rows * _ROW_BYTES :]
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
        digest = self._digest(name)
        cell = _cell(self._mine, digest)
        if cell is None and count:
            cell = self._free_cell(digest)
        if cell is not None:
            self._mine[cell + 1] = count
            if not count:
                self._empty_last(cell)

    def others(self, name: str) -> int:
        """Return the sum of all other processes' counts."""
        digest = self._digest(name)
        found = 0
        for row in self._others:
            cell = _cell(row, digest)
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

    def _free_cell(self, digest: int) -> int | None:
        """Take a cell for a name; None if all in its reach are in use."""
        for cell in _cells_of(digest):
            if not self._mine[cell + 1]:
                self._mine[cell] = digest
                return cell
        return None

    def _empty_last(self, cell: int) -> None:
        """Empty a cell whose count is 0, and such cells before it, if an empty one follows.

        A search goes on to the next empty cell, so it ends earlier then. No name is behind these.
        """
        mine = self._mine
        if mine[(cell + 2) % _WORDS]:
            return
        while mine[cell] and not mine[cell + 1]:
            mine[cell] = 0
            cell = (cell - 2) % _WORDS

    def _digest(self, name: str) -> int:
        """Return a number that stands for a name; never 0, which marks an empty cell."""
        digest = blake2b(name.encode(), digest_size=8, key=self._key).digest()
        return int.from_bytes(digest, signed=True) or 1


def shared_memory(rows: int) -> int:
    """Return a descriptor of memory for so many rows, all zeros, and a random key."""
    descriptor = os.memfd_create("partway-counts")
    os.ftruncate(descriptor, rows * _ROW_BYTES)
    os.pwrite(descriptor, os.urandom(_KEY_BYTES), rows * _ROW_BYTES)
    return descriptor


class SharedRows(NamedTuple):
    """The shared counts, as the parent has them.

    Attributes:
        number: how many rows there are.
        memory: a descriptor of their memory.
        own: the parent's row.
    """

    number: int
    memory: int
    own: SharedCounts


def kept_rows(kept: KeptState, number: int) -> SharedRows:
    """Return the shared counts of the gateway, with an empty row of the parent.

    Args:
        number: of rows, if no earlier parent has made them.
    """
    memory = -1
    for entry in kept.take(_NAME).values():
        number, memory = int(entry.record), entry.descriptors[0]
    if memory < 0:
        memory = shared_memory(number)
        kept.keep(_NAME, str(number).encode(), [memory])
    own = SharedCounts(memory, number, 0)
    own.clear(0)
    return SharedRows(number, memory, own)


def _cells_of(digest: int) -> range | list[int]:
    first = digest % _CELLS
    if first + _REACH <= _CELLS:
        return range(2 * first, 2 * (first + _REACH), 2)
    return [2 * (each % _CELLS) for each in range(first, first + _REACH)]


def _cell(row: memoryview, digest: int) -> int | None:
    """Return the cell of a name; None if it has none."""
    for cell in _cells_of(digest):
        found = row[cell]
        if found == digest:
            return cell
        if not found:
            return None
    return None
