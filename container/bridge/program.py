"""The program that a bridge starts as its upstream: started, watched, and ended."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from partway.container.errors import CannotServe
from partway.container.threads import in_thread
from partway.log_lines import LogLine

_log = logging.getLogger("partway.container.bridge")


class ProgramEnded(Exception):
    """The program has ended by itself; the text says how."""


class UpstreamProgram:
    """One program, in a process group of its own.

    So a terminal's Ctrl-C does not reach it: it is told to end once its streams have ended. Its
    output goes to where ours goes.

    Args:
        words: the command; no shell reads it.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Start the program.

        Raises:
            CannotServe: there is no such program, or it may not be run.
        """
        try:
            self._process = subprocess.Popen(  # noqa: S603 (the operator's own command)
                self._words, stdin=subprocess.DEVNULL, process_group=0
            )
        except (OSError, ValueError) as error:  # a ValueError: a NUL in a word
            why = getattr(error, "strerror", None) or str(error)
            raise CannotServe(f"cannot start the program {self._name}: {why}") from None
        self._status = in_thread(self._process.wait, name="partway-program")
        _log.info(LogLine("the program has started", program=self._name, pid=self._process.pid))

    async def ended(self) -> ProgramEnded:
        """Wait until the program has ended by itself, and return how."""
        status = await asyncio.shield(self._status)
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        return ProgramEnded(f"the program {self._name} ended {how}")

    async def stop(self, grace: float) -> None:
        """Send SIGTERM, and SIGKILL to what is left of its group after ``grace`` seconds."""
        process, self._process = self._process, None
        if process is None:
            return
        if not self._status.done():
            _log.info(LogLine("the program is told to end", program=self._name))
            process.terminate()
            await asyncio.wait((self._status,), timeout=grace)
        if not self._status.done():
            _log.warning(LogLine("the program is killed", program=self._name, seconds=grace))
        with suppress(ProcessLookupError):  # the whole group has ended
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.wait((self._status,), timeout=grace)

    @property
    def _name(self) -> str:
        return shlex.quote(self._words[0])
