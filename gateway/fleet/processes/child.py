"""A child process that leads a process group: its start, output and end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from partway.gateway.fleet.output.pipe import OutputPipe
from partway.gateway.fleet.output.rate_limit import OutputPace
from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.fleet.processes.process_group import ProcessGroup
from partway.gateway.fleet.processes.process_table import MARK


class Child(ProcessGroup, asyncio.SubprocessProtocol):
    """A process that this one starts.

    Its standard input is ``/dev/null``. Standard output and standard error are plain pipes
    (:class:`OutputPipe`), so it can open ``/dev/stdout`` and ``/dev/stderr``.
    """

    def __init__(
        self,
        on_output: Callable[[bytes], None],
        leash: Leash,
        pace: OutputPace | None = None,
        on_errors: Callable[[bytes], None] | None = None,
    ) -> None:
        super().__init__(on_output, leash, leash.new_mark(), pace, on_errors)
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
        self._begun()

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
        pid = self._transport.get_pid()
        assert pid is not None, "it has been started"
        return pid

    def release(self) -> None:
        super().release()
        with suppress(PermissionError):  # it tries to kill a running process
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Set here and not in start(): a process that ends at once ends before start() goes on.
        # There is no check by isinstance, since uvloop's transports derive from no class of
        # asyncio's.
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def process_exited(self) -> None:
        self._has_exited(self._transport.get_returncode())
        if self._unwanted:
            self.release()
