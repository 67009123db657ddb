"""CPU and memory of a process, finer than :class:`benchmarks.load.Meter` where Linux allows."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil


class Meter:
    """CPU time and resident bytes of a process, and how long it had to wait for a core."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._folder = Path("/proc") / str(pid)

    def cpu_seconds(self) -> float:
        try:
            return self._scheduled(0)
        except OSError:
            times = self._process.cpu_times()
            return times.user + times.system

    def waiting_seconds(self) -> float:
        """Seconds for which its threads could run, and other processes had the core; on Linux."""
        return self._scheduled(1)

    def _scheduled(self, column: int) -> float:
        tasks = (self._folder / "task").glob("*/schedstat")
        return sum(int(task.read_text().split()[column]) for task in tasks) / 1e9

    def resident(self) -> int:
        return int(self._process.memory_info().rss)

    def proportional(self) -> int:
        """Bytes of memory, of which shared pages count by their shares (PSS); on Linux."""
        rollup = (self._folder / "smaps_rollup").read_text()
        return int(rollup.partition("\nPss:")[2].split()[0]) * 1024

    def forget_peak(self) -> int:
        """Measure the peak anew from here on; return the resident bytes now."""
        with suppress(OSError):  # then it is the peak since the process began
            (self._folder / "clear_refs").write_text("5")
        return self.resident()

    def peak(self) -> int:
        try:
            status = (self._folder / "status").read_text()
            return int(status.partition("VmHWM:")[2].split()[0]) * 1024
        except (OSError, IndexError):
            return self.resident()
