"""Kept state in this process's memory: it outlives what a test makes with it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from partway.gateway.kept_state import KeptEntry


@dataclass(slots=True)
class _Kept:
    record: bytes
    descriptors: tuple[int, ...]
    pid: int
    status: int | None = None
    taken: KeptEntry | None = None


class KeptInMemory:
    """Keeps entries as a supervisor does, and reaps their processes after :meth:`adopt_all`.

    Attributes:
        names: of all entries, in the order in which they were kept.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Kept] = {}
        self._of_earlier: set[str] = set()
        self._watched: dict[int, int] = {}  # descriptors of processes, by pid

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    def record(self, name: str) -> bytes:
        return self._entries[name].record

    def pid(self, name: str) -> int:
        return self._entries[name].pid

    # --- For the gateway process -----------------------------------------------------------------

    def keep(self, name: str, record: bytes, descriptors: Sequence[int] = (), pid: int = 0) -> None:
        kept = tuple(os.dup(each) for each in descriptors)
        self.forget(name)
        self._entries[name] = _Kept(record, kept, pid)

    def forget(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        self._of_earlier.discard(name)
        if entry is not None:
            _close(entry.descriptors)

    def take(self, prefix: str) -> dict[str, KeptEntry]:
        found = {}
        for name, entry in self._entries.items():
            if name.startswith(prefix) and name in self._of_earlier:
                self._of_earlier.discard(name)
                descriptors = tuple(os.dup(each) for each in entry.descriptors)
                entry.taken = KeptEntry(entry.record, descriptors, entry.pid, entry.status)
                found[name] = entry.taken
        return found

    # --- For the test ----------------------------------------------------------------------------

    def adopt_all(self) -> None:
        """Begin as the keeper of an ended process's entries, whose children are this one's now."""
        self._of_earlier = set(self._entries)
        for entry in self._entries.values():
            if entry.pid and entry.pid not in self._watched:
                self._watch(entry.pid)

    def close(self) -> None:
        for name in self.names:
            self.forget(name)
        for pid in list(self._watched):
            self._unwatch(pid)

    def _watch(self, pid: int) -> None:
        with suppress(ProcessLookupError):  # the earlier process has reaped it
            handle = self._watched[pid] = os.pidfd_open(pid)
            asyncio.get_running_loop().add_reader(handle, self._reap, pid)

    def _unwatch(self, pid: int) -> None:
        handle = self._watched.pop(pid)
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)

    def _reap(self, pid: int) -> None:
        self._unwatch(pid)
        try:
            _, raw = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # it has ended before it became this process's child
            return
        status = os.waitstatus_to_exitcode(raw)
        for entry in self._entries.values():
            if entry.pid == pid and entry.status is None:
                entry.status = status
                if entry.taken is not None:
                    entry.taken.ended(status)


def _close(descriptors: Iterable[int]) -> None:
    for each in descriptors:
        os.close(each)
