"""A supervisor whose gateway process is a test's."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from partway.gateway.workers.supervision import Supervision
from partway.gateway.workers.supervisor import GatewaySupervisor, RunWorker, _Parent
from partway.gateway.workers.supervisor_packets import packet_pair


@contextmanager
def supervision(work: RunWorker) -> Iterator[Supervision]:
    """Fork a supervisor, and be its first gateway process; no loop may run yet."""
    control, their_control = packet_pair()
    news, their_news = packet_pair()
    with news, their_news:
        if (pid := os.fork()) == 0:
            control.close()
            news.close()
            _supervise(their_control, their_news, work)
        their_control.close()
        made = Supervision(control, news, {}, is_first=True)
        try:
            yield made
        finally:
            made.close()
            os.waitpid(pid, 0)


def _supervise(control: socket.socket, news: socket.socket, work: RunWorker) -> NoReturn:
    status = 1
    try:
        for each in (control, news):
            each.setblocking(False)
        supervisor = GatewaySupervisor(lambda _: 1, work)
        supervisor._prepare()
        supervisor._parent = parent = _Parent(os.getppid(), control, news)
        while parent.control is not None:
            supervisor._wait()
        status = 0
    finally:
        os._exit(status)
