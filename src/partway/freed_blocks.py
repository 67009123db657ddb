"""Memory of bodies that are freed: kept for the next, or handed back to the system each time."""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import MIB

#: A block up to this is used again where it was freed: all of a body that a container takes in
#: predictions, and of most others.
KEPT_BLOCK: Final = 2 * MIB


def keep_freed_blocks() -> None:
    """Have the C library keep what is freed of bodies, for the next.

    glibc hands a block over 128 KiB back to the system, and so each page of the next one costs a
    fault when it is first touched: 270 for a body of 540 kB, as much CPU as all else that is done
    with it. That is so until a block was freed that was larger; up to its size blocks are kept from
    then on, and twice as much of what is free (mallopt(3), M_MMAP_THRESHOLD). The one that is freed
    here is never touched, and costs nothing.
    """
    bytes(KEPT_BLOCK)
