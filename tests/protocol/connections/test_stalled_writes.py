"""How long a client may take over what it has been sent."""

from __future__ import annotations

import fcntl
import socket
import termios

import pytest

from partway.protocol.connections.stalled_writes import StalledWrites
from tests.gateway.streams.fakes import FakeClock


class Transport:
    """A transport with unsent bytes."""

    def __init__(self, unsent, connection=None):
        self.unsent = unsent
        self.connection = connection
        self.aborted = False

    def get_write_buffer_size(self):
        return self.unsent

    def get_extra_info(self, name):
        return {"socket": self.connection}[name]

    def abort(self):
        self.aborted = True


@pytest.fixture
def clock():
    return FakeClock()


def test_a_client_that_takes_a_byte_between_two_looks_is_waited_for(clock):
    transport = Transport(100)
    StalledWrites(transport, clock.call_later, 60.0)
    for _ in range(100):
        transport.unsent -= 1
        clock.advance(60.0)
        assert not transport.aborted


def test_a_client_that_has_stopped_taking_is_cut_at_the_next_look(clock):
    transport = Transport(100)
    StalledWrites(transport, clock.call_later, 60.0)
    is_cut_at_the_look_after_it_took_some(transport, clock)
    assert clock.armed == []


def test_a_watch_that_is_cancelled_cuts_nobody(clock):
    transport = Transport(100)
    watch = StalledWrites(transport, clock.call_later, 60.0)
    transport.unsent = 50
    clock.advance(60.0)
    watch.cancel()
    assert clock.armed == []
    clock.advance(10 * 60.0)
    assert not transport.aborted


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="only Linux tells what is acknowledged")
def test_a_client_is_waited_for_that_takes_what_the_system_has(clock):
    """The system's buffer has megabytes, and asks for more when many of them are gone."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        ours, _ = listening.accept()
    transport = Transport(100, ours)
    with client, ours:
        StalledWrites(transport, clock.call_later, 60.0)
        for _ in range(3):
            ours.sendall(b"x")
            assert client.recv(1) == b"x"
            acknowledged(ours)
            clock.advance(60.0)
            assert not transport.aborted
        clock.advance(60.0)
        assert transport.aborted


@pytest.mark.parametrize("kind", ["a socket of Unix's", "a closed one"])
def test_where_the_system_tells_nothing_the_transport_does(clock, kind):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        if kind == "a closed one":
            ours.close()
        transport = Transport(100, ours)
        StalledWrites(transport, clock.call_later, 60.0)
        is_cut_at_the_look_after_it_took_some(transport, clock)


def is_cut_at_the_look_after_it_took_some(transport, clock):
    transport.unsent = 99
    clock.advance(60.0)
    assert not transport.aborted
    clock.advance(60.0)
    assert transport.aborted


def acknowledged(connection):
    """Wait until all that was sent is acknowledged: some systems wait 40 ms with that."""
    while any(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4))):
        pass
