"""Workers that outlive their parent: the supervisor keeps a descriptor of each process."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

import msgspec

from partway.gateway.kept_state import KeptState

#: Of the names of kept entries, before the number of a worker's row.
_PREFIX: Final = "worker/"


class _Record(msgspec.Struct, frozen=True):
    """The record of a running worker, whose kept entry has a descriptor of the process."""

    row: int
    slot: int
    generation: int


class RunningWorker(NamedTuple):
    """A worker that runs.

    Attributes:
        handle: a descriptor of the process.
        slot: the number of its slot.
        generation: of its code: each upgrade begins another one.
    """

    pid: int
    handle: int
    slot: int
    generation: int


def keep_worker(kept: KeptState, row: int, worker: RunningWorker) -> None:
    """Keep a worker for the next parent, as long as it runs."""
    record = msgspec.msgpack.encode(_Record(row, worker.slot, worker.generation))
    kept.keep(f"{_PREFIX}{row}", record, [worker.handle], worker.pid)


def forget_worker(kept: KeptState, row: int) -> None:
    """Forget the worker of a row, which has ended."""
    kept.forget(f"{_PREFIX}{row}")


def running_workers(kept: KeptState) -> dict[int, RunningWorker]:
    """Take the workers that have outlived their parent, by their rows."""
    found = {}
    for name, entry in kept.take(_PREFIX).items():
        if entry.status is None:
            record = msgspec.msgpack.decode(entry.record, type=_Record)
            found[record.row] = RunningWorker(
                *(entry.pid, entry.descriptors[0]), *(record.slot, record.generation)
            )
        else:
            kept.forget(name)
            os.close(entry.descriptors[0])
    return found
