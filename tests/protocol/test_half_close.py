"""FIN on one side of real sockets, and what does not let it be sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from partway.protocol.half_close import half_close
from tests.protocol.test_connection import PATIENCE, Peer, socket_pair


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
