"""The upgrade of the supervisor: it executes its command line in place, as the same process.

Children, descriptors and entries stay. The new code finds them by a variable of its environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from partway.gateway.kept_state import KeptEntry
from partway.gateway.workers.supervision import WorkersError
from partway.variables import KEPT_STATE


class _Entry(msgspec.Struct, frozen=True):
    name: str
    record: bytes
    descriptors: tuple[int, ...]
    pid: int
    status: int | None


class SupervisorState(msgspec.Struct, frozen=True):
    """The state that goes on in the new code.

    Attributes:
        generation: how many upgrades there have been.
    """

    generation: int
    entries: tuple[_Entry, ...]

    def kept(self) -> Iterable[tuple[str, KeptEntry]]:
        for each in self.entries:
            yield each.name, KeptEntry(each.record, each.descriptors, each.pid, each.status)


def command_line() -> list[str]:
    """Return the command by which this process was started.

    A script is executed itself: its first line may name another interpreter by now.
    """
    words = sys.orig_argv[1:]
    is_flag = not words or words[0].startswith("-")  # whatever a file is called
    if not is_flag and Path(words[0]).is_file() and os.access(words[0], os.X_OK):
        return words
    return [sys.executable, *words]


def execute(generation: int, entries: Iterable[tuple[str, KeptEntry]]) -> None:
    """Become the program of the command line, with the entries; return only after an error.

    Raises:
        OSError: the program cannot be executed.
    """
    kept = tuple(
        _Entry(name, each.record, each.descriptors, each.pid, each.status) for name, each in entries
    )
    memory = os.memfd_create("partway-kept", 0)
    descriptors = [number for each in kept for number in each.descriptors]
    try:
        os.pwrite(memory, msgspec.msgpack.encode(SupervisorState(generation, kept)), 0)
        for each in descriptors:
            os.set_inheritable(each, True)
        environment = os.environ | {KEPT_STATE: str(memory)}
        command = command_line()
        os.execve(command[0], command, environment)  # noqa: S606 (the same as before)
    finally:
        os.close(memory)
        for each in descriptors:
            os.set_inheritable(each, False)


def resumed_state() -> SupervisorState:
    """Take the state of before; it is empty for a process that begins.

    Raises:
        WorkersError: the code of before has written something that this code does not understand.
    """
    number = os.environ.pop(KEPT_STATE, None)
    if number is None:
        return SupervisorState(0, ())
    memory = int(number)
    data = os.pread(memory, os.fstat(memory).st_size, 0)
    os.close(memory)
    try:
        state = msgspec.msgpack.decode(data, type=SupervisorState)
    except msgspec.MsgspecError as error:
        raise WorkersError(
            f"this version cannot go on from the state of the one before it: {error}; start the "
            "gateway anew"
        ) from None
    for each in state.entries:
        for descriptor in each.descriptors:
            os.set_inheritable(descriptor, False)
    return state
