"""The entries that a supervisor keeps: what must outlive a gateway process."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Final

from partway.gateway.kept_state import KeptEntry
from partway.gateway.workers.limits import MAX_KEPT, MAX_KEPT_BYTES
from partway.log_lines import LogLine

log = logging.getLogger("partway.workers")


class KeptEntries:
    """Entries by name, in a bounded number, with records of bounded size."""

    def __init__(self) -> None:
        self.all: Final[dict[str, KeptEntry]] = {}
        self._bytes = 0

    def keep(self, name: str, record: bytes, descriptors: Sequence[int], pid: int) -> None:
        """Keep an entry in place of an earlier one; the descriptors belong to it."""
        self.forget(name)
        if len(self.all) >= MAX_KEPT or self._bytes + len(record) > MAX_KEPT_BYTES:
            log.error(
                LogLine(
                    "the supervisor keeps no more for the next gateway process",
                    name=name,
                    entries=len(self.all),
                    bytes=self._bytes,
                )
            )
            close_descriptors(descriptors)
            return
        self.all[name] = KeptEntry(record, tuple(descriptors), pid)
        self._bytes += len(record)

    def forget(self, name: str) -> None:
        """Drop an entry, if there is one, and close its descriptors."""
        entry = self.all.pop(name, None)
        if entry is not None:
            self._bytes -= len(entry.record)
            close_descriptors(entry.descriptors)

    def ended(self, pid: int, status: int) -> str | None:
        """Note the end of a child; return the name of its entry, if it has one."""
        for name, entry in self.all.items():
            if entry.pid == pid and entry.status is None:
                entry.ended(status)
                return name
        return None

    def close(self) -> None:
        """Close all descriptors, and keep nothing; for a process that was forked."""
        for name in [*self.all]:
            self.forget(name)


def close_descriptors(descriptors: Sequence[int]) -> None:
    for each in descriptors:
        os.close(each)
