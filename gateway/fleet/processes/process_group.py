"""A process that leads a process group: its output, its signals and its end."""

from __future__ import annotations

import asyncio
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress

from partway.gateway.fleet.output.pipe import OutputPipe
from partway.gateway.fleet.output.rate_limit import OutputPace
from partway.gateway.fleet.processes.leash import Leash


class ProcessGroup(ABC):
    """One process, and the process group that it leads.

    Args:
        on_output: takes its output, as it comes.
        leash: holds the group from the start until :meth:`release`.
        mark: lets the leash recognise its descendants.
        pace: limits the rate of its output; None for no limit.
        on_errors: takes its standard error from a second pipe; None if ``on_output`` takes both, in
            order.

    Attributes:
        exited: set when the process has ended; its descendants may run on.
        silent: set when the last process that held its output has ended or closed it.
        status: its exit status, negative for a signal's number; None before the end.
    """

    def __init__(
        self,
        on_output: Callable[[bytes], None],
        leash: Leash,
        mark: str,
        pace: OutputPace | None = None,
        on_errors: Callable[[bytes], None] | None = None,
    ) -> None:
        self.exited = asyncio.Event()
        self.silent = asyncio.Event()
        self.status: int | None = None
        self.mark = mark
        self._takers = [on_output] if on_errors is None else [on_output, on_errors]
        self._pipes: list[OutputPipe] = []
        self._open_pipes = len(self._takers)
        self._leash = leash
        self._pace = pace

    @property
    @abstractmethod
    def pid(self) -> int:
        """The number of the process and of its group; after its end another process may have it."""

    @property
    def outputs(self) -> Sequence[int]:
        """The descriptors from which its output is read."""
        return [each.read_end for each in self._pipes]

    def terminate(self) -> None:
        """Send SIGTERM to the process alone."""
        # Not by a transport: it first polls whether the process has ended, and so takes the exit
        # status from the loop's own watcher, which would report 255.
        if not self.exited.is_set():
            with suppress(ProcessLookupError, PermissionError):  # now another user's
                os.kill(self.pid, signal.SIGTERM)

    def kill_group(self) -> None:
        """Kill the process and its group.

        Not to be called long after its end: another group may have the number once the last of this
        group has ended.
        """
        # macOS refuses if only zombies are left; every system does if all run as another user,
        # which setuid programs can do.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def release(self) -> None:
        """Release the group and its output: after its end, or if it cannot be ended."""
        self._leash.let_go(self.pid)
        self._close_pipes()

    def _begun(self) -> None:
        """Have it held, and read its output: it runs."""
        self._leash.hold(self.pid)
        self._read()

    def _read(self) -> None:
        for pipe in self._pipes:  # not earlier: a receiver of output must already have this process
            pipe.resume_reading()

    def _has_exited(self, status: int | None) -> None:
        self.status = status
        self.exited.set()
        if self._pace is not None:
            self._pace.end()

    def _took(self, take: Callable[[bytes], None], pipe: OutputPipe, data: bytes) -> None:
        take(data)
        if self._pace is not None:
            self._pace.took(len(data), pipe)

    def _pipe_ended(self) -> None:
        self._open_pipes -= 1
        if not self._open_pipes:
            self.silent.set()

    def _close_pipes(self) -> None:
        for pipe in self._pipes:
            pipe.close()
