"""The nursery: a process that forks workers, and runs neither loop nor threads.

It is forked before the gateway's event loop begins, when everything is imported. A fork shares its
memory, and inherits nothing that runs.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

#: The signals that end or change a gateway: a worker obeys its parent alone.
_OF_THE_PARENT: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_HEAD: Final = struct.Struct(">II")  # the length of an order, and its descriptors
_PID: Final = struct.Struct(">i")
_MOST_DESCRIPTORS: Final = 64


class NurseryGone(Exception):
    """The nursery has ended, so no worker can be started."""


class Nursery:
    """The parent's side.

    Args:
        control: the connection with the nursery.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    @classmethod
    def start(cls, work: Callable[[Any, Sequence[int]], int]) -> Nursery:
        """Fork the nursery; no loop and no thread may run yet.

        Args:
            work: the main function of a worker: it takes an order and descriptors, and returns the
                exit status.
        """
        ours, theirs = socket.socketpair()
        gc.collect()
        gc.freeze()  # a collection would write to pages that all share
        if os.fork() == 0:
            ours.close()
            status = 1
            try:
                _serve(theirs, work)
                status = 0
            finally:
                os._exit(status)
        theirs.close()
        return cls(ours)

    def fork(self, order: object, descriptors: Sequence[int]) -> int:
        """Start a worker, and return its process id; this takes milliseconds.

        Args:
            order: anything that pickle takes.
            descriptors: the worker has copies of them, in this order.

        Raises:
            NurseryGone: the nursery has ended.
        """
        data = pickle.dumps(order)
        try:
            socket.send_fds(self._control, [_HEAD.pack(len(data), len(descriptors))], descriptors)
            self._control.sendall(data)
            (pid,) = _PID.unpack(_received(self._control, _PID.size))
        except (OSError, EOFError) as error:
            raise NurseryGone(f"the process that starts workers has ended: {error}") from None
        return int(pid)

    def close(self) -> None:
        """End the nursery; its workers go on."""
        self._control.close()


def _serve(control: socket.socket, work: Callable[[Any, Sequence[int]], int]) -> None:
    """Fork a worker for each order, until the parent ends."""
    for number in _OF_THE_PARENT:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets ended workers by itself
    while True:
        head, descriptors, _, _ = socket.recv_fds(control, _HEAD.size, _MOST_DESCRIPTORS)
        if not head:
            return
        length, _ = _HEAD.unpack(head + _received(control, _HEAD.size - len(head)))
        data = _received(control, length)
        pid = os.fork()
        if pid == 0:
            control.close()
            status = 1
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                status = work(pickle.loads(data), descriptors)  # noqa: S301 (from the parent)
            finally:
                os._exit(status)
        for each in descriptors:
            os.close(each)
        control.sendall(_PID.pack(pid))


def _received(connection: socket.socket, size: int) -> bytes:
    """Read so many bytes.

    Raises:
        EOFError: the other side has ended.
    """
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError("no more bytes")
        data += piece
    return data
