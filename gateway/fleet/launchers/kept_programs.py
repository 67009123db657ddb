"""Programs that outlive a gateway process, and what the next one must know to adopt them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self

from partway.gateway.fleet.endpoint import Program
from partway.gateway.fleet.launchers.launcher import LaunchError, Order
from partway.gateway.fleet.output.held_output import HeldOutput
from partway.gateway.fleet.output.rate_limit import OutputPace
from partway.gateway.fleet.processes.adopted_process import AdoptedProcess
from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.fleet.processes.process_group import ProcessGroup
from partway.gateway.fleet.processes.process_table import began
from partway.gateway.kept_state import KeptState
from partway.gateway.timing.clock import Clock

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
        """Read a record of any version; a member that it lacks has its default."""
        said = json.loads(record)
        members = {k: said[k] for each in dataclasses.fields(cls) if (k := each.name) in said}
        return cls(**{**members, "gpus": tuple(members["gpus"])})


@dataclasses.dataclass(frozen=True, slots=True)
class AdoptedProgram:
    """A program of an earlier process, whose output is read already."""

    record: KeptProgram
    process: AdoptedProcess
    output: HeldOutput


class KeptPrograms:
    """Keeps running programs, and adopts those of an earlier process, by their container ids.

    Attributes:
        earlier: the records of all programs that an earlier process has kept.
    """

    def __init__(self, kept: KeptState) -> None:
        self._kept = kept
        self._entries = {
            name.removeprefix(_PREFIX): entry for name, entry in kept.take(_PREFIX).items()
        }
        self.earlier: Final = {
            container: KeptProgram.read(entry.record) for container, entry in self._entries.items()
        }
        self._adopted: dict[str, AdoptedProgram] = {}

    def adopt(self, leash: Leash, clock: Clock) -> None:
        """Read the output of all programs of an earlier process, and take note of their ends.

        A program would wait once its pipe is full, and with it the streams on it.
        """
        for container, entry in self._entries.items():
            program, output = self.earlier[container], HeldOutput()
            process = AdoptedProcess(
                *(entry, program.mark, program.began, output.feed, leash, OutputPace(clock))
            )
            self._adopted[container] = AdoptedProgram(program, process, output)
        self._entries.clear()

    @property
    def models(self) -> set[Path]:
        """The model directories of programs that none has taken."""
        return {Path(each.record.model) for each in self._adopted.values() if each.record.model}

    def keep(self, container: str, group: ProcessGroup, program: KeptProgram) -> None:
        """Keep a program that runs; ``program.began`` is found out here."""
        if (when := began(group.pid)) is not None:  # else it has ended, or the system does not say
            record = dataclasses.replace(program, began=when).written()
            self._kept.keep(_PREFIX + container, record, group.outputs, group.pid)

    def forget(self, container: str) -> None:
        self._kept.forget(_PREFIX + container)

    def claim(self, container: str, made: str) -> AdoptedProgram | None:
        """Hand out a container's program of an earlier process; None if there is none.

        Args:
            made: the digest of what it must be made of.

        Raises:
            LaunchError: the program is made of something else. It stays, since streams may be open
                on it.
        """
        found = self._adopted.get(container)
        if found is None:
            return None
        if found.record.made_of != made:
            raise LaunchError(
                "an earlier gateway process has started its program from something else; a new "
                "instance takes its place",
                passing=True,
            )
        return self._adopted.pop(container)

    @property
    def has_unclaimed(self) -> bool:
        return bool(self._adopted)

    def unclaimed(self, is_awaited: Callable[[str], bool]) -> Mapping[str, AdoptedProgram]:
        """Hand out those that none has taken, by their containers' ids.

        Args:
            is_awaited: whether an order for a container may still come.
        """
        found = {name: each for name, each in self._adopted.items() if not is_awaited(name)}
        self._adopted = {k: each for k, each in self._adopted.items() if k not in found}
        return found


def made_of(order: Order, folder: tuple[int, int] | None) -> str:
    """Return a digest that is equal only for programs that are started alike.

    An upgrade adopts programs only if it computes the same digest as the version before.

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
