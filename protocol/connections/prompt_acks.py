"""Prompt TCP acknowledgements, where no answer carries them.

A peer with Nagle's algorithm (RFC 896) holds a small write back until its last one is acknowledged.
AWS's SDK for Python is such a client. Linux puts an acknowledgement off for 40 ms, in the hope that
an answer will carry it (RFC 1122 §4.2.3.2). A stream's next event would wait that long each time.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import Final, Protocol

from partway.protocol.limits import ACKNOWLEDGED_WITHIN

#: Only Linux has it; other systems have no such option for one socket.
_QUICKACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)


class Acknowledging(Protocol):
    def acknowledge(self) -> None:
        """Acknowledge the last read, unless something has been written since."""


class PromptAcks(threading.local):
    """The connections with a recent read; per thread, and so per loop.

    Most reads are answered within ACKNOWLEDGED_WITHIN, and the answer carries the acknowledgement.
    One timer serves all connections, because a system call for each read would cost a relay a tenth
    of its CPU time.
    """

    def __init__(self) -> None:
        self._reading: list[Acknowledging] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def soon(self, connection: Acknowledging) -> None:
        """Have a connection acknowledge soon; the connection calls again only after that."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # connections of a loop that has ended need nothing
            self._loop = loop
            self._reading.clear()
        if not self._reading:
            loop.call_later(ACKNOWLEDGED_WITHIN, self._acknowledge, loop)
        self._reading.append(connection)

    def _acknowledge(self, loop: asyncio.AbstractEventLoop) -> None:
        reading, self._reading = self._reading, []
        for connection in reading:
            try:
                connection.acknowledge()
            except Exception as error:  # the other connections are acknowledged all the same
                message = "the data of a connection could not be acknowledged"
                loop.call_exception_handler({"message": message, "exception": error})


prompt_acks = PromptAcks()


def acknowledge(transport: asyncio.BaseTransport) -> None:
    """Send the acknowledgement that the kernel puts off, if it owes one.

    The option does not last: the kernel puts acknowledgements off again after the next write.
    """
    connection = transport.get_extra_info("socket")
    if _QUICKACK is None or connection is None or transport.is_closing():
        return
    with suppress(OSError):  # the peer has left, or the socket is not one of TCP
        connection.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)
