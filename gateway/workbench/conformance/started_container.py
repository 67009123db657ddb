"""Containers that are started for the checks: the part that needs no engine or command."""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from partway.gateway.fleet.launchers.empty_model import empty_model_dir
from partway.gateway.fleet.launchers.process import ProcessEnd
from partway.gateway.fleet.processes.process_table import family
from partway.gateway.network.dialling import Address
from partway.gateway.plain_text import cut
from partway.gateway.workbench.conformance.raw_connection import CONNECT_TIMEOUT

#: Bytes of the container's output that are kept: the last ones.
MAX_OUTPUT: Final = 64 << 10

#: Seconds in which a dying container must be gone. Its connections end before the process, and its
#: last output may come after the end.
DEATH_TIMEOUT: Final = 0.3

#: The last lines of output that a remedy quotes after a death, and the characters of each.
_LAST_LINES: Final = 3
_LAST_LINE: Final = 200

_POLL = 0.02
_PAGE = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Footprint:
    """The resources of a container's processes, all together.

    Attributes:
        descriptors: open files and sockets.
        tasks: threads, and ended processes whose status was not collected.
        memory: bytes that are resident.
    """

    descriptors: int
    tasks: int
    memory: int

    def __add__(self, other: Footprint) -> Footprint:
        return Footprint(
            self.descriptors + other.descriptors,
            self.tasks + other.tasks,
            self.memory + other.memory,
        )


class Started(ABC):
    """A container that was started for the checks, with a read-only model directory.

    Args:
        command: the program and its arguments, or words in their place for a report.
        environment: further variables of the model definition.
        model_dir: a folder with artifacts; an empty one is made if none is given.

    Attributes:
        address: the address of the container's port; None before the start.
        began: when the container was started, in monotonic seconds.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        model_dir: Path | None = None,
    ) -> None:
        self.command = tuple(command)
        self.environment = dict(environment or {})
        self._made: tempfile.TemporaryDirectory[str] | None = None
        if model_dir is None:
            self._made = empty_model_dir()
            model_dir = Path(self._made.name)
        self.model_dir = model_dir
        self._before = _artifacts(model_dir)
        self._output = bytearray()
        self.address: Address | None = None
        self.began = 0.0

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """The id of the first process; None when it does not run."""

    @property
    @abstractmethod
    def status(self) -> int | None:
        """The exit status, as the engine or the system gives it; None while the container runs."""

    @property
    def port(self) -> int:
        """The container's port; 0 before the start."""
        return 0 if self.address is None else self.address.port

    @property
    def output(self) -> str:
        """The end of the container's output."""
        return bytes(self._output).decode(errors="replace")

    async def start(self) -> Address:
        """Start the container; returns at once, whether or not it listens.

        Raises:
            LaunchError: there is no such program or image, or it cannot be started.
        """
        self._output.clear()
        self.began = time.monotonic()
        self.address = await self._launch()
        return self.address

    @abstractmethod
    async def _launch(self) -> Address: ...

    async def listening(self, timeout: float) -> float | None:
        """Wait until the container accepts a connection.

        Returns:
            Seconds since the start; None if the container ended or did not accept in time.
        """
        while time.monotonic() - self.began < timeout and self.pid is not None:
            if await self.accepts():
                return time.monotonic() - self.began
            await asyncio.sleep(_POLL)  # nothing signals that a port was opened
        return None

    @abstractmethod
    async def listening_trouble(self) -> str:
        """Say where the program listens instead of its port; "" where that cannot be known."""

    async def accepts(self) -> bool:
        if self.address is None:
            return False
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                _, writer = await asyncio.open_connection(self.address.host, self.address.port)
        except OSError:  # includes TimeoutError
            return False
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return True

    @abstractmethod
    async def terminate(self) -> None:
        """Send SIGTERM to the first process, as the platform does."""

    @abstractmethod
    async def ended(self, timeout: float) -> bool:
        """Wait for the end of the container's processes; return whether they ended in time."""

    async def death_remedy(self) -> str:
        """The remedy after a death: the exit status, and the last lines of the output."""
        await self.ended(DEATH_TIMEOUT)
        lines = [line for each in self.output.splitlines() if (line := each.strip())]
        said = " / ".join(cut(line, _LAST_LINE) for line in lines[-_LAST_LINES:])
        why = f"find out why the program {ProcessEnd(self.status)}; it must keep running"
        if not said:
            return f"{why}. It printed nothing: run the command by itself"
        return f'{why}. Its last lines: "{said}"'

    @abstractmethod
    async def kill(self) -> None:
        """Kill all processes of the container at once."""

    async def aclose(self) -> None:
        """Kill the container, and remove the folder that was made for it."""
        await self.kill()
        if self._made is not None:
            self._made.cleanup()

    def changed_artifacts(self) -> list[str]:
        """The files of the model directory that were added, changed or removed since the start."""
        now = _artifacts(self.model_dir)
        return sorted(
            str(path)
            for path in now.keys() | self._before.keys()
            if now.get(path) != self._before.get(path)
        )

    def footprint(self) -> Footprint | None:
        """The resources of the container's processes; None where the system has no ``/proc``."""
        if self.pid is None or not Path("/proc/self/fd").is_dir():
            return None
        held = Footprint(0, 0, 0)
        for pid in family(self.pid):
            held += _held_by(Path(f"/proc/{pid}"))
        return held

    def _take_output(self, data: bytes) -> None:
        self._output += data
        del self._output[:-MAX_OUTPUT]


def _artifacts(folder: Path) -> dict[Path, tuple[int, int]]:
    """Size and time of each file."""
    found = {}
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # the file was removed meanwhile
            known = path.lstat()
            found[path] = known.st_size, known.st_mtime_ns
    return found


def _held_by(process: Path) -> Footprint:
    """The resources of one process; zeros if it has ended meanwhile."""
    descriptors = tasks = memory = 0
    with suppress(OSError):  # a process that has ended cannot be read
        descriptors = sum(1 for _ in (process / "fd").iterdir())
    with suppress(OSError):
        tasks = sum(1 for _ in (process / "task").iterdir())
        memory = int((process / "statm").read_text().split()[1]) * _PAGE
    return Footprint(descriptors, tasks, memory)
