"""Finding out whether an instance's host has fallen silent, once a dial to it has timed out.

TCP alone notices a dead host after a quarter of an hour, and pings after five minutes (clause
1.4-1). A timed-out dial proves nothing: a frozen container with a full backlog causes one too, and
keeps its streams. So the kernel is told to ask each open connection's peer. The kernel of a live
host answers for a frozen container.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from partway.gateway.limits import (
    HOST_PROBE_INTERVAL,
    HOST_PROBES,
    HOST_SILENCE,
    HOSTS_PROBED_AT_ONCE,
)

_T = TypeVar("_T")

#: An IP address and a port.
SocketAddress = tuple[str, int]

#: Errors of a dial that replace its timeout, if a router or this host notices the cut.
SILENCE: Final = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT}
)

#: Linux's ``struct tcp_info`` up to ``tcpi_last_ack_recv``: eight bytes, then numbers of 32 bits.
_INFO: Final = struct.Struct("8B13I")
_PROBES, _UNACKNOWLEDGED, _LAST_ACK = 3, 12, 20


class TcpInfo(NamedTuple):
    """The kernel's counters of a connection.

    Attributes:
        unanswered_probes: probes sent since the peer was last heard, for keep-alive or for room.
        unacknowledged: segments in flight.
        since_heard: seconds since the peer last acknowledged anything.
    """

    unanswered_probes: int
    unacknowledged: int
    since_heard: float

    @classmethod
    def of(cls, connection: socket.socket) -> TcpInfo:
        """Read the counters of a connection.

        Raises:
            OSError: the connection is gone.
        """
        raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
        fields = _INFO.unpack(raw)
        return cls(fields[_PROBES], fields[_UNACKNOWLEDGED], fields[_LAST_ACK] / 1000)


def is_dead(before: TcpInfo, now: TcpInfo) -> bool:
    """Say whether a peer that was asked HOST_SILENCE ago has been silent since.

    A closed window is no silence. The kernel asks for room ever more rarely, so the latest probe
    may be on its way. A probe counts if it was unanswered ``before``, or if another followed it.
    Without a route nothing is ever in flight: the kernel keeps the bytes, and sends such probes.
    """
    asked = now.unacknowledged > 0 or before.unanswered_probes > 0 or now.unanswered_probes > 1
    return asked and now.since_heard >= HOST_SILENCE


class _Probed:
    """A connection whose peer is being asked.

    If nothing is in flight, keep-alive asks, and the kernel ends the connection itself. For bytes
    in flight TCP_USER_TIMEOUT does that, but only when they are sent again, which may be long
    after. Therefore :meth:`judge` looks too. The option is left out if nothing is in flight: it
    would end connections whose peer has closed its window, as a frozen container does.
    """

    __slots__ = ("_before", "_connection", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._connection: socket.socket = transport.get_extra_info("socket")
        self._before = TcpInfo.of(self._connection)
        self._set(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._set(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, HOST_PROBES)
        self._set(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, HOST_PROBE_INTERVAL)
        self._set(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, HOST_PROBE_INTERVAL)
        if self._before.unacknowledged:
            milliseconds = round(HOST_SILENCE * 1000)
            self._set(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)

    def judge(self) -> None:
        """End the connection if its peer is dead; else switch keep-alive off again."""
        if self._transport.is_closing():
            return
        with suppress(OSError):  # it has just ended
            if is_dead(self._before, TcpInfo.of(self._connection)):
                self._transport.abort()
                return
            self._set(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0)
            self._set(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)

    def _set(self, level: int, option: int, value: int) -> None:
        self._connection.setsockopt(level, option, value)


class SilentHosts(threading.local):
    """The open connections to containers, by address; one set per thread, and so per loop.

    Attributes:
        on_suspected: called with an IP address and a port when their peers begin to be asked. Other
            processes of the gateway may have connections to them too.
    """

    def __init__(self) -> None:
        self.on_suspected: Callable[[str, int], object] = lambda *_: None
        self._open: dict[SocketAddress, set[asyncio.Transport]] = {}
        #: Addresses whose peers are being asked, and until when, by the monotonic clock.
        self._asked: dict[SocketAddress, float] = {}

    def opened(self, transport: asyncio.Transport) -> Callable[[], None]:
        """Note a connection; return the function to call once it is lost."""
        peer = transport.get_extra_info("peername")
        if not isinstance(peer, tuple):  # it has left already
            return lambda: None
        place = (peer[0], peer[1])
        self._open.setdefault(place, set()).add(transport)

        def lost() -> None:
            there = self._open.get(place)
            if there is not None:
                there.discard(transport)
                if not there:
                    del self._open[place]

        return lost

    def suspect(self, host: str, port: int) -> None:
        """Ask the peers of all connections to an address, since a dial to it has timed out.

        ``host`` is the IP address that was dialled.
        """
        with suppress(ValueError):
            host = str(ipaddress.ip_address(host))  # as the kernel writes it
        if self.ask(host, port):
            self.on_suspected(host, port)

    def ask(self, host: str, port: int) -> bool:
        """Ask them, and tell nobody; return False if they are being asked already."""
        place = (host, port)
        now = time.monotonic()
        if sys.platform != "linux" or self._asked.get(place, 0) > now:
            return False
        self._asked[place] = now + HOST_SILENCE
        self._ask(place, list(self._open.get(place, ())), [])
        return True

    def _ask(
        self, place: SocketAddress, left: list[asyncio.Transport], asked: list[_Probed]
    ) -> None:
        for transport in _some(left):
            if not transport.is_closing():
                with suppress(OSError):  # it has just ended
                    asked.append(_Probed(transport))
        loop = asyncio.get_running_loop()
        if left:
            loop.call_soon(self._ask, place, left, asked)
        else:
            loop.call_later(HOST_SILENCE, self._judge, place, asked)

    def _judge(self, place: SocketAddress, asked: list[_Probed]) -> None:
        for probed in _some(asked):
            probed.judge()
        if asked:
            asyncio.get_running_loop().call_soon(self._judge, place, asked)
        else:
            self._asked.pop(place, None)


def _some(left: list[_T]) -> Iterator[_T]:
    for _ in range(min(len(left), HOSTS_PROBED_AT_ONCE)):
        yield left.pop()


silent_hosts = SilentHosts()
