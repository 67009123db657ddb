"""Programs that outlive a gateway process, and what the next one must know to adopt them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self

from partway.gateway.fleet.endpoint import Program
from partway.gateway.fleet.launchers.launcher import LaunchError, Order
from partway.gateway.fleet.processes.process_group import ProcessGroup
from partway.gateway.fleet.processes.process_table import began
from partway.gateway.kept_state import KeptEntry, KeptState

#: Begins the name of each entry; the container's id follows.
_PREFIX: Final = "program/"


@dataclasses.dataclass(frozen=True, slots=True)
class KeptProgram:
    """The record of a program.

    Attributes:
        made_of: the digest of :func:`made_of`.
        mark: the leash's mark.
        gpus: those of its instance, if it has its own.
        model: the path of its model directory; empty without one.
        began: when its process was started, as :func:`~.process_table.began` says.
    """

    endpoint: str
    made_of: str
    port: int
    mark: str
    gpus: tuple[str, ...]
    model: str
    began: int

    def written(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def read(cls, record: bytes) -> Self:
        """Read a record; members that a later version has added are left out."""
        said = json.loads(record)
        members = {each.name: said[each.name] for each in dataclasses.fields(cls)}
        return cls(**{**members, "gpus": tuple(members["gpus"])})


class KeptPrograms:
    """Keeps running programs, and hands out those of an earlier process, by their container ids."""

    def __init__(self, kept: KeptState) -> None:
        self._kept = kept
        self._earlier: dict[str, tuple[KeptProgram, KeptEntry]] = {
            name.removeprefix(_PREFIX): (KeptProgram.read(entry.record), entry)
            for name, entry in kept.take(_PREFIX).items()
        }
        #: The leash's marks of all programs that an earlier process has kept.
        self.marks: Final = frozenset(program.mark for program, _ in self._earlier.values())

    def __iter__(self) -> Iterator[tuple[str, KeptProgram]]:
        """Yield those that none has taken, with their containers' ids."""
        for container, (program, _) in self._earlier.items():
            yield container, program

    def keep(self, container: str, group: ProcessGroup, program: KeptProgram) -> None:
        """Keep a program that runs; ``program.began`` is found out here."""
        if (when := began(group.pid)) is not None:  # else it has ended, or the system does not say
            record = dataclasses.replace(program, began=when).written()
            self._kept.keep(_PREFIX + container, record, group.outputs, group.pid)

    def forget(self, container: str) -> None:
        self._kept.forget(_PREFIX + container)

    def claim(self, container: str, made: str) -> tuple[KeptProgram, KeptEntry] | None:
        """Hand out a container's program of an earlier process; None if there is none.

        Args:
            made: the digest of what it must be made of.

        Raises:
            LaunchError: the program is made of something else. It stays, since streams may be open
                on it.
        """
        if container not in self._earlier:
            return None
        if self._earlier[container][0].made_of != made:
            raise LaunchError(
                "an earlier gateway process has started its program from something else; a new "
                "instance takes its place",
                passing=True,
            )
        return self._earlier.pop(container)

    def unclaimed(self) -> Mapping[str, tuple[KeptProgram, KeptEntry]]:
        """Hand out all that none has taken, by their containers' ids."""
        found, self._earlier = self._earlier, {}
        return found


def made_of(order: Order, folder: tuple[int, int] | None) -> str:
    """Return a digest that is equal only for programs that are started alike.

    Args:
        order: the order for the program.
        folder: device and inode of its model directory, since another folder may have its path.
    """
    variant, source = order.variant, order.variant.source
    assert isinstance(source, Program), "nothing else is started here"
    vertex = variant.vertex
    made = {
        "whose": [order.endpoint, variant.name],
        "command": source.command,
        "cwd": str(source.cwd or Path.cwd()),
        "environment": variant.environment,
        "vertex": vertex and vertex.environment(order.endpoint, variant.name, 0, ""),
        "gpus": variant.gpus,
        "folder": folder,
    }
    text = json.dumps(made, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
