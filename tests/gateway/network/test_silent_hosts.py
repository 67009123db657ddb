"""Connections whose host is asked for a sign of life; silent_host_check cuts a host off."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from partway.gateway.fleet.health.ping import ping
from partway.gateway.network.dialling import Address, Unreachable, reach
from partway.gateway.network.silent_hosts import SilentHosts, TcpInfo, is_dead, silent_hosts
from partway.gateway.timing.clock import LoopClock
from tests.wire.peers import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's counters are Linux's")

HOST = "127.0.0.1"


@pytest.mark.parametrize(
    ("before", "now", "dead"),
    [
        (TcpInfo(0, 0, 100.0), TcpInfo(0, 1, 5.0), True),
        (TcpInfo(0, 1, 0.2), TcpInfo(0, 1, 5.2), True),
        (TcpInfo(1, 0, 60.0), TcpInfo(2, 0, 65.0), True),
        (TcpInfo(0, 0, 60.0), TcpInfo(2, 0, 65.0), True),
        (TcpInfo(0, 1, 0.2), TcpInfo(0, 1, 4.9), False),
        (TcpInfo(0, 0, 60.0), TcpInfo(1, 0, 65.0), False),
        (TcpInfo(0, 0, 60.0), TcpInfo(0, 0, 65.0), False),
    ],
    ids=[
        "bytes sent since, none acknowledged",
        "bytes sent before, none acknowledged",
        "asked for room before, and still without an answer",
        "asked for room twice since, without an answer",
        "heard meanwhile",
        "asked for room only now",
        "never asked",
    ],
)
def test_who_is_dead(before, now, dead):
    assert is_dead(before, now) is dead


class Container:
    """A listener that accepts what a test lets it, and connections with it.

    Attributes:
        transports: the gateway's ends of the connections.
        accepted: the container's.
    """

    def __init__(self, held: ExitStack) -> None:
        self._held = held
        self._listening = held.enter_context(socket.create_server((HOST, 0), backlog=1))
        self.address = Address(HOST, self._listening.getsockname()[1])
        self.transports: list[asyncio.Transport] = []
        self.accepted: list[socket.socket] = []

    async def connect(self) -> asyncio.Transport:
        """Open one more connection, which the gateway knows of."""
        transport, _ = await reach(self.address, asyncio.Protocol, timeout=30)
        self._held.callback(silent_hosts.opened(transport))
        self._held.callback(transport.abort)
        self.transports.append(transport)
        self.accepted.append(self._held.enter_context(self._listening.accept()[0]))
        return transport

    def freeze(self) -> None:
        """Accept nothing more, and have the kernel drop what further dials send."""
        for _ in range(4):  # two fit in a backlog of one
            dialled = self._held.enter_context(socket.socket())
            dialled.setblocking(False)
            assert dialled.connect_ex((HOST, self.address.port)) == errno.EINPROGRESS


@contextmanager
def containers() -> Iterator[Callable[[], Container]]:
    with ExitStack() as held:
        yield lambda: Container(held)


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> float:
    """Seconds after which a host is silent."""
    seconds = 1.0
    monkeypatch.setattr("partway.gateway.network.silent_hosts.HOST_SILENCE", seconds)
    return seconds


def keep_alive(transport: asyncio.Transport) -> tuple[int, int, int, int]:
    """Whether it is on; seconds until the first probe and between two, and how many."""
    sock = transport.get_extra_info("socket")
    names = socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT
    options = (sock.getsockopt(socket.IPPROTO_TCP, name) for name in names)
    return (sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), *options)


async def dial(address: Address) -> None:
    """Dial as a stream does, in vain."""
    with pytest.raises(Unreachable, match="no connection was accepted"):
        await reach(address, asyncio.Protocol, timeout=0.05)


async def ask(address: Address) -> None:
    """Ping, in vain."""
    trouble = await ping(address, LoopClock(), connect_timeout=0.05)
    assert trouble is not None
    assert "no connection was accepted" in trouble


@pytest.mark.parametrize("dials", [dial, ask])
async def test_a_dial_that_times_out_has_the_host_asked(silence, dials, monkeypatch):
    seen = []
    with containers() as made:
        frozen, other = made(), made()
        transports = [await frozen.connect() for _ in range(3)]
        elsewhere = await other.connect()
        frozen.freeze()
        # A busy machine may go on here only after the end of the silence.

        def at_once(*_: object) -> None:
            seen.extend(map(keep_alive, transports))

        monkeypatch.setattr(silent_hosts, "on_suspected", at_once)
        await dials(frozen.address)
        assert seen == [(1, 1, 1, 3)] * 3
        assert keep_alive(elsewhere)[0] == 0
        # A frozen container's kernel answers, so its connections stay and keep-alive ends.
        await eventually(lambda: all(keep_alive(each)[0] == 0 for each in transports))
        assert not any(each.is_closing() for each in transports)


async def test_a_container_that_is_dialled_is_not_asked():
    with containers() as made:
        container = made()
        transport = await container.connect()
        await container.connect()
        assert keep_alive(transport)[0] == 0


async def test_one_that_refuses_is_not_asked():
    with containers() as made:
        container = made()
        transport = await container.connect()
        container._listening.close()
        with pytest.raises(Unreachable, match="Connection refused"):
            await reach(container.address, asyncio.Protocol, timeout=30)
        assert keep_alive(transport)[0] == 0


@pytest.mark.clause("1.4-1", "1.4-2")
async def test_a_frozen_container_that_takes_nothing_keeps_its_streams(silence):
    """Its window is closed: the kernel's probes are answered, and no byte is acknowledged."""
    with containers() as made:
        frozen = made()
        stuck, late = await frozen.connect(), await frozen.connect()
        stuck.write(bytes(32 << 20))
        await eventually(lambda: window_is_closed(stuck))
        frozen.freeze()
        await dial(frozen.address)
        late.write(bytes(32 << 20))  # while it is being asked
        for _ in range(3):
            await eventually(lambda: keep_alive(stuck)[0] == 0)
            assert not stuck.is_closing()
            assert not late.is_closing()
            await dial(frozen.address)
        await eventually(lambda: keep_alive(stuck)[0] == 0)


def window_is_closed(transport: asyncio.Transport) -> bool:
    """Whether bytes wait, and none is in flight."""
    info = TcpInfo.of(transport.get_extra_info("socket"))
    return transport.get_write_buffer_size() > 0 and info.unacknowledged == 0


async def test_many_connections_are_asked_in_turns(silence, monkeypatch):
    monkeypatch.setattr("partway.gateway.network.silent_hosts.HOSTS_PROBED_AT_ONCE", 2)
    with containers() as made:
        frozen = made()
        transports = [await frozen.connect() for _ in range(5)]
        silent_hosts.suspect(*frozen.transports[0].get_extra_info("peername"))
        assert sum(keep_alive(each)[0] for each in transports) == 2
        await eventually(lambda: all(keep_alive(each)[0] for each in transports))
        await eventually(lambda: not any(keep_alive(each)[0] for each in transports))


async def test_the_other_processes_are_told_once(silence):
    """Each has connections of its own to the host, or will."""
    hosts, told = SilentHosts(), []
    hosts.on_suspected = lambda *place: told.append(place)
    for _ in range(3):
        hosts.suspect("192.0.2.1", 80)
    assert not hosts.ask("192.0.2.1", 80), "it is being asked"
    assert hosts.ask("192.0.2.2", 80), "another process has told"
    assert told == [("192.0.2.1", 80)]
    await eventually(lambda: hosts._asked == {})
    hosts.suspect("192.0.2.1", 80)
    assert len(told) == 2


async def test_connections_that_are_lost_are_forgotten():
    hosts = SilentHosts()
    with containers() as made:
        container = made()
        transports = [await container.connect() for _ in range(2)]
        lost = [hosts.opened(each) for each in transports]
        assert len(hosts._open[HOST, container.address.port]) == 2
        for each in (*lost, lost[0]):
            each()
        assert hosts._open == {}


async def test_a_peer_that_has_left_already_is_not_noted():
    class Left(asyncio.Transport):
        def get_extra_info(self, name, default=None):
            return None

    hosts = SilentHosts()
    hosts.opened(Left())()
    assert hosts._open == {}
