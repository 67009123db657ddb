"""TCP half-closing, resets, keepalive, and detection of a peer that has ended."""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from contextlib import suppress
from typing import Any, Final, Protocol

#: Linux reports a peer that sends nothing more; other systems only report the end of both sides.
_ENDED: Final = getattr(select, "POLLRDHUP", select.POLLHUP)

#: SO_LINGER of a socket that ends by RST, and not by FIN.
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class HalfClosable(Protocol):
    """The part of a transport that half_close uses: see ``asyncio.WriteTransport``."""

    def can_write_eof(self) -> bool: ...

    def write_eof(self) -> None: ...


def half_close(transport: HalfClosable) -> bool:
    """Send FIN behind the unsent bytes; the peer's input is read as before.

    A connection that the peer has reset is left as it is: its next read reports the end.

    Args:
        transport: an open transport that has not been half-closed yet.

    Returns:
        False where the transport cannot be half-closed, as over TLS; it is then unchanged.
    """
    if not transport.can_write_eof():
        return False
    # asyncio's own transport shuts its socket down on the spot, and ENOTCONN is how the kernel says
    # that the peer's RST is there already, unread.
    with suppress(OSError):
        transport.write_eof()
    return True


class Connected(Protocol):
    def get_extra_info(self, name: str) -> Any:
        """Return its socket for ``"socket"``; None if it has none."""


def end_by_reset(transport: Connected) -> None:
    """Have an open transport end by RST at its abort, so that the peer sees no orderly end.

    Raises:
        OSError: the peer has ended the connection already.
    """
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)


def watch_by_tcp(transport: asyncio.Transport, interval: float, unanswered: int) -> None:
    """Let TCP notice a peer that has vanished, where no protocol above TCP asks.

    Args:
        transport: the connection's, on whose socket keepalive is on.
        interval: seconds of silence before a probe, and between two probes.
        unanswered: how many probes without an answer make the connection lost.
    """
    connection = transport.get_extra_info("socket")
    options = {
        "TCP_KEEPIDLE": round(interval),
        "TCP_KEEPINTVL": round(interval),
        "TCP_KEEPCNT": unanswered,
    }
    for name, value in options.items():
        if connection is not None and hasattr(socket, name):  # macOS lacks some of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def has_ended(transport: Connected) -> bool:
    """Whether the peer has ended its side or both sides, even if unread input comes first.

    An event loop does not report this for a connection that it does not read.
    """
    connection = transport.get_extra_info("socket")
    if connection is None or connection.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), _ENDED)
    return bool(poll.poll(0))
