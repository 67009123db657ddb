"""Whether a client is still there, where its connection is not read."""

from __future__ import annotations

import socket
from typing import Final

#: Linux's state of a connection that is over: it was reset, or gave up (``tcp_states.h``).
_TCP_CLOSE: Final = 7


def is_over(connection: socket.socket | None) -> bool:
    """Whether TCP knows that a connection is over; False where the system does not tell.

    A reset comes ahead of what has not been read; no event loop hears of it before that.

    Args:
        connection: the transport's socket; None if it has none.
    """
    if connection is None or not hasattr(socket, "TCP_INFO"):  # Linux has it
        return False
    try:
        state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    except OSError:
        return False  # no TCP, or closed here already
    return state == _TCP_CLOSE
