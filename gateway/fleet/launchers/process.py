"""A container as a process of this machine: its start, readiness and end."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partway.gateway.fleet.launchers.launcher import LaunchError, LocalContainer
from partway.gateway.fleet.launchers.program_lookup import find_program, launch_error
from partway.gateway.fleet.limits import (
    KILL_TIMEOUT,
    LAST_OUTPUT_TIMEOUT,
    START_TIMEOUT,
    STOP_GRACE,
)
from partway.gateway.fleet.output.held_output import HeldOutput
from partway.gateway.fleet.output.rate_limit import OutputPace
from partway.gateway.fleet.platform_interface import PORT_VARIABLE
from partway.gateway.fleet.processes.child import Child
from partway.gateway.fleet.processes.commands import with_port
from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.fleet.processes.process_group import ProcessGroup
from partway.gateway.fleet.processes.process_table import (
    Strays,
    listening_elsewhere,
    other_listener,
)
from partway.gateway.network.dialling import Address
from partway.gateway.timing.clock import Clock, LoopClock, Timer
from partway.gateway.timing.deadlines import first_of, time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")

#: Where containers listen: a process of this machine is for this machine alone.
HOST: Final = "127.0.0.1"

#: Tells our own container runtime the address; it listens on all interfaces otherwise.
BIND_TO_HOST: Final = "PARTWAY_BIND_TO_HOST"

#: Ports that no system assigns by itself: Linux begins at 32768, others at 49152.
_PORTS: Final = range(20_000, 32_768)
#: Attempts within that range before the system is asked for a port.
_PORT_TRIALS: Final = 100

#: Waits until the container at an address is ready for streams, without a time limit.
Readiness = Callable[[Address, Clock], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Command:
    """The command that starts a container.

    Attributes:
        argv: program and arguments, as written; ``{port}`` in them stands for the port.
        port: where it must listen; also in ``SAGEMAKER_BIND_TO_PORT``.
        environment: further variables, beside those of this process.
        cwd: the working directory; None for that of this process.
        host: the address of this machine at which it must listen.
    """

    argv: Sequence[str]
    port: int
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    host: str = HOST


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a container's process.

    Attributes:
        status: its exit status, negative for a signal's number; None for a process that could not
            be killed, and was left to itself.
        reason: why the gateway killed it unasked, as in "the container …"; empty otherwise.
    """

    status: int | None
    reason: str = ""

    def __str__(self) -> str:
        """Complete the sentence "the container …"."""
        if self.status is None:
            return "could not be killed, and still runs"
        if self.status >= 0:
            return f"ended with status {self.status}"
        names = {number.value: number.name for number in signal.Signals}
        return f"was ended by {names.get(-self.status, f'signal {-self.status}')}"


class ContainerProcess(LocalContainer):
    """A running container: the process that was started, and its process group.

    Made by :func:`launch`, or for a program that an earlier gateway process has started. The caller
    must end it, by :meth:`stop` or :meth:`kill`. On Linux, a process that left the group
    (``setsid``) is found by the leash's mark. On other systems, or if it changed its environment,
    it cannot be reached and survives the container.

    Attributes:
        group: the process and its group.
        ready: set once it is ready for streams, if a readiness check was given.
        ended: how it has ended; None before its end.
    """

    def __init__(
        self,
        group: ProcessGroup,
        address: Address,
        clock: Clock,
        strays: Strays,
        *,
        readiness: Readiness | None = None,
        start_timeout: float = START_TIMEOUT,
        wait_for_all: bool = False,
        on_end: Callable[[], None],
        output: HeldOutput | None = None,
    ) -> None:
        self.address = address
        self.group = group
        self.ready = asyncio.Event()
        self.ended: ProcessEnd | None = None
        self._clock = clock
        self._strays = strays
        self._wait_for_all = wait_for_all
        self._on_end = on_end
        self._output = HeldOutput() if output is None else output
        self._killed = asyncio.Event()
        self._given_up = asyncio.Event()
        self._giving_up: Timer | None = None
        self._gone = False
        self._reason = ""
        living = self._live(readiness, start_timeout)
        self._life = asyncio.create_task(living, name=f"container {address}")

    @property
    def pid(self) -> int | None:
        """The number of the started process; None once that process has ended."""
        if self.ended is not None or self.group.exited.is_set():
            return None
        return self.group.pid

    @property
    def status(self) -> int | None:
        """Exit status of the started process, negative for a signal's number.

        None while the process runs; its descendants may run longer.
        """
        return self.group.status

    def pass_output(self, receiver: Callable[[bytes], None]) -> None:
        self._output.pass_to(receiver)

    async def wait(self) -> ProcessEnd:
        return await asyncio.shield(self._life)

    async def ends_within(self, seconds: float) -> bool:
        try:
            async with time_limit(self._clock, seconds):
                await self.wait()
        except TimeoutError:
            return False
        return True

    async def verify(self) -> None:
        """On Linux, verify that no other program listens at its address.

        Only the log names the other process. The error goes to callers of the API, and other
        programs of the machine are not for them to know.

        Raises:
            LaunchError: another program took its port before it listened.
        """
        if self._gone:
            return
        host, port, group = self.address.host, self.address.port, self.group
        other = await asyncio.to_thread(other_listener, host, port, group.pid, group.mark)
        if other:
            log.warning(
                LogLine("another process holds the port of a program", port=port, held_by=other)
            )
            held = f"another process holds its port {port}; the gateway's log names that process"
            raise LaunchError(held, passing=True)

    async def listening_trouble(self) -> str:
        """Say that nothing listens on its port; on Linux, also on which ports it listens."""
        if self._gone:
            return ""
        host, port = self.address.host, self.address.port
        return await asyncio.to_thread(listening_elsewhere, host, port, self.group.pid)

    def terminate(self) -> None:
        """Send SIGTERM to the started process, as the platform does (clause 1.1-1)."""
        if self.ended is None:
            self.group.terminate()

    async def stop(self, grace: float = STOP_GRACE) -> bool:
        self.terminate()
        if await self.ends_within(grace):
            return True
        self.kill()
        await self.wait()
        return False

    def kill(self) -> None:
        """Kill its process group; :meth:`wait` takes seconds at most from here on."""
        if self._gone:  # its group is dead, and another may have the number
            return
        self.group.kill_group()
        self._killed.set()
        if self._giving_up is None:
            self._giving_up = self._clock.call_later(KILL_TIMEOUT, self._given_up.set)

    async def _live(self, readiness: Readiness | None, start_timeout: float) -> ProcessEnd:
        """Own the watch of the start, the group and its output, from the start to the end."""
        try:
            async with asyncio.TaskGroup() as tasks:
                starting = tasks.create_task(self._watch_start(readiness, start_timeout))
                await self._until_gone()
                starting.cancel()
        finally:
            self._gone = True
            if self._giving_up is not None:
                self._giving_up.cancel()
            self.group.kill_group()  # its descendants, as an engine would
            with suppress(TimeoutError):
                async with time_limit(self._clock, LAST_OUTPUT_TIMEOUT):
                    await self._strays.kill(self.group.mark)
                    await self.group.exited.wait()  # if this task itself was cancelled
                    await self.group.silent.wait()
            if self.group.status is None:
                log.error(
                    LogLine(
                        "a process did not end after SIGKILL, and still runs", pid=self.group.pid
                    )
                )
            self.group.release()
            self.ended = ProcessEnd(self.group.status, self._reason)
            self._on_end()
        return self.ended

    async def _watch_start(self, readiness: Readiness | None, timeout: float) -> None:
        if readiness is None:
            return
        try:
            async with time_limit(self._clock, timeout):
                await readiness(self.address, self._clock)
        except TimeoutError:
            self._reason = f"is not ready after {timeout:g} s"
            self.kill()
        else:
            self.ready.set()

    async def _until_gone(self) -> None:
        """Wait until it has ended, or until a kill has had its time."""
        await first_of(self.group.exited, self._given_up)
        if self._wait_for_all:
            await first_of(self.group.silent, self._killed)


async def launch(
    command: Command,
    leash: Leash,
    on_output: Callable[[bytes], None] | None = None,
    *,
    on_errors: Callable[[bytes], None] | None = None,
    readiness: Readiness | None = None,
    start_timeout: float = START_TIMEOUT,
    wait_for_all: bool = False,
    paced: bool = False,
    on_end: Callable[[], None] = lambda: None,
    clock: Clock | None = None,
) -> ContainerProcess:
    """Start a container as a process; return at once, whether or not it is ready.

    Every command that starts a program uses this function: serve, deploy, transform, conform, dev
    and replay. So a program has the same arguments, port, standard streams and errors in all of
    them.

    Args:
        command: the command to run.
        leash: kills it if this process ends first; may be shared.
        on_output: takes its output, as it comes; None to hold it until
            :meth:`ContainerProcess.pass_output`.
        on_errors: takes its standard error; None if ``on_output`` takes both.
        readiness: returns once the program at an address is ready; None if readiness is not checked
            here.
        start_timeout: seconds from its start until it must be ready (clause 1.1-3); after that it
            is killed.
        wait_for_all: whether it lives until every holder of its output has ended. Otherwise it ends
            with the started process, and all others are killed then, as by an engine.
        paced: whether the rate of its output is limited.
        on_end: called once it has ended.
        clock: measures all times; the running loop's by default.

    Raises:
        LaunchError: the program or folder is missing, or the system does not start it.
    """
    clock = LoopClock() if clock is None else clock
    # These override the command's own: a process of this machine is for this machine alone.
    listens = {BIND_TO_HOST: command.host, PORT_VARIABLE: str(command.port)}
    environment = {**command.environment, **listens}
    program = find_program(command.argv, environment, command.cwd)
    argv = with_port((program, *command.argv[1:]), command.port)
    held = HeldOutput()
    child = Child(on_output or held.feed, leash, OutputPace(clock) if paced else None, on_errors)
    try:
        await child.start(argv, environment=environment, cwd=command.cwd)
    except OSError as error:
        raise launch_error(error, command.argv[0]) from error
    return ContainerProcess(
        child,
        Address(command.host, command.port),
        clock,
        leash.strays,
        readiness=readiness,
        start_timeout=start_timeout,
        wait_for_all=wait_for_all,
        on_end=on_end,
        output=held,
    )


def free_port(taken: Container[int] = (), host: str = HOST) -> int:
    """Return a port on which nothing listens now; another program may still take it.

    The port is outside the range that systems assign by themselves to listeners and connections. On
    a busy machine such a port would soon be taken.

    Args:
        taken: ports that were given to others, whether or not they listen already.
    """
    for _ in range(_PORT_TRIALS):
        port = _PORTS[secrets.randbelow(len(_PORTS))]
        with socket.socket() as tried, suppress(OSError):
            tried.bind((host, port))
            if port not in taken:
                return port
    with socket.socket() as given:
        given.bind((host, 0))
        return int(given.getsockname()[1])
