"""Capturing the output of instances: their last lines in memory, and all of it in files.

A disk may be slow or full, and a container may print without end. So the loop only buffers, and a
thread writes. The buffer and each file are bounded. Output beyond the bound is left out, and the
file says how much that was.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeAlias

from partway.gateway.fleet.limits import (
    LAST_LINE_CHARACTERS,
    LAST_LINES,
    LAST_OUTPUT_BYTES,
    OUTPUT_CLOSE_TIMEOUT,
    OUTPUT_FLUSH_BYTES,
    OUTPUT_FLUSH_INTERVAL,
    OUTPUT_WAITING_BYTES,
    OUTPUTS_KEPT,
)
from partway.gateway.fleet.output.log_files import (
    PrintedFiles,
    instance_of,
    log_files,
    times_files,
)
from partway.gateway.plain_text import cut, safe
from partway.gateway.timing.clock import Clock, LoopClock, Timer
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")

#: Terminal control sequences, such as colours (ECMA-48 §5.4).
_CONTROL_SEQUENCE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class InstanceOutput:
    """The output of one instance; made by :meth:`OutputFolder.open`."""

    def __init__(self, instance: str, endpoint: str, folder: OutputFolder) -> None:
        self.instance = instance
        self.endpoint = endpoint
        self.closed = False
        self._folder = folder
        self._tail = bytearray()
        self._waiting = bytearray()
        self._left_out = 0

    def feed(self, data: bytes) -> None:
        """Take output as it comes; called on the loop's thread."""
        self._tail += data[-LAST_OUTPUT_BYTES:]
        del self._tail[:-LAST_OUTPUT_BYTES]
        if self.closed or not self._folder.writes:
            return
        room = OUTPUT_WAITING_BYTES - len(self._waiting)
        # Once output is left out, more is left out until the file has a note of it at the right
        # place.
        taken = 0 if self._left_out else min(room, len(data))
        self._waiting += data[:taken]
        self._left_out += len(data) - taken
        self._folder.has_output(self)

    def last_lines(self) -> tuple[str, ...]:
        """Return the last lines of output, each bounded, and safe to show."""
        text = self._tail.decode(errors="replace").rstrip()
        # Of a line that was overwritten, such as a progress bar, only the final text counts.
        lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")[-LAST_LINES:])
        plain = (safe(_CONTROL_SEQUENCE.sub("", line).expandtabs(4)) for line in lines)
        return tuple(cut(line, LAST_LINE_CHARACTERS) for line in plain) if text else ()

    def close(self) -> None:
        """Take no more; buffered output is still written."""
        self.closed = True
        self._folder.ended(self)

    @property
    def is_urgent(self) -> bool:
        """Whether enough is buffered to be written at once."""
        return len(self._waiting) >= OUTPUT_FLUSH_BYTES

    def take_waiting(self) -> bytes:
        """Return and clear the buffer, with a note about output that was left out."""
        said = bytes(self._waiting)
        if self._left_out:
            said += (
                f"\n[partway: {self._left_out} bytes of output were left out here: "
                "the disk did not take them in time]\n"
            ).encode()
        self._waiting.clear()
        self._left_out = 0
        return said


class OutputFolder:
    """The folder with the logs of instances, ``INSTANCE.log`` each.

    A log that has reached :data:`~partway.gateway.fleet.limits.OUTPUT_FILE_BYTES` is renamed to
    ``INSTANCE.log.1``, which replaces the one before, and a new log begins. A log is opened for
    each write: it holds no descriptor, and a log that was removed begins anew. Beside each log are
    its times (:mod:`partway.gateway.fleet.output.log_files`).

    Args:
        path: the folder, made if its parent exists; None to write nothing.
        wall_clock: returns epoch seconds.
    """

    def __init__(
        self,
        path: Path | None,
        clock: Clock | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._clock = clock
        self._open: set[str] = set()
        self._waiting: dict[InstanceOutput, None] = {}
        self._timer: Timer | None = None
        self._writing: asyncio.Task[None] | None = None
        self._writer = _Writer(path, wall_clock) if path is not None else None
        self._closed = False

    @property
    def writes(self) -> bool:
        return self._writer is not None and not self._closed

    def open(self, instance: str, endpoint: str = "") -> InstanceOutput:
        """Open the output of one instance.

        ``instance`` consists of letters, digits and hyphens.
        """
        self._open.add(instance)
        return InstanceOutput(instance, endpoint, self)

    def has_output(self, output: InstanceOutput) -> None:
        """Note that output of an instance is buffered; only for :class:`InstanceOutput`."""
        self._waiting[output] = None
        if self._writing is None:
            self._write_soon(at_once=output.is_urgent)

    def ended(self, output: InstanceOutput) -> None:
        """Note that an instance prints no more; only for :class:`InstanceOutput`."""
        self._open.discard(output.instance)

    async def aclose(self) -> None:
        """Write all buffered output, within a time limit, and nothing after that."""
        if self._writer is None or self._closed:
            return
        try:
            async with time_limit(self._clock or LoopClock(), OUTPUT_CLOSE_TIMEOUT):
                while self._waiting or self._writing is not None:
                    if self._writing is None:
                        self._write()
                    else:
                        await asyncio.shield(self._writing)
        except TimeoutError:
            log.warning(LogLine("the disk has not taken all output of instances in time"))
        finally:
            self._closed = True
            self._stop_timer()
            if self._writing is not None:
                self._writing.cancel()
            self._writer.close()

    def _write_soon(self, *, at_once: bool) -> None:
        if at_once:
            self._write()
        elif self._timer is None:
            if self._clock is None:
                self._clock = LoopClock()
            self._timer = self._clock.call_later(OUTPUT_FLUSH_INTERVAL, self._write)

    def _write(self) -> None:
        """Begin to write the buffers; there is at most one such task."""
        self._stop_timer()
        said = {
            output.instance: (output.endpoint, output.take_waiting()) for output in self._waiting
        }
        self._waiting.clear()
        self._writing = asyncio.create_task(self._written(said), name="output of instances")

    async def _written(self, said: _Said) -> None:
        assert self._writer is not None
        try:
            await self._writer.write(said, frozenset(self._open))
        finally:
            self._writing = None
        if self._waiting and not self._closed:
            self._write_soon(at_once=any(output.is_urgent for output in self._waiting))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


#: For each instance, the name of its endpoint and the bytes to write.
_Said: TypeAlias = dict[str, tuple[str, bytes]]

#: The bytes to write, the instances that live, and a callback for the end of the job.
_Job: TypeAlias = tuple[_Said, frozenset[str], Callable[[], None]]


class _Writer:
    """Writes logs on a thread of its own, so that a hanging disk delays nothing else."""

    def __init__(self, folder: Path, wall_clock: Callable[[], float]) -> None:
        self._folder = folder
        self._wall_clock = wall_clock
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._files: dict[str, PrintedFiles] = {}
        self._dropped: dict[str, int] = {}

    async def write(self, said: _Said, living: frozenset[str]) -> None:
        """Append to the logs of instances, and remove those of instances that ended long ago."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop has ended, and nothing waits
                loop.call_soon_threadsafe(done.set)

        if self._thread is None:
            # A daemon thread: a hanging disk must not keep the process from ending.
            self._thread = threading.Thread(target=self._work, name="output", daemon=True)
            self._thread.start()
        self._jobs.put((said, living, tell))
        await done.wait()

    def close(self) -> None:
        """Have the thread end once it has done all jobs."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            said, living, tell = job
            try:
                self._write(said, living)
            finally:
                tell()

    def _write(self, said: _Said, living: frozenset[str]) -> None:
        now = int(self._wall_clock() * 1000)
        for instance, (endpoint, data) in said.items():
            try:
                if instance not in self._files:
                    self._folder.mkdir(mode=0o700, exist_ok=True)
                    self._remove_old({*living, *said})
                    self._files[instance] = PrintedFiles(self._folder, instance, endpoint)
                self._files[instance].append(data, now)
            except OSError as error:
                self._not_written(instance, len(data), error)
            else:
                self._written(instance)
        for gone in self._files.keys() - {*living, *said}:
            del self._files[gone]
        for gone in self._dropped.keys() - {*living, *said}:
            del self._dropped[gone]

    def _not_written(self, instance: str, size: int, error: OSError) -> None:
        """Log a failed write, unless some instance's output is already being dropped."""
        if not self._dropped:
            log.warning(
                LogLine(
                    "output of instances is dropped until the disk takes it",
                    folder=str(self._folder),
                    instance=instance,
                    reason=error.strerror,
                )
            )
        self._dropped[instance] = self._dropped.get(instance, 0) + size

    def _written(self, instance: str) -> None:
        dropped = self._dropped.pop(instance, 0)
        if dropped:
            again = "output of an instance is written again"
            log.info(LogLine(again, instance=instance, bytes_dropped=dropped))

    def _remove_old(self, living: set[str]) -> None:
        """Remove the logs of ended instances, except for those that wrote last."""
        folder = self._folder
        ages: dict[str, float] = {}
        for path in folder.iterdir():
            instance = instance_of(path.name)
            if instance is not None and instance not in living:
                with suppress(FileNotFoundError):
                    ages[instance] = max(ages.get(instance, 0), path.stat().st_mtime)
        newest_first = sorted(ages, key=lambda instance: ages[instance], reverse=True)
        for instance in newest_first[OUTPUTS_KEPT:]:
            for path in (*log_files(folder, instance), *times_files(folder, instance)):
                path.unlink(missing_ok=True)
