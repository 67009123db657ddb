"""The nursery: a process that forks workers, and runs neither loop nor threads.

It is forked before the gateway's event loop begins, when everything is imported. A fork shares its
memory, and inherits nothing that runs.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import pickle
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from partway.gateway.workers.limits import NURSERY_TIMEOUT

log = logging.getLogger("partway.workers")

#: The signals that end or change a gateway: a worker obeys its parent alone.
_OF_THE_PARENT: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_HEAD: Final = struct.Struct(">II")  # the length of an order, and its descriptors
_PID: Final = struct.Struct(">i")
_MOST_DESCRIPTORS: Final = 64


class WorkersError(Exception):
    """A gateway cannot start its workers; the message says why."""


class NurseryGone(WorkersError):
    """The nursery has ended or is stuck, so no worker can be started."""


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
        ours.settimeout(NURSERY_TIMEOUT)  # the loop waits for its answers
        gc.collect()
        gc.freeze()  # a collection would write to pages that all share
        if os.fork() == 0:
            ours.close()
            status = 1
            try:
                _serve(theirs, work)
                status = 0
            except Exception:  # os._exit would drop it
                log.exception("the process that starts workers has failed")
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
            OSError: no process, or no descriptor, can be had now.
            NurseryGone: the nursery has ended, or is stuck.
        """
        data = pickle.dumps(order)
        try:
            socket.send_fds(self._control, [_HEAD.pack(len(data), len(descriptors))], descriptors)
            self._control.sendall(data)
            (pid,) = _PID.unpack(_received(self._control, _PID.size))
        except (OSError, EOFError) as error:
            self.close()  # a late answer would be taken for the next one's
            raise NurseryGone(
                f"the process that starts workers does not answer ({error}): restart the gateway"
            ) from None
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
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
        length, number = _HEAD.unpack(head + _received(control, _HEAD.size - len(head)))
        data = _received(control, length)
        # The system drops descriptors that have no room here.
        pid = -errno.EMFILE if len(descriptors) < number else _forked()
        if pid == 0:
            control.close()
            _work(work, data, descriptors)
        for each in descriptors:
            os.close(each)
        control.sendall(_PID.pack(pid))


def _forked() -> int:
    """Fork; return as :func:`os.fork` does, or a negative error number."""
    try:
        return os.fork()
    except OSError as error:
        return -(error.errno or errno.EAGAIN)


def _work(
    work: Callable[[Any, Sequence[int]], int], data: bytes, descriptors: Sequence[int]
) -> NoReturn:
    """Run a worker, and end this process."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        status = work(pickle.loads(data), descriptors)  # noqa: S301 (from the parent)
    except Exception:  # os._exit would drop it
        log.exception("a worker has failed")
    finally:
        os._exit(status)


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
