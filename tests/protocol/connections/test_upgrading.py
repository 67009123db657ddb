"""A connection becomes a WebSocket, or is gone."""

from __future__ import annotations

import asyncio

import pytest

from partway.protocol.connections.upgrading import Upgrading
from partway.protocol.websocket.handshake import ClientHandshake, HandshakeBroken, HandshakeCut
from tests.wire.peers import soon, switching


async def test_what_comes_before_the_request_is_no_answer_to_it():
    upgrading = Upgrading()
    upgrading.data_received(switching(b"Sec-WebSocket-Key: x\r\n"))
    with pytest.raises(HandshakeBroken, match="the server sent bytes before it got the request"):
        await soon(upgrading.upgrade(ClientHandshake("h", "/")))


async def test_a_server_that_leaves_before_the_request_is_not_asked():
    """A server that stops may take a connection just before that."""
    upgrading = Upgrading()
    upgrading.connection_made(asyncio.Transport())  # which cannot write
    upgrading.eof_received()
    with pytest.raises(HandshakeCut, match="ended before the upgrade was asked for"):
        await soon(upgrading.upgrade(ClientHandshake("h", "/")))
    assert not upgrading.has_asked
