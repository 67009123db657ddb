"""The order by which a worker starts, and the descriptors that come with it."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from partway.gateway.settings.settings import Settings
from partway.gateway.workers.worker_ports import PortSockets


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """The start of a worker.

    Attributes:
        row: its row of the shared counts, from 1; row 0 is the parent's.
        slot: the number of its slot.
        generation: of its code: each upgrade begins another one.
        rows: how many rows there are.
        requests: the path of the parent's socket for forwarded requests and for later links.
        plain: how many of the descriptors are sockets of the port.
        tls: how many of them are sockets of the TLS port.
    """

    settings: Settings
    row: int
    rows: int
    requests: str
    plain: int
    tls: int
    slot: int = 0
    generation: int = 0


class Descriptors:
    """The descriptors that go with an order: the link, the counts, and the sockets."""

    def __init__(self, order: WorkerOrder, descriptors: Sequence[int]) -> None:
        link, self.counts, *sockets = descriptors
        self.link = socket.socket(fileno=link)
        listening = [socket.socket(fileno=each) for each in sockets]
        self.sockets = PortSockets(listening[: order.plain], listening[order.plain :])
