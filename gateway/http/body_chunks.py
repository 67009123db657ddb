"""The bodies of an exchange for an operation that awaits: chunks in, pieces out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from partway.gateway.http.duplex import Duplex, Parting
from partway.gateway.limits import RESPONSE_TAKEN_TIMEOUT
from partway.protocol.errors import ClientLeft
from partway.protocol.limits import WRITE_HIGH_WATER, WRITE_LOW_WATER


class AwaitedBodies:
    """Lets an operation await the bodies of an exchange, and owns their duplex.

    The duplex reads only while the operation waits for the next chunk. So at most the client's
    credit of the request is held.

    Args:
        on_left: called when the client leaves while the operation does not wait here.
        taken_within: seconds in which a client must make room for more of the response.
    """

    def __init__(
        self,
        duplex: Duplex,
        on_left: Callable[[], None],
        taken_within: float = RESPONSE_TAKEN_TIMEOUT,
    ) -> None:
        self._duplex = duplex
        self._on_left = on_left
        self._taken_within = taken_within
        #: Whether the client has left; nothing more can be read or written.
        self.left = False
        self._stopped = False
        self._chunk = b""
        self._input_ended = False
        self._blocked = False
        self._waiting = 0
        self._changed = asyncio.Event()
        duplex.start(
            self,
            high_water=WRITE_HIGH_WATER,
            low_water=WRITE_LOW_WATER,
            call_later=asyncio.get_running_loop().call_later,
        )

    async def read(self) -> bytes:
        """Return the next bytes of the request's body; empty after its end.

        Raises:
            ClientLeft: the client left in the middle of the body.
        """
        if not self._chunk and not self._input_ended:
            self._duplex.resume_reading()
        await self._until(lambda: bool(self._chunk) or self._input_ended)
        chunk, self._chunk = self._chunk, b""
        return chunk

    def send(self, piece: bytes) -> None:
        """Send a piece of the response's body, even if there is no room for it."""
        self._duplex.write(piece)

    async def write(self, piece: bytes) -> None:
        """Send a piece of the response's body; return when there is room for another.

        Raises:
            ClientLeft: the client has left, or takes nothing in time.
        """
        if not self.left:
            self.send(piece)
            if not (self._blocked or self.left):  # the usual case
                return
        try:
            async with asyncio.timeout(self._taken_within if self._blocked else None):
                await self._until(lambda: not self._blocked)
        except TimeoutError:
            raise ClientLeft(
                f"the client took no more of the response for {self._taken_within:g} s"
            ) from None

    def stop(self) -> None:
        """Note that the response has ended: a client that leaves now does not matter."""
        self._stopped = True

    async def _until(self, condition: Callable[[], bool]) -> None:
        self._waiting += 1
        try:
            while not self.left and not condition():
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._waiting -= 1
        if self.left:
            raise ClientLeft

    # --- DuplexHandler ---------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Keep a delivery of the duplex as the next chunk, and pause reading."""
        if data:  # after an empty DATA frame, END_STREAM is only told while reading goes on
            self._chunk += data
            self._duplex.pause_reading()
            self._changed.set()

    def input_ended(self) -> None:
        self._input_ended = True
        self._changed.set()

    def pong_received(self, payload: bytes) -> None:
        """Ignore a pong: no pings are sent here."""

    def writing_paused(self) -> None:
        self._blocked = True

    def writing_resumed(self) -> None:
        self._blocked = False
        self._changed.set()

    def connection_lost(self, how: Parting) -> None:
        """Note that the exchange is over; if the response is not, the client has left."""
        if self._stopped:
            return
        self.left = True
        self._changed.set()
        if not self._waiting:
            self._on_left()
