"""A container that was started to be checked: what all of them have, whatever runs them."""

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

from partway.gateway.fleet.launchers.callers_folder import empty_model_dir
from partway.gateway.fleet.launchers.process import ProcessEnd
from partway.gateway.fleet.processes.process_table import family
from partway.gateway.network.dialling import Address
from partway.gateway.plain_text import cut
from partway.gateway.workbench.conformance.raw_connection import CONNECT_TIMEOUT

#: Of what the container prints, the end is kept.
MAX_OUTPUT: Final = 64 << 10

#: Seconds that a container which dies may take to be gone, for its connections end first, and its
#: last words may come behind its end.
DEATH_TIMEOUT: Final = 0.3

#: Of the words of a container that has died a remedy quotes the last lines, each up to so many
#: characters.
_LAST_LINES: Final = 3
_LAST_LINE: Final = 200

_POLL = 0.02
_PAGE = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a container's processes hold, all of them together.

    Attributes:
        descriptors: open files and sockets.
        tasks: threads, and processes that nobody has waited for.
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
        command: the program and its arguments, or the words that stand for them in a report.
        environment: further variables of the model definition.
        model_dir: a folder with artifacts; an empty one is made if none is given.

    Attributes:
        command: the same.
        environment: the same.
        model_dir: the folder with artifacts.
        address: where it listens, or will; None before its start.
        began: when it was started, in monotonic seconds.
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
        """Of the process that was started; None when it does not run."""

    @property
    @abstractmethod
    def status(self) -> int | None:
        """The exit status, as what runs it tells of it; None while it runs."""

    @property
    def port(self) -> int:
        """Where it listens, or will; 0 before its start."""
        return 0 if self.address is None else self.address.port

    @property
    def output(self) -> str:
        """The end of what it has printed."""
        return bytes(self._output).decode(errors="replace")

    async def start(self) -> Address:
        """Start it; returns at once, whether or not it listens.

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
        """Wait until it accepts a connection; seconds since its start, None if it does not."""
        while time.monotonic() - self.began < timeout and self.pid is not None:
            if await self.accepts():
                return time.monotonic() - self.began
            await asyncio.sleep(_POLL)  # nothing tells when a port is opened
        return None

    @abstractmethod
    async def listening_trouble(self) -> str:
        """Say where its program listens instead; empty where that cannot be known."""

    async def accepts(self) -> bool:
        """Whether it accepts a connection now."""
        if self.address is None:
            return False
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                _, writer = await asyncio.open_connection(self.address.host, self.address.port)
        except OSError:  # a TimeoutError is one
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
        """Whether it ends in time, and with it all that it has started."""

    async def death_remedy(self) -> str:
        """The remedy where it has ended by itself: its end, and the last lines that it printed."""
        await self.ended(DEATH_TIMEOUT)
        lines = [line for each in self.output.splitlines() if (line := each.strip())]
        said = " / ".join(cut(line, _LAST_LINE) for line in lines[-_LAST_LINES:])
        why = f"find out why the program {ProcessEnd(self.status)}; it must run on"
        if not said:
            return f"{why}. It printed nothing: start the command by itself"
        return f'{why}. Its last lines: "{said}"'

    @abstractmethod
    async def kill(self) -> None:
        """End it, and all that it has started, at once."""

    async def aclose(self) -> None:
        """Kill it, and remove what was made for it."""
        await self.kill()
        if self._made is not None:
            self._made.cleanup()

    def changed_artifacts(self) -> list[str]:
        """What is in the model directory that was not, or not so, at the first start."""
        now = _artifacts(self.model_dir)
        return sorted(
            str(path)
            for path in now.keys() | self._before.keys()
            if now.get(path) != self._before.get(path)
        )

    def footprint(self) -> Footprint | None:
        """What its processes hold; None where the system does not tell."""
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
        with suppress(FileNotFoundError):  # its owner was quicker
            known = path.lstat()
            found[path] = known.st_size, known.st_mtime_ns
    return found


def _held_by(process: Path) -> Footprint:
    """What one process holds; nothing of what has ended meanwhile."""
    descriptors = tasks = memory = 0
    with suppress(OSError):  # nobody may look at a process that has ended and is waited for
        descriptors = sum(1 for _ in (process / "fd").iterdir())
    with suppress(OSError):
        tasks = sum(1 for _ in (process / "task").iterdir())
        memory = int((process / "statm").read_text().split()[1]) * _PAGE
    return Footprint(descriptors, tasks, memory)
