"""One run of the container's command, from its start to the end of all it has started."""

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

#: A container that is still there this long after SIGTERM lets its streams end by themselves. A
#: second SIGTERM ends them: whoever has changed a file waits for the new container.
HASTEN_AFTER: Final = 0.25

#: Longest beginning of a line that is held until it is known whether it is the ready line.
MAX_LINE: Final = 4096


class Container:
    """A container's process, and the process group of which it is the leader.

    Args:
        command: starts it. Its standard error is passed on to ours, and so is its standard output
            but for the ready line.
        ready_line: what it prints once it takes streams, without a line end.
        on_ready: called then.
        leash: holds it.
        start_timeout: seconds until then; it is killed if they are not enough.

    Attributes:
        over: set when the process has ended, and its group with it.
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
        """Whether it takes streams, or did."""
        return self._says_ready.is_set()

    @property
    def ended(self) -> ProcessEnd:
        """How it has ended, once it is over."""
        assert self._process.ended is not None, "it is over"
        return self._process.ended

    async def start(self) -> None:
        """Start the process, once; it is owned from here until it is over.

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
        """End it: SIGTERM, the same again if that is not enough, SIGKILL ``timeout`` s later."""
        self._process.terminate()
        in_time = await self._process.ends_within(min(HASTEN_AFTER, timeout))
        if not in_time and not await self._process.stop(max(timeout - HASTEN_AFTER, 0)):
            log.warning("the container did not end within %g s of SIGTERM: it is killed", timeout)
        await self._waiting

    def kill(self) -> None:
        """Kill it, and all it has started."""
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
    """What a container prints: the ready line is for us, everything else goes on.

    Args:
        ready_line: without its line end.
        on_ready: called when it comes.
    """

    def __init__(self, ready_line: str, on_ready: Callable[[], None]) -> None:
        self._ready_line = f"{ready_line}\n".encode()
        self._on_ready = on_ready
        self._ready = False
        self._line = b""  # the beginning of one, while it may be that line

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
        """Pass on the beginning of a line that has no end yet."""
        line, self._line = self._line, b""
        if line:
            _pass_on(line, sys.stdout)


def _pass_on(data: bytes, to: TextIO) -> None:
    with suppress(BrokenPipeError):  # nobody reads our output any more
        to.buffer.write(data)
        to.buffer.flush()
