"""The pipe of a program's standard output or standard error, and its reader."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

from partway.protocol.limits import KIB

#: Bytes of one read: a pipe of Linux holds as many.
_READ: Final = 64 * KIB


class OutputPipe:
    """A plain pipe: the program has one end, and the event loop reads the other once told to.

    A program can open a pipe by path, as ``/dev/stdout`` or ``/dev/stderr``, like the pipes that
    Docker gives a container. A socket cannot be opened by path (ENXIO), and uvloop's own pipes to
    children are socket pairs.

    Args:
        on_data: called with the pipe and the bytes that were read.
        on_end: called once: when the last holder has closed the program's end, or at :meth:`close`.
        read_end: our end of a pipe whose other end a program already has; None for a new pipe.

    Attributes:
        read_end: the descriptor that is read.

    Raises:
        OSError: there is no file descriptor left.
    """

    def __init__(
        self,
        on_data: Callable[[OutputPipe, bytes], None],
        on_end: Callable[[], None],
        read_end: int | None = None,
    ) -> None:
        self._on_data = on_data
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        if read_end is None:
            self.read_end, self._write_end = os.pipe()
        else:
            self.read_end = read_end
        os.set_blocking(self.read_end, False)
        self._is_open = True

    @property
    def program_end(self) -> int:
        """The descriptor that the program inherits, until :meth:`handed_over`."""
        return self._write_end

    def handed_over(self) -> None:
        """Close our copy of the program's end: the program has been started, or never will be."""
        os.close(self._write_end)

    def pause_reading(self) -> None:
        """Stop reading for now; the program waits once the pipe is full."""
        if self._is_open:
            self._loop.remove_reader(self.read_end)

    def resume_reading(self) -> None:
        if self._is_open:
            self._loop.add_reader(self.read_end, self._read)

    def close(self) -> None:
        """Stop reading for good; a program that still writes gets SIGPIPE or EPIPE."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self.read_end)
            os.close(self.read_end)
            self._on_end()

    def _read(self) -> None:
        try:
            data = os.read(self.read_end, _READ)
        except BlockingIOError:
            return
        if data:
            self._on_data(self, data)
        else:
            self.close()
