"""partway.protocol.http1.leaving, by connections of the system's."""

from __future__ import annotations

import socket
import struct

import pytest

from partway.protocol.http1.leaving import has_ended


class Transport:
    """A transport that has a socket, or none."""

    def __init__(self, connection):
        self._connection = connection

    def get_extra_info(self, name):
        return {"socket": self._connection}[name]


@pytest.fixture
def ends():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        own, _ = listener.accept()
    with client, own:
        yield own, client


@pytest.mark.parametrize("sent", [b"", b"a request"])
def test_a_client_that_stays(ends, sent):
    own, client = ends
    client.sendall(sent)
    assert not has_ended(Transport(own))


@pytest.mark.parametrize("sent", [b"", b"a request"])
@pytest.mark.parametrize("how", ["shutdown", "close", "reset"])
def test_a_client_that_has_ended_it_behind_what_it_has_sent(ends, sent, how):
    own, client = ends
    client.sendall(sent)
    if how == "shutdown":
        client.shutdown(socket.SHUT_WR)
    else:
        if how == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    assert has_ended(Transport(own))
    if how != "reset":
        assert own.recv(100) == sent


def test_who_has_no_socket_is_not_looked_at(ends):
    own, _ = ends
    own.close()
    assert not has_ended(Transport(own))
    assert not has_ended(Transport(None))
