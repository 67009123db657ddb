"""The CPUs that this process may use: those of its affinity, within the limit of its cgroup."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

#: The limit of cgroup v2: microseconds of CPU in each period, or ``max``.
_LIMIT: Final = Path("/sys/fs/cgroup/cpu.max")


def usable_cpus(limit: Path = _LIMIT) -> int:
    """Return how many CPUs there are; a part of one counts as one.

    Args:
        limit: the file with the cgroup's limit
            (https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files).
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = limit.read_text().split()
        if quota != "max":
            cpus = min(cpus, -(-int(quota) // int(period)))
    return max(1, cpus)
