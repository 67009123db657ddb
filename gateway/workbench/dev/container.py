"""One run of the container's command, from its start to the end of all it has started."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from partway.gateway.fleet.child import Child
from partway.gateway.fleet.leash import Leash

log = logging.getLogger("partway.dev")

#: A container that is not ready by then has failed to launch (clause 1.1-3).
START_TIMEOUT: Final = 480.0

#: From SIGTERM to SIGKILL (clause 1.1-1).
END_TIMEOUT: Final = 30.0

#: A container that is still there this long after SIGTERM lets its streams end by themselves. A
#: second SIGTERM ends them: whoever has changed a file waits for the new container.
HASTEN_AFTER: Final = 0.25

#: Longest beginning of a line that is held until it is known whether it is the ready line.
MAX_LINE: Final = 4096

#: For what it has printed before its end, should something that it has started hold the pipe open.
OUTPUT_TIMEOUT: Final = 1.0


class Container:
    """A container's process, and the process group of which it is the leader.

    Args:
        command: program and arguments. Its standard error is ours, and so is its standard output
            but for the ready line.
        ready_line: what it prints once it takes streams, without a line end.
        on_ready: called then.
        leash: holds it.
        start_timeout: seconds until then; it is killed if they are not enough.

    Attributes:
        over: set when the process has ended, and its group with it.
        ready: whether it takes streams, or did.
    """

    def __init__(
        self,
        command: Sequence[str],
        ready_line: str,
        on_ready: Callable[[], None],
        leash: Leash,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        self.over = asyncio.Event()
        self.ready = False
        self._command = command
        self._on_ready = on_ready
        self._start_timeout = start_timeout
        self._output = _Output(ready_line, self._became_ready)
        self._child = Child(self._output.feed, leash)
        self._deadline: asyncio.TimerHandle
        self._waiting: asyncio.Task[None]

    @property
    def status(self) -> int | None:
        """Its exit status once it is over, negative for a signal's number."""
        return self._child.status

    async def start(self) -> None:
        """Start the process, once; it is owned from here until it is over.

        Raises:
            OSError: there is no such program.
        """
        await self._child.start(self._command, environment={})
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._start_timeout, self._too_slow)
        self._waiting = asyncio.create_task(self._wait(), name="container")

    async def end(self, timeout: float = END_TIMEOUT) -> None:
        """End it: SIGTERM, the same again if that is not enough, SIGKILL ``timeout`` s later."""
        for patience in (min(HASTEN_AFTER, timeout), max(timeout - HASTEN_AFTER, 0)):
            if self.over.is_set():
                break
            self._child.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), patience)
        if not self.over.is_set():
            log.warning("the container did not end within %g s of SIGTERM: it is killed", timeout)
            self.kill()
        await self._waiting

    def kill(self) -> None:
        """Kill it, and all it has started."""
        if self.status is None:  # after that its number may be another's
            self._child.kill_group()

    async def _wait(self) -> None:
        await self._child.exited.wait()
        self._child.kill_group()  # workers that it has left behind
        self._deadline.cancel()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._child.silent.wait(), OUTPUT_TIMEOUT)
        self._output.flush()
        self._child.release()
        self.over.set()

    def _became_ready(self) -> None:
        self.ready = True
        self._deadline.cancel()
        self._on_ready()

    def _too_slow(self) -> None:
        log.error("the container is not ready after %g s: it is killed", self._start_timeout)
        self.kill()


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
                _pass_on(line + end)
        if self._ready or len(self._line) > MAX_LINE:
            self.flush()

    def flush(self) -> None:
        """Pass on the beginning of a line that has no end yet."""
        line, self._line = self._line, b""
        if line:
            _pass_on(line)


def _pass_on(data: bytes) -> None:
    with suppress(BrokenPipeError):  # nobody reads our output any more
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
