"""A process that an earlier gateway process has started, and that runs on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from partway.gateway.fleet.output.pipe import OutputPipe
from partway.gateway.fleet.output.rate_limit import OutputPace
from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.fleet.processes.process_group import ProcessGroup
from partway.gateway.fleet.processes.process_table import began
from partway.gateway.kept_state import KeptEntry

#: The status of a process whose end the earlier gateway process alone has seen (as asyncio's).
UNKNOWN_STATUS: Final = 255


class AdoptedProcess(ProcessGroup):
    """A process whose parent is the supervisor now; it may have ended meanwhile.

    Args:
        entry: has its number, and the descriptors of its output. The supervisor tells its end.
        mark: the mark with which it was started.
        started: when it was started, as :func:`~.process_table.began` says.
    """

    def __init__(
        self,
        entry: KeptEntry,
        mark: str,
        started: int,
        on_output: Callable[[bytes], None],
        leash: Leash,
        pace: OutputPace | None = None,
    ) -> None:
        super().__init__(on_output, leash, mark, pace)
        self._pid = entry.pid
        take = partial(self._took, on_output)
        self._pipes = [OutputPipe(take, self._pipe_ended, each) for each in entry.descriptors]
        entry.on_end = self._ended
        if entry.status is not None:
            self._ended(entry.status)
        elif began(entry.pid) != started:
            self._ended(UNKNOWN_STATUS)
        #: Another group may have its number since. The leash's mark finds those that it has left.
        self._was_gone = self.exited.is_set()
        if self._was_gone:
            self._read()
        else:
            self._begun()

    @property
    def pid(self) -> int:
        return self._pid

    def kill_group(self) -> None:
        if not self._was_gone:
            super().kill_group()

    def _ended(self, status: int) -> None:
        if not self.exited.is_set():
            self._has_exited(status)
