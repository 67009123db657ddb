"""A child process that leads a process group: its start, what it prints, its end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from partway.gateway.fleet.output.pipe import OutputPipe
from partway.gateway.fleet.output.rate_limit import OutputPace
from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.fleet.processes.process_table import MARK


class Child(asyncio.SubprocessProtocol):
    """One process, and the group of all that it starts.

    Its standard input is ``/dev/null``. Standard output and standard error are plain pipes
    (:class:`OutputPipe`), so it can open ``/dev/stdout`` and ``/dev/stderr``.

    Args:
        on_output: takes what it prints, as it comes.
        leash: holds the group from the start until :meth:`release`.
        pace: how fast it may print; None for as fast as it can.
        on_errors: takes what it says on standard error, which has a pipe of its own then; None
            where ``on_output`` takes both, in their order.

    Attributes:
        mark: by which the leash knows all that it starts.
        exited: set when the process has ended; what it has started may run on.
        silent: set when nobody holds its output any more: the last of its group has ended, or has
            let go of it.
        status: its exit status, negative for a signal's number; None before the end.
    """

    def __init__(
        self,
        on_output: Callable[[bytes], None],
        leash: Leash,
        pace: OutputPace | None = None,
        on_errors: Callable[[bytes], None] | None = None,
    ) -> None:
        self.exited = asyncio.Event()
        self.silent = asyncio.Event()
        self.status: int | None = None
        self.mark = leash.new_mark()
        self._takers = [on_output] if on_errors is None else [on_output, on_errors]
        self._pipes: list[OutputPipe] = []
        self._open_pipes = len(self._takers)
        self._leash = leash
        self._pace = pace
        self._unwanted = False
        self._transport: asyncio.SubprocessTransport

    async def start(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        cwd: Path | None = None,
    ) -> None:
        """Start it, once.

        Args:
            command: program and arguments.
            environment: further variables; Python's output is unbuffered too.
            cwd: where it runs.

        Raises:
            OSError: there is no such program.
            asyncio.CancelledError: nothing of it is left then.
        """
        try:
            await self._start(command, {**environment, MARK: self.mark}, cwd)
        except BaseException:
            self._close_pipes()
            raise
        finally:
            for pipe in self._pipes:
                pipe.handed_over()
        self._leash.hold(self.pid)
        for pipe in self._pipes:  # not before: whoever is told of output has this child by then
            pipe.resume_reading()

    async def _start(
        self, command: Sequence[str], environment: Mapping[str, str], cwd: Path | None
    ) -> None:
        for take in self._takers:
            self._pipes.append(OutputPipe(partial(self._took, take), self._pipe_ended))
        starting = asyncio.ensure_future(
            asyncio.get_running_loop().subprocess_exec(
                lambda: self,
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=self._pipes[0].program_end,
                stderr=self._pipes[-1].program_end,
                start_new_session=True,  # the terminal's Ctrl-C is ours to pass on
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
                cwd=cwd,
            )
        )
        try:
            # Not to be cancelled itself: a loop may leave the process then, and uvloop does.
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._undo)
            await asyncio.wait((starting,))
            if not starting.cancelled() and starting.exception() is None:
                await self.exited.wait()
            raise

    def _undo(self, starting: asyncio.Future[Any]) -> None:
        """End a process that nobody wants any more; the start may still have failed."""
        if not starting.cancelled() and starting.exception() is None:
            self._unwanted = True
            self.kill_group()
            if self.exited.is_set():
                self.release()

    @property
    def pid(self) -> int:
        """Of the process, which is the group's number too; another's, perhaps, after its end."""
        pid = self._transport.get_pid()
        assert pid is not None, "it has been started"
        return pid

    def terminate(self) -> None:
        """Send SIGTERM to the process alone."""
        # Not by the transport: it would look first whether the process has ended, and what it takes
        # then the loop's own watcher misses: the status would be 255.
        if not self.exited.is_set():
            with suppress(ProcessLookupError, PermissionError):  # now another user's
                os.kill(self.pid, signal.SIGTERM)

    def kill_group(self) -> None:
        """Kill it, and all that it has started.

        Not for long after its end: when the last of the group has ended too, another group may
        have its number.
        """
        # macOS refuses where nobody is left but zombies; every system where all are another user's
        # by now, as setuid programs can be.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def release(self) -> None:
        """Let go of the group and of its output: after its end, or if it cannot be ended."""
        self._leash.let_go(self.pid)
        self._close_pipes()
        with suppress(PermissionError):  # it tries to kill what still runs
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not what start() awaits: a process that ends at once has ended before that is there.
        # Not checked with isinstance: uvloop's transports derive from no class of asyncio's.
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def process_exited(self) -> None:
        self.status = self._transport.get_returncode()
        self.exited.set()
        if self._pace is not None:
            self._pace.end()
        if self._unwanted:
            self.release()

    def _took(self, take: Callable[[bytes], None], pipe: OutputPipe, data: bytes) -> None:
        take(data)
        if self._pace is not None:
            self._pace.took(len(data), pipe)

    def _pipe_ended(self) -> None:
        self._open_pipes -= 1
        if not self._open_pipes:
            self.silent.set()

    def _close_pipes(self) -> None:
        for pipe in self._pipes:
            pipe.close()
