"""The list of a job's finished files, in a file beside the job's record.

A job may have 100,000 files.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from contextlib import suppress
from pathlib import Path

from partway.gateway.storage.files import open_regular
from partway.log_lines import LogLine

log = logging.getLogger("partway.transform")


class FinishedFiles:
    """The names of the files whose outputs are complete; the list survives a kill of the process.

    Args:
        path: the file of the list, with one name a line; None to keep the list in memory.
    """

    def __init__(self, path: Path | None) -> None:
        self.names: set[str] = set()
        self._path = path

    async def read(self) -> None:
        """Read the files that another gateway has finished; lost or cut names are done again."""
        if self._path is not None:
            self.names |= await asyncio.to_thread(_names_in, self._path)

    async def add(self, name: str) -> None:
        """Note that a file is finished; if this cannot be written, it may be done again."""
        self.names.add(name)
        if self._path is None:
            return
        try:
            await asyncio.to_thread(_append, self._path, json.dumps(name).encode() + b"\n")
        except OSError as error:
            line = "a finished file of a transform job could not be recorded"
            log.warning(LogLine(line, file=name, reason=error.strerror or str(error)))

    async def forget(self) -> None:
        if self._path is not None:
            with suppress(OSError):  # the next gateway removes it
                await asyncio.to_thread(self._path.unlink, True)


def _names_in(path: Path) -> set[str]:
    names = set()
    with suppress(OSError), open_regular(path, follows=False) as file:
        for line in file:
            with suppress(ValueError):  # the last line is cut where the process was killed
                name = json.loads(line)
                names.add(str(name))
    return names


def _append(path: Path, line: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
