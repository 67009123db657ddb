"""Kept state in this process's memory, as one gateway process leaves it to the next."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
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

    def close(self) -> None:
        for each in self.descriptors:
            os.close(each)


class KeptInMemory:
    """The entries that one gateway process sees."""

    def __init__(self) -> None:
        self._entries: dict[str, _Kept] = {}
        self._of_earlier: set[str] = set()
        self._watched: dict[int, int] = {}  # descriptors of processes, by pid

    # --- For the gateway process -----------------------------------------------------------------

    def keep(self, name: str, record: bytes, descriptors: Sequence[int] = (), pid: int = 0) -> None:
        kept = tuple(os.dup(each) for each in descriptors)
        self.forget(name)
        self._entries[name] = _Kept(record, kept, pid)

    def forget(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        self._of_earlier.discard(name)
        if entry is not None:
            entry.close()

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

    @property
    def names(self) -> set[str]:
        return set(self._entries)

    def record(self, name: str) -> bytes:
        return self._entries[name].record

    def next_process(self) -> KeptInMemory:
        """Return what the next gateway process sees; from now on, this one keeps nothing.

        Processes of the entries that are children of this process now are reaped.
        """
        following = KeptInMemory()
        following._entries, self._entries = self._entries, {}
        following._of_earlier = set(following._entries)
        for entry in following._entries.values():
            entry.taken = None
            if entry.pid:
                following._watch(entry.pid)
        self._unwatch_all()
        return following

    def close(self) -> None:
        for name in self.names:
            self.forget(name)
        self._unwatch_all()

    def _watch(self, pid: int) -> None:
        with suppress(ProcessLookupError):  # the earlier process has reaped it
            handle = self._watched[pid] = os.pidfd_open(pid)
            asyncio.get_running_loop().add_reader(handle, self._reap, pid)

    def _unwatch(self, pid: int) -> None:
        handle = self._watched.pop(pid)
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)

    def _unwatch_all(self) -> None:
        for pid in list(self._watched):
            self._unwatch(pid)

    def _reap(self, pid: int) -> None:
        self._unwatch(pid)
        try:
            _, raw = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # another process's child
            return
        status = os.waitstatus_to_exitcode(raw)
        for entry in self._entries.values():
            if entry.pid == pid and entry.status is None:
                entry.status = status
                if entry.taken is not None:
                    entry.taken.ended(status)
