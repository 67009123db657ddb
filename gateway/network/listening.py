"""Sockets that listen on an address, one for each process that accepts there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from partway.protocol.limits import ACCEPT_BACKLOG


async def listening_sockets(host: str, port: int, *, shared: bool = False) -> list[socket.socket]:
    """Listen on all of a host's addresses, with the same port on each.

    Args:
        port: 0 for a free one.
        shared: whether further sockets of this user may listen there too (SO_REUSEPORT).

    Raises:
        OSError: an address is taken, or not this machine's.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listening: list[socket.socket] = []
    try:
        for family, _, _, _, (address, *_) in dict.fromkeys(found):
            made = socket.create_server(
                (str(address), port), family=family, backlog=ACCEPT_BACKLOG, reuse_port=shared
            )
            listening.append(made)
            port = made.getsockname()[1]  # the same one on every address
    except OSError:
        close_all(listening)
        raise
    for each in listening:
        each.setblocking(False)
    return listening


async def sockets_of_slots(host: str, port: int, slots: int) -> list[list[socket.socket]]:
    """Listen on an address once for each slot; the system spreads connections over them.

    Raises:
        OSError: as :func:`listening_sockets`; an address that another gateway shares with its own
            processes is taken too.
    """
    # A socket that does not share finds a port taken by any other.
    alone = await listening_sockets(host, port)
    port = alone[0].getsockname()[1]
    close_all(alone)
    with ExitStack() as opened:
        made = []
        for _ in range(slots):
            sockets = await listening_sockets(host, port, shared=True)
            opened.callback(close_all, sockets)
            made.append(sockets)
        opened.pop_all()
        return made


def close_all(sockets: Sequence[socket.socket]) -> None:
    for each in sockets:
        each.close()
