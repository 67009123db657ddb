"""The container that is checked: one that runs somewhere, or one that is started here."""

from __future__ import annotations

import asyncio
import resource
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partway.gateway.dialling import Address
from partway.gateway.fleet.launchers.empty_model import empty_model_dir
from partway.gateway.fleet.launchers.process import (
    HOST,
    Command,
    ContainerProcess,
    free_port,
    launch,
)
from partway.gateway.fleet.leash import Leash
from partway.gateway.fleet.process_table import family
from partway.gateway.workbench.conformance.link import CONNECT_TIMEOUT

#: Of what the container prints, the end is kept.
MAX_OUTPUT: Final = 64 << 10

_POLL = 0.02
_PAGE = resource.getpagesize()


@dataclass(slots=True)
class Target:
    """Where streams are asked for.

    Attributes:
        path: without its first slash.
        query: without its question mark; may be empty.
    """

    path: str = "invocations-bidirectional-stream"
    query: str = ""

    def __str__(self) -> str:
        return f"/{self.path}?{self.query}" if self.query else f"/{self.path}"


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


class Launched:
    """A container's process, started as the platform starts it (clause 1.1-1).

    ``serve`` is appended to the command; the port comes in ``SAGEMAKER_BIND_TO_PORT``; the model
    directory is read-only; SIGTERM ends it, and SIGKILL what is left after 30 s. If this process is
    killed itself, the container goes with it, but a folder that was made stays behind, empty.

    Args:
        command: as an image's ENTRYPOINT in exec form.
        environment: further variables of the model definition.
        model_dir: a folder with artifacts; an empty one is made if none is given.
        cwd: where it runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        model_dir: Path | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.command = tuple(command)
        self._environment = dict(environment or {})
        self._made: tempfile.TemporaryDirectory[str] | None = None
        if model_dir is None:
            self._made = empty_model_dir()
            model_dir = Path(self._made.name)
        self.model_dir = model_dir
        self._before = _artifacts(model_dir)
        self._cwd = cwd
        self._leash: Leash | None = None
        self._process: ContainerProcess | None = None
        self._output = bytearray()
        self.port = 0
        self.began = 0.0

    @property
    def pid(self) -> int | None:
        """Of the process that was started; None when it does not run."""
        return None if self._process is None else self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status; negative for a signal's number; None while it runs."""
        return None if self._process is None else self._process.status

    @property
    def output(self) -> str:
        """The end of what it has printed."""
        return bytes(self._output).decode(errors="replace")

    async def start(self) -> Address:
        """Start it on a free port; returns at once, whether or not it listens.

        Raises:
            OSError: there is no such program.
        """
        self._output.clear()
        self.port = free_port()
        self.began = time.monotonic()
        if self._leash is None:
            self._leash = Leash()
        environment = {**self._environment, "SM_MODEL_DIR": str(self.model_dir)}
        self._process = await launch(
            Command((*self.command, "serve"), self.port, environment, self._cwd),
            self._leash,
            self._take_output,
            wait_for_all=True,
        )
        return self._process.address

    async def listening(self, timeout: float) -> float | None:
        """Wait until it accepts a connection; seconds since its start, None if it does not."""
        while time.monotonic() - self.began < timeout and self.pid is not None:
            if await self.accepts():
                return time.monotonic() - self.began
            await asyncio.sleep(_POLL)  # nothing tells when a port is opened
        return None

    async def accepts(self) -> bool:
        """Whether it accepts a connection now."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                _, writer = await asyncio.open_connection(HOST, self.port)
        except OSError:  # a TimeoutError is one
            return False
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return True

    def terminate(self) -> None:
        """Send SIGTERM to the first process, as the platform does."""
        if self._process is not None:
            self._process.terminate()

    async def ended(self, timeout: float) -> bool:
        """Whether it ends in time, and with it all that it has started and that holds its output.

        An engine ends them all with the first. Here they run on: a shell that takes SIGTERM for
        itself has not ended its container.
        """
        process = self._process  # another may be started meanwhile
        return process is None or await process.ends_within(timeout)

    async def kill(self) -> None:
        """End it, and all that it has started, at once."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.wait()

    async def aclose(self) -> None:
        """Kill it, and remove what was made for it."""
        await self.kill()
        if self._leash is not None:
            self._leash.close()
            self._leash = None
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


@dataclass(slots=True)
class Subject:
    """A container that is checked.

    Attributes:
        address: where it listens.
        target: where it takes streams.
        process: its own, where it was started here.
        answers_close: false once a stream's Close was not answered in time: later ones are not
            waited for, which would take a whole run half a minute.
    """

    address: Address
    target: Target = field(default_factory=Target)
    process: Launched | None = None
    answers_close: bool = True

    async def start_again(self, timeout: float) -> None:
        """Have the process that was started here run anew."""
        if self.process is not None:
            await self.process.kill()
            self.address = await self.process.start()
            await self.process.listening(timeout)


def command_of(text: str) -> tuple[str, ...]:
    """A command line as an exec form: no shell has a say in it.

    Raises:
        ValueError: a quotation is not closed, or there is nothing in it.
    """
    words = tuple(shlex.split(text))
    if not words:
        raise ValueError("the command is empty")
    return words


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
