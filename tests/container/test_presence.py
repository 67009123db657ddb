from __future__ import annotations

import socket
import struct

from partway.container.presence import is_over


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        return listener.accept()[0], client


def test_a_reset_is_seen_ahead_of_what_is_unread() -> None:
    ours, client = pair()
    client.sendall(bytes(1000))
    assert not is_over(ours)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert is_over(ours)
    ours.close()


def test_a_client_that_says_no_more_still_listens() -> None:
    ours, client = pair()
    client.shutdown(socket.SHUT_WR)
    assert not is_over(ours)
    ours.close()
    client.close()


def test_what_is_no_connection_of_tcp_is_not_known_to_be_over() -> None:
    assert not is_over(None)
    closed, client = pair()
    closed.close()
    client.close()
    assert not is_over(closed)
    one, other = socket.socketpair()
    assert not is_over(one)
    one.close()
    other.close()
