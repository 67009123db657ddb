"""Upgrading a connection that we have made to a WebSocket: the client's handshake, on asyncio."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from partway.protocol.websocket.handshake import (
    Accepted,
    ClientHandshake,
    HandshakeBroken,
    HandshakeCut,
    HandshakeRefused,
)


@dataclass(frozen=True, slots=True)
class Upgraded:
    """A connection after its handshake, its reading paused so that no frame is lost."""

    transport: asyncio.Transport
    accepted: Accepted


class Upgrading(asyncio.Protocol):
    """Carries a :class:`ClientHandshake` over a transport, then lets go of the transport."""

    def __init__(self) -> None:
        self._handshake: ClientHandshake | None = None
        self._outcome: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    @property
    def has_asked(self) -> bool:
        """Whether the server has been sent the request."""
        return self._handshake is not None

    async def upgrade(self, handshake: ClientHandshake) -> Accepted:
        if self._transport is not None and not self._outcome.done():
            self._handshake = handshake
            self._transport.write(handshake.request)
        return await self._outcome

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._receive(data)

    def eof_received(self) -> bool:
        self._receive(b"")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(exc or HandshakeCut("the connection ended before the upgrade was answered"))

    def _receive(self, data: bytes) -> None:
        if self._outcome.done():
            return
        if self._handshake is None and not data:
            self._fail(HandshakeCut("the connection ended before the upgrade was asked for"))
            return
        if self._handshake is None:
            self._fail(HandshakeBroken("the server sent bytes before it got the request"))
            return
        try:
            accepted = self._handshake.receive(data)
        except (HandshakeRefused, HandshakeBroken) as error:
            self._fail(error)
            return
        if accepted is not None and self._transport is not None:
            self._transport.pause_reading()
            self._outcome.set_result(accepted)

    def _fail(self, error: Exception) -> None:
        if not self._outcome.done():
            self._outcome.set_exception(error)
            self._outcome.exception()  # it may come before upgrade() asks; avoid asyncio's log line


async def upgrade(
    transport: asyncio.Transport, upgrading: Upgrading, handshake: ClientHandshake, timeout: float
) -> Upgraded:
    """Upgrade a new connection; after a failure the connection is gone.

    Args:
        transport: the connection's, with ``upgrading`` as its protocol.
        timeout: seconds for the answer to the upgrade.

    Raises:
        HandshakeRefused: the server answered with another status than 101.
        HandshakeBroken: the server's answer is not valid.
        TimeoutError: no answer came in time.
        OSError: the connection broke.
    """
    try:
        async with asyncio.timeout(timeout):
            accepted = await upgrading.upgrade(handshake)
    except TimeoutError:
        transport.abort()
        with suppress(HandshakeBroken):
            handshake.receive(b"")  # raises a refusal with an incomplete body
        raise
    except BaseException:
        transport.abort()
        raise
    return Upgraded(transport, accepted)
