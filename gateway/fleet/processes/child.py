"""A child process that leads a process group: its start, output and end."""

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
    """One process, and the process group that it leads.

    Its standard input is ``/dev/null``. Standard output and standard error are plain pipes
    (:class:`OutputPipe`), so it can open ``/dev/stdout`` and ``/dev/stderr``.

    Args:
        leash: holds the group from the start until :meth:`release`.
        pace: limits the rate of its output; None for no limit.
        on_errors: takes its standard error from a second pipe; None if ``on_output`` takes both, in
            order.

    Attributes:
        mark: lets the leash recognise its descendants.
        exited: set when the process has ended; its descendants may run on.
        silent: set when the last process that held its output has ended or closed it.
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

        ``environment`` has further variables. Python's output is unbuffered too.

        Raises:
            OSError: the program cannot be started.
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
        for pipe in self._pipes:  # not earlier: a receiver of output must already have this child
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
                start_new_session=True,  # the gateway passes on the terminal's Ctrl-C
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
                cwd=cwd,
            )
        )
        try:
            # Shielded: a cancelled start may leave the process running, and in uvloop it does.
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._undo)
            await asyncio.wait((starting,))
            if not starting.cancelled() and starting.exception() is None:
                await self.exited.wait()
            raise

    def _undo(self, starting: asyncio.Future[Any]) -> None:
        """End an unwanted process; its start may also have failed."""
        if not starting.cancelled() and starting.exception() is None:
            self._unwanted = True
            self.kill_group()
            if self.exited.is_set():
                self.release()

    @property
    def pid(self) -> int:
        """The number of the process and of its group; after its end another process may have it."""
        pid = self._transport.get_pid()
        assert pid is not None, "it has been started"
        return pid

    def terminate(self) -> None:
        """Send SIGTERM to the process alone."""
        # Not by the transport: it first polls whether the process has ended, and so takes the exit
        # status from the loop's own watcher, which would report 255.
        if not self.exited.is_set():
            with suppress(ProcessLookupError, PermissionError):  # now another user's
                os.kill(self.pid, signal.SIGTERM)

    def kill_group(self) -> None:
        """Kill the process and its group.

        Not to be called long after its end: another group may have the number once the last of this
        group has ended.
        """
        # macOS refuses if only zombies are left; every system does if all run as another user,
        # which setuid programs can do.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def release(self) -> None:
        """Release the group and its output: after its end, or if it cannot be ended."""
        self._leash.let_go(self.pid)
        self._close_pipes()
        with suppress(PermissionError):  # it tries to kill a running process
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Set here and not in start(): a process that ends at once ends before start() goes on.
        # There is no check by isinstance, since uvloop's transports derive from no class of
        # asyncio's.
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
