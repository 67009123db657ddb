"""Of a test's two event loops one, drawn by the test's name: ``pytest --loops=one``, or ``other``.

Two runs on two Pythons, with ``one`` and with ``other``, have each test on each loop and on each
Python, in half of the cases that all four together would be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

import pytest

LOOPS = ("asyncio", "uvloop")

_LOOP = re.compile(rf"(?<=[\[-])(?:{'|'.join(LOOPS)})(?=[\]-])")


def loop_of(name: str) -> str | None:
    """The loop that a case's name says, such as ``test_a.py::test[uvloop-1]``."""
    found = _LOOP.search(name)
    return None if found is None else found[0]


def drawn(names: Sequence[str], *, other: bool = False) -> list[str]:
    """Those of the cases' names that are kept: of two that differ in the loop alone, one.

    Args:
        names: of all cases.
        other: keep the ones that a draw without it leaves out. What has one loop or none is kept by
            either.
    """
    present = set(names)
    return [name for name in names if _is_kept(name, present, other)]


def _is_kept(name: str, present: set[str], other: bool) -> bool:
    if loop_of(name) is None:
        return True
    both = [_LOOP.sub(loop, name, count=1) for loop in LOOPS]
    if not present.issuperset(both):
        return True
    return name == both[(crc32(both[0].encode()) + other) % len(LOOPS)]


def with_one_loop(items: Sequence[pytest.Item], *, other: bool) -> list[pytest.Item]:
    """Collected tests, each with one of its loops; see :func:`drawn`."""
    kept = set(drawn([item.nodeid for item in items], other=other))
    return [item for item in items if item.nodeid in kept]
