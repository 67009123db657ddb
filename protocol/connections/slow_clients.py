"""Time limits for slow clients: for a request's head, and for taking the response."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any, Final, Protocol

from partway.protocol.connections.fair_turns import Cancellable

#: Linux's ``struct tcp_info`` (``linux/tcp.h``): bytes to read of it, and the place of the number
#: of bytes that the peer has acknowledged.
_TCP_INFO_BYTES: Final = 128
_ACKNOWLEDGED: Final = struct.Struct("=120xQ")


class HeadWait:
    """Reports that a whole head has not come in time, however its bytes dribble in (slowloris).

    Most heads come in time, and many within one timeout. So the single timer is not restarted for
    each head; it checks when it fires.

    Args:
        seconds: from :meth:`begin` to the head's end.
        over: called when the time has passed, even if the head has come; the callee checks.
        time: the clock of ``call_later``, in seconds.
    """

    __slots__ = ("_call_later", "_due", "_over", "_seconds", "_time", "_timer")

    def __init__(
        self,
        seconds: float,
        over: Callable[[], object],
        call_later: Callable[..., Cancellable],
        time: Callable[[], float],
    ) -> None:
        self._seconds = seconds
        self._over: Callable[[], object] | None = over
        self._call_later = call_later
        self._time = time
        self._due = 0.0
        self._timer: Cancellable | None = None

    def begin(self) -> None:
        self._due = self._time() + self._seconds
        if self._timer is None:  # otherwise the timer of an earlier wait still runs
            self._timer = self._call_later(self._seconds, self._look)

    def cancel(self) -> None:
        """Stop for good: ``over`` is neither called nor referred to any more."""
        self._over = None
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        left = self._due - self._time()
        if left > 0:
            self._timer = self._call_later(left, self._look)
        elif self._over is not None:
            self._over()


class Sending(Protocol):
    def get_write_buffer_size(self) -> int: ...

    def get_extra_info(self, name: str) -> Any:
        """Return its socket for ``"socket"``; None if it has none."""

    def abort(self) -> object: ...


class StalledWrites:
    """Aborts a transport whose client takes none of the unsent bytes, until it is cancelled.

    A slow client is waited for as long as it takes some bytes between two looks (nginx's
    ``send_timeout`` is between two writes too). Meanwhile its connection counts as stalled,
    and is among the first to be closed when connections run short.

    Progress is measured by the acknowledgements of the client's system. The transport alone shows
    it too late. With a send buffer of 4 MiB, it is asked for more when a third is free. A client of
    20 kB/s takes 76 s for that third. Systems other than Linux do not report acknowledgements.
    There the transport's buffer measures progress, and with TLS the buffer of TLS.

    Args:
        transport: the client's, which is sent nothing more meanwhile.
        interval: seconds between two looks.
    """

    __slots__ = (
        *("_acknowledged_before", "_call_later", "_interval", "_timer", "_transport"),
        "_unsent_before",
    )

    def __init__(
        self, transport: Sending, call_later: Callable[..., Cancellable], interval: float
    ) -> None:
        self._transport = transport
        self._call_later = call_later
        self._interval = interval
        self._look_later()

    def cancel(self) -> None:
        self._timer.cancel()

    def _look_later(self) -> None:
        self._unsent_before = self._transport.get_write_buffer_size()
        self._acknowledged_before = _acknowledged(self._transport)
        self._timer = self._call_later(self._interval, self._look)

    def _look(self) -> None:
        is_shorter = self._transport.get_write_buffer_size() < self._unsent_before
        if is_shorter or _acknowledged(self._transport) > self._acknowledged_before:
            self._look_later()
        else:
            self._transport.abort()


def _acknowledged(transport: Sending) -> int:
    """Return how many bytes the client's system has acknowledged; 0 if ours does not report it."""
    connection = transport.get_extra_info("socket")
    if connection is None or not hasattr(socket, "TCP_INFO"):  # only on Linux
        return 0
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return 0  # not TCP, or closed here already
    return int(_ACKNOWLEDGED.unpack(info)[0]) if len(info) == _TCP_INFO_BYTES else 0
