"""The container to check: one that runs somewhere, or one that is started here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from partway.gateway.fleet.launchers.process import (
    Command,
    ContainerProcess,
    free_port,
    launch,
)
from partway.gateway.fleet.launchers.programs import MODEL_DIR
from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.network.dialling import Address
from partway.gateway.workbench.conformance.started_container import Started


@dataclass(slots=True)
class Target:
    """The target of streams: path without its first slash, query without its question mark."""

    path: str = "invocations-bidirectional-stream"
    query: str = ""

    def __str__(self) -> str:
        return f"/{self.path}?{self.query}" if self.query else f"/{self.path}"


class Launched(Started):
    """A container's process, started by a command as all commands of Partway start one.

    The port comes in ``SAGEMAKER_BIND_TO_PORT`` and in the place of ``{port}``; nothing is appended
    to the command. SIGTERM ends the container, and SIGKILL ends processes that are left after 30 s.
    If this process is killed, the container is killed too; an empty model folder stays behind.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        model_dir: Path | None = None,
        cwd: Path | None = None,
    ) -> None:
        super().__init__(command, environment, model_dir)
        self._cwd = cwd
        self._leash: Leash | None = None
        self._process: ContainerProcess | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process that was started; None when it does not run."""
        return None if self._process is None else self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status; negative for a signal's number; None while the process runs."""
        return None if self._process is None else self._process.status

    async def _launch(self) -> Address:
        if self._leash is None:
            self._leash = Leash()
        environment = {**self.environment, MODEL_DIR: str(self.model_dir)}
        self._process = await launch(
            Command(self.command, free_port(), environment, self._cwd),
            self._leash,
            self._take_output,
            wait_for_all=True,
        )
        return self._process.address

    async def listening_trouble(self) -> str:
        """Say that nothing listens on the port, and where the program listens instead."""
        return "" if self._process is None else await self._process.listening_trouble()

    async def terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()

    async def ended(self, timeout: float) -> bool:
        """Wait for the end of the process and its descendants; return whether it came in time.

        Descendants count while they hold the output. An engine ends all processes with the first.
        Here they run on: a shell that handles SIGTERM itself has not ended its container.
        """
        process = self._process  # another process may be started meanwhile
        return process is None or await process.ends_within(timeout)

    async def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.wait()

    async def aclose(self) -> None:
        await super().aclose()
        if self._leash is not None:
            self._leash.close()
            self._leash = None


@dataclass(slots=True)
class Subject:
    """A container that is checked.

    Attributes:
        process: the container's process, where it was started here.
        answers_close: false once a stream's Close was not answered in time. Later Closes are then
            not waited for, which would add half a minute to a run.
        serves_chat: whether the container serves chat completions of OpenAI's API; None until it
            has been asked.
    """

    address: Address
    target: Target = field(default_factory=Target)
    process: Started | None = None
    answers_close: bool = True
    serves_chat: bool | None = None

    async def listening_trouble(self) -> str:
        """Say where a program that was started here listens; "" if that is not known."""
        return "" if self.process is None else await self.process.listening_trouble()

    async def start_again(self, timeout: float) -> None:
        """Start the process again, if it was started here, and wait until it listens."""
        if self.process is not None:
            await self.process.kill()
            self.address = await self.process.start()
            await self.process.listening(timeout)
