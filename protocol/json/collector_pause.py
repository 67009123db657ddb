"""Python's garbage collector, paused while containers are made that go together."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector in the block, on all threads.

    The collector looks at all containers as they become many. It would look at those of a nested
    tensor again and again. That takes five times as long as to make them, and it keeps the
    interpreter for a tenth of a second. So they are made, used and let go in one block.

    Blocks may overlap: the one that found the collector on has it on again at its end.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
