"""The container that is checked: one that runs somewhere, or one that is started here."""

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
    """Where streams are asked for.

    Attributes:
        path: without its first slash.
        query: without its question mark; may be empty.
    """

    path: str = "invocations-bidirectional-stream"
    query: str = ""

    def __str__(self) -> str:
        return f"/{self.path}?{self.query}" if self.query else f"/{self.path}"


class Launched(Started):
    """A container's process, started by its command as every command of ours starts one.

    The port comes in ``SAGEMAKER_BIND_TO_PORT`` and in the place of ``{port}``. SIGTERM ends it,
    and SIGKILL kills what is left after 30 s. If this process is killed itself, the container goes
    with it, but a folder that was made stays behind, empty.

    Args:
        command: its program and arguments; nothing is appended to them.
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
        super().__init__(command, environment, model_dir)
        self._cwd = cwd
        self._leash: Leash | None = None
        self._process: ContainerProcess | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that was started; None when it does not run."""
        return None if self._process is None else self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status; negative for a signal's number; None while it runs."""
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
        """Say that nothing listens on its port, and where its program listens instead."""
        return "" if self._process is None else await self._process.listening_trouble()

    async def terminate(self) -> None:
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
        await super().aclose()
        if self._leash is not None:
            self._leash.close()
            self._leash = None


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
    process: Started | None = None
    answers_close: bool = True

    async def listening_trouble(self) -> str:
        """Say where a program that was started here listens instead; empty if that is not known."""
        return "" if self.process is None else await self.process.listening_trouble()

    async def start_again(self, timeout: float) -> None:
        """Have the process that was started here run anew."""
        if self.process is not None:
            await self.process.kill()
            self.address = await self.process.start()
            await self.process.listening(timeout)
