"""One run of the container's command, from its start to the end of all it has started."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from gateway.dev.leash import Leash

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
        status: its exit status once it is over, negative for a signal's number.
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
        self.status: int | None = None
        self._command = command
        self._on_ready = on_ready
        self._leash = leash
        self._start_timeout = start_timeout
        self._output = _Output(ready_line, self._became_ready)
        self._process: asyncio.subprocess.Process
        self._deadline: asyncio.TimerHandle
        self._waiting: asyncio.Task[None]

    async def start(self) -> None:
        """Start the process, once; it is owned from here until it is over.

        Raises:
            OSError: there is no such program.
        """
        loop = asyncio.get_running_loop()
        # A pipe of our own: asyncio's would keep wait() from returning as long as anything that
        # the container has started holds the other end.
        reading, writing = os.pipe()
        output, _ = await loop.connect_read_pipe(
            lambda: self._output, os.fdopen(reading, "rb", buffering=0)
        )
        output.pause_reading()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                start_new_session=True,  # the terminal's Ctrl-C is ours to pass on
                env=os.environ | {"PYTHONUNBUFFERED": "1"},  # what a model prints is seen at once
            )
        except BaseException:
            output.close()
            raise
        finally:
            os.close(writing)
        self._leash.hold(self._process.pid)
        self._deadline = loop.call_later(self._start_timeout, self._too_slow)
        self._waiting = asyncio.create_task(self._wait(output), name="container")
        output.resume_reading()

    async def end(self, timeout: float = END_TIMEOUT) -> None:
        """End it: SIGTERM, the same again if that is not enough, SIGKILL ``timeout`` s later."""
        for patience in (min(HASTEN_AFTER, timeout), max(timeout - HASTEN_AFTER, 0)):
            if self.over.is_set():
                break
            with suppress(ProcessLookupError):
                self._process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), patience)
        if not self.over.is_set():
            log.warning("the container did not end within %g s of SIGTERM: it is killed", timeout)
            self.kill()
        await self._waiting

    def kill(self) -> None:
        """Kill it, and all it has started."""
        if self.status is None:  # after that its number may be another's
            self._kill_group()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS: nobody left but zombies
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _wait(self, output: asyncio.BaseTransport) -> None:
        self.status = await self._process.wait()
        self._kill_group()  # workers that it has left behind
        self._leash.let_go()
        self._deadline.cancel()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._output.lost.wait(), OUTPUT_TIMEOUT)
        output.close()
        self.over.set()

    def _became_ready(self) -> None:
        self.ready = True
        self._deadline.cancel()
        self._on_ready()

    def _too_slow(self) -> None:
        log.error("the container is not ready after %g s: it is killed", self._start_timeout)
        self.kill()


class _Output(asyncio.Protocol):
    """What a container prints: the ready line is for us, everything else goes on.

    Args:
        ready_line: without its line end.
        on_ready: called when it comes.

    Attributes:
        lost: set when nothing more comes.
    """

    def __init__(self, ready_line: str, on_ready: Callable[[], None]) -> None:
        self.lost = asyncio.Event()
        self._ready_line = f"{ready_line}\n".encode()
        self._on_ready = on_ready
        self._ready = False
        self._line = b""  # the beginning of one, while it may be that line

    def data_received(self, data: bytes) -> None:
        self._line += data
        while not self._ready and b"\n" in self._line:
            line, end, self._line = self._line.partition(b"\n")
            if line + end == self._ready_line:
                self._ready = True
                self._on_ready()
            else:
                _pass_on(line + end)
        if self._ready or len(self._line) > MAX_LINE:
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._flush()
        self.lost.set()

    def _flush(self) -> None:
        line, self._line = self._line, b""
        if line:
            _pass_on(line)


def _pass_on(data: bytes) -> None:
    with suppress(BrokenPipeError):  # nobody reads our output any more
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
