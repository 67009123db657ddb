"""One run of the container's command, from its start to the end of its process group."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TextIO

from partway.gateway.fleet.launchers.process import Command, ContainerProcess, ProcessEnd, launch
from partway.gateway.fleet.limits import START_TIMEOUT, STOP_GRACE
from partway.gateway.fleet.processes.leash import Leash

log = logging.getLogger("partway.dev")

#: Seconds after SIGTERM in which streams may end by themselves. A second SIGTERM then ends them,
#: since a developer waits for the new container.
HASTEN_AFTER: Final = 0.25

#: Most bytes of a line's beginning that are held until it is known whether it is the ready line.
MAX_LINE: Final = 4096


class Container:
    """A container's process, and the process group of which it is the leader.

    Args:
        command: starts the container. Its standard error and standard output are passed on, except
            for the ready line.
        ready_line: the line that it prints once it takes streams, without a line end.
        start_timeout: seconds until the ready line, after which the process is killed.

    Attributes:
        over: set when the process and its group have ended.
    """

    def __init__(
        self,
        command: Command,
        ready_line: str,
        on_ready: Callable[[], None],
        leash: Leash,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        self.over = asyncio.Event()
        self._command = command
        self._on_ready = on_ready
        self._leash = leash
        self._start_timeout = start_timeout
        self._says_ready = asyncio.Event()
        self._output = _Output(ready_line, self._became_ready)
        self._process: ContainerProcess
        self._waiting: asyncio.Task[None]

    @property
    def ready(self) -> bool:
        """Whether the container takes streams, or did."""
        return self._says_ready.is_set()

    @property
    def ended(self) -> ProcessEnd:
        assert self._process.ended is not None, "it is over"
        return self._process.ended

    async def start(self) -> None:
        """Start the process, once; this object owns it until it is over.

        Raises:
            LaunchError: the system does not start it.
        """
        self._process = await launch(
            self._command,
            self._leash,
            self._output.feed,
            on_errors=partial(_pass_on, to=sys.stderr),
            readiness=lambda *_: self._says_ready.wait(),
            start_timeout=self._start_timeout,
        )
        self._waiting = asyncio.create_task(self._wait(), name="container")

    async def end(self, timeout: float = STOP_GRACE) -> None:
        """End the process by SIGTERM, a second SIGTERM, and SIGKILL after ``timeout`` seconds."""
        self._process.terminate()
        in_time = await self._process.ends_within(min(HASTEN_AFTER, timeout))
        if not in_time and not await self._process.stop(max(timeout - HASTEN_AFTER, 0)):
            log.warning("the container did not end within %g s of SIGTERM: it is killed", timeout)
        await self._waiting

    def kill(self) -> None:
        self._process.kill()

    async def _wait(self) -> None:
        end = await self._process.wait()
        self._output.flush()
        if end.reason:
            log.error("the container %s: it is killed", end.reason)
        self.over.set()

    def _became_ready(self) -> None:
        self._says_ready.set()
        self._on_ready()


class _Output:
    """A container's standard output: the ready line is taken, all else is passed on."""

    def __init__(self, ready_line: str, on_ready: Callable[[], None]) -> None:
        self._ready_line = f"{ready_line}\n".encode()
        self._on_ready = on_ready
        self._ready = False
        self._line = b""  # a line's beginning, while it may be the ready line

    def feed(self, data: bytes) -> None:
        self._line += data
        while not self._ready and b"\n" in self._line:
            line, end, self._line = self._line.partition(b"\n")
            if line + end == self._ready_line:
                self._ready = True
                self._on_ready()
            else:
                _pass_on(line + end, sys.stdout)
        if self._ready or len(self._line) > MAX_LINE:
            self.flush()

    def flush(self) -> None:
        """Pass on the beginning of an unfinished line."""
        line, self._line = self._line, b""
        if line:
            _pass_on(line, sys.stdout)


def _pass_on(data: bytes, to: TextIO) -> None:
    with suppress(BrokenPipeError):  # our output has no reader
        to.buffer.write(data)
        to.buffer.flush()
