"""How long a client may take: over the head of a request, and over what it is sent."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any, Final, Protocol

from partway.protocol.connections.fair_turns import Cancellable

#: Of Linux's ``struct tcp_info`` (``linux/tcp.h``): how far it is read, and where in it stands how
#: many bytes the other side has acknowledged.
_TCP_INFO_BYTES: Final = 128
_ACKNOWLEDGED: Final = struct.Struct("=120xQ")


class HeadWait:
    """Tells that a whole head has not come in time, however its bytes dribble in (slowloris).

    Most heads come in time, and many within one such time: so its one timer is not set anew for
    each, but looks when it fires.

    Args:
        seconds: from :meth:`begin` to the head's end.
        over: called when they have passed; whoever has the head by then passes over it.
        call_later: calls back after a time, in seconds.
        time: the clock of that, in seconds.
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
        """Wait for the next head, from now on."""
        self._due = self._time() + self._seconds
        if self._timer is None:  # else it runs since an earlier wait
            self._timer = self._call_later(self._seconds, self._look)

    def cancel(self) -> None:
        """Wait no more, for good: nobody is told, nor held."""
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
    """A transport, as far as it is watched here."""

    def get_write_buffer_size(self) -> int:
        """Bytes that are unsent."""

    def get_extra_info(self, name: str) -> Any:
        """Its socket, by that name; None if it has none."""

    def abort(self) -> object:
        """End it at once."""


class StalledWrites:
    """Aborts a transport whose client takes nothing of what is unsent, until it is cancelled.

    However slow, a client that takes some of it between two looks is waited for (nginx's
    ``send_timeout`` is between two writes too): its connection weighs meanwhile, and is among the
    first to go where they run short. What it takes is seen where its system acknowledges it: behind
    a send buffer of 4 MiB the transport is asked for more when a third of that is free, which a
    client of 20 kB/s takes 76 s for. Where the system does not tell, as on any but Linux, it is
    seen by what the transport still has, and of that behind TLS by what TLS has.

    Args:
        transport: the client's, which is sent nothing more meanwhile.
        call_later: calls back after a time, in seconds.
        interval: seconds between two looks.
    """

    __slots__ = (
        *("_acknowledged_before", "_call_later", "_interval", "_timer", "_transport"),
        "_unsent_before",
    )

    def __init__(
        self,
        transport: Sending,
        call_later: Callable[..., Cancellable],
        interval: float,
    ) -> None:
        self._transport = transport
        self._call_later = call_later
        self._interval = interval
        self._look_later()

    def cancel(self) -> None:
        """Watch no longer."""
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
    """How many bytes the client's system has acknowledged; 0 where ours does not tell."""
    connection = transport.get_extra_info("socket")
    if connection is None or not hasattr(socket, "TCP_INFO"):  # Linux has it
        return 0
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return 0  # no TCP, or closed here already
    return int(_ACKNOWLEDGED.unpack(info)[0]) if len(info) == _TCP_INFO_BYTES else 0
