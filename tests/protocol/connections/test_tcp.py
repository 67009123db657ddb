"""partway.protocol.connections.tcp, by real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator

import pytest

from partway.protocol.connections.tcp import half_close, has_ended, watch_by_tcp
from tests.protocol.connections.test_websocket import PATIENCE, Peer, socket_pair


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, Peer]]:
    ours, theirs = socket_pair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            async with asyncio.timeout(PATIENCE):
                yield reader, writer, Peer(theirs, masks=False)
        finally:
            writer.transport.abort()


async def test_the_peer_reads_what_was_written_and_then_the_end_and_can_still_send() -> None:
    async with connected() as (reader, writer, peer):
        writer.write(b"last words")
        assert half_close(writer.transport)
        loop = asyncio.get_running_loop()
        assert await loop.sock_recv(peer.sock, 100) == b"last words"
        assert await loop.sock_recv(peer.sock, 100) == b""
        await peer.send(b"an answer")
        assert await reader.read(100) == b"an answer"


async def test_a_reset_that_nobody_has_read_is_told_by_the_next_read() -> None:
    """The kernel has the RST, the loop had no turn since."""
    async with connected() as (reader, writer, peer):
        peer.reset()
        assert half_close(writer.transport)
        with pytest.raises(ConnectionResetError):
            await reader.read(100)


def test_a_transport_without_half_closing_is_left_alone() -> None:
    class OverTls:
        def can_write_eof(self) -> bool:
            return False

        def write_eof(self) -> None:
            raise NotImplementedError

    assert not half_close(OverTls())


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPCNT"), reason="this system cannot set it")
async def test_tcp_asks_whether_a_silent_peer_is_there():
    listener = socket.create_server(("127.0.0.1", 0))
    loop = asyncio.get_running_loop()
    with listener:
        transport, _ = await loop.create_connection(asyncio.Protocol, *listener.getsockname())
        watch_by_tcp(transport, 60.0, 5)
        sock = transport.get_extra_info("socket")
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [sock.getsockopt(socket.IPPROTO_TCP, each) for each in options] == [60, 60, 5]
        transport.close()


class Transport:
    def __init__(self, connection):
        self._connection = connection

    def get_extra_info(self, name):
        return {"socket": self._connection}[name]


@pytest.fixture
def ends():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = socket.create_connection(listener.getsockname())
        own, _ = listener.accept()
    with peer, own:
        yield own, peer


@pytest.mark.parametrize("sent", [b"", b"a request"])
def test_a_peer_that_stays(ends, sent):
    own, peer = ends
    peer.sendall(sent)
    assert not has_ended(Transport(own))


@pytest.mark.parametrize("sent", [b"", b"a request"])
@pytest.mark.parametrize("how", ["shutdown", "close", "reset"])
def test_a_peer_that_has_ended_it_behind_what_it_has_sent(ends, sent, how):
    own, peer = ends
    peer.sendall(sent)
    if how == "shutdown":
        peer.shutdown(socket.SHUT_WR)
    else:
        if how == "reset":
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
    assert has_ended(Transport(own))
    if how != "reset":
        assert own.recv(100) == sent


def test_who_has_no_socket_is_not_looked_at(ends):
    own, _ = ends
    own.close()
    assert not has_ended(Transport(own))
    assert not has_ended(Transport(None))
