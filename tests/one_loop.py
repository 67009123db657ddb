"""Of a test's two event loops one, drawn by the test's name: ``pytest --one-loop``.

For a run beside one with both, on another Python: that one finds what hangs on the loop, this one
what hangs on the Python, and each loop is still there in half of the tests.
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


def drawn(names: Sequence[str]) -> list[str]:
    """Those of the cases' names that are kept: of two that differ in the loop alone, one."""
    present = set(names)
    return [name for name in names if _is_kept(name, present)]


def _is_kept(name: str, present: set[str]) -> bool:
    if loop_of(name) is None:
        return True
    both = [_LOOP.sub(loop, name, count=1) for loop in LOOPS]
    if not present.issuperset(both):
        return True
    return name == both[crc32(both[0].encode()) % len(LOOPS)]


def with_one_loop(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Collected tests, each with one of its loops."""
    kept = set(drawn([item.nodeid for item in items]))
    return [item for item in items if item.nodeid in kept]
