"""Shared counts as several processes see them, in one process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from partway.gateway.workers.shared_counts import SharedCounts, shared_memory


@contextmanager
def shared_rows(number: int) -> Iterator[list[SharedCounts]]:
    descriptor = shared_memory(number)
    try:
        yield [SharedCounts(descriptor, number, row) for row in range(number)]
    finally:
        os.close(descriptor)
