"""The connections with containers by which requests go: dialled, kept for a moment, used again."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from partway.gateway.clock import Clock, LoopClock, Timer
from partway.gateway.dialling import OutOfDescriptors, Unreachable, reach
from partway.gateway.limits import CONTAINER_TLS_TIMEOUT, INVOCATION_TIMEOUT
from partway.gateway.requests.container_answer import ContainerAnswer
from partway.gateway.requests.container_requests import ContainerRequest, Destination
from partway.gateway.requests.limits import (
    CONTAINER_IDLE_TIMEOUT,
    MAX_IDLE_CONNECTIONS,
    MAX_IDLE_OF_CONTAINER,
    WHOLE_CHUNK_BYTES,
)
from partway.protocol.errors import ContainerUnreachable, ServiceUnavailable
from partway.protocol.limits import WRITE_HIGH_WATER


class ContainerConnection(asyncio.Protocol):
    """One connection with a container; it has one exchange at a time, or waits for the next.

    Attributes:
        answer: the exchange that it has.
        idle: ends the wait for the next one.
    """

    def __init__(self) -> None:
        self.answer: ContainerAnswer | None = None
        self.idle: Timer | None = None
        self._transport: asyncio.Transport
        self._ended = False
        self._full = False
        self._room: asyncio.Future[None] | None = None
        self._looked = select.poll()

    @property
    def usable(self) -> bool:
        """Whether another request may go by it.

        The kernel is asked too: what the container has said or closed while nobody was asked may
        not have come to the loop yet.
        """
        return not self._ended and not self._transport.is_closing() and not self._looked.poll(0)

    def abort(self) -> None:
        """Break the connection off."""
        self._transport.abort()

    # --- The wire of an exchange -----------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    async def room(self) -> None:
        if not self._full or self._ended:
            return
        self._room = asyncio.get_running_loop().create_future()
        try:
            await self._room
        finally:
            self._room = None

    def pause_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    # --- What the loop says ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH_WATER)
        self._looked.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if self.answer is None:
            self.abort()  # it speaks without being asked: what follows is no answer of ours
        else:
            self.answer.data_received(data)

    def eof_received(self) -> bool:
        self._over("")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._over(str(exc) if exc is not None else "")

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._give_room()

    def _over(self, trouble: str) -> None:
        self._ended = True
        self._give_room()
        if self.answer is not None:
            self.answer.connection_ended(trouble)

    def _give_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)


class ContainerConnections:
    """Asks containers, each request on a connection of its own while it lasts.

    A request that finds no connection has not been sent, and may go elsewhere. One that is on a
    connection is never sent again: the container may have acted on it. A kept connection that the
    container has closed is seen before the request is written (so does Go, whose transport calls it
    errServerClosedIdle), and another one is taken; closed later, it is an exchange that broke.

    Args:
        clock: measures the times; the running loop's unless it is given.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or LoopClock()
        self._idle: dict[Destination, list[ContainerConnection]] = {}
        self._closed = False

    @property
    def idle(self) -> int:
        """How many connections wait for their next request."""
        return sum(map(len, self._idle.values()))

    @asynccontextmanager
    async def ask(
        self,
        destination: Destination,
        request: ContainerRequest,
        timeout: float = INVOCATION_TIMEOUT,
        whole_chunk: int = WHOLE_CHUNK_BYTES,
    ) -> AsyncIterator[ContainerAnswer]:
        """Send a request, and have its answer for as long as the block lasts.

        Whoever leaves the block before the answer's end cancels the container's request: its
        connection is broken off.

        Args:
            destination: where it goes.
            request: what is asked.
            timeout: seconds from the request's end to the answer's head, and of silence in its
                body.
            whole_chunk: bytes up to which a chunk of the answer is one piece.

        Raises:
            ContainerUnreachable: there is no connection; nothing of the body has been asked for.
            ServiceUnavailable: the gateway has no file descriptor left for one.
            InputValidationError: the request cannot be sent as it is.
        """
        head = request.head(destination.authority)
        connection = self._kept(destination) or await self._dialled(destination)
        answer = connection.answer = ContainerAnswer(connection, self._clock, timeout, whole_chunk)
        good = False
        try:
            answer.send(head, request)
            del request  # of its body nothing is held here while the answer comes
            yield answer
        finally:
            try:
                good = await answer.close()
            finally:
                connection.answer = None
                if good:
                    self._keep(destination, connection)
                else:
                    connection.abort()

    def close(self) -> None:
        """Close what waits, and keep no connection from here on."""
        self._closed = True
        for connections in list(self._idle.values()):
            for connection in list(connections):
                self._drop(connection)
        self._idle.clear()

    def _kept(self, destination: Destination) -> ContainerConnection | None:
        """The connection that was used last, of those that can be; none if there is none."""
        idle = self._idle.get(destination)
        while idle:
            connection = idle.pop()
            if not idle:
                del self._idle[destination]
            assert connection.idle is not None, "one that waits has its end"
            connection.idle.cancel()
            if connection.usable:
                return connection
            connection.abort()
        return None

    def _keep(self, destination: Destination, connection: ContainerConnection) -> None:
        idle = self._idle.get(destination, [])
        full = len(idle) >= MAX_IDLE_OF_CONTAINER or self.idle >= MAX_IDLE_CONNECTIONS
        if self._closed or full or not connection.usable:
            connection.abort()
            return
        self._idle.setdefault(destination, idle).append(connection)
        connection.idle = self._clock.call_later(
            CONTAINER_IDLE_TIMEOUT, self._give_up, destination, connection
        )

    def _give_up(self, destination: Destination, connection: ContainerConnection) -> None:
        """Close a connection that has waited for long enough."""
        idle = self._idle[destination]
        idle.remove(connection)
        if not idle:
            del self._idle[destination]
        connection.abort()

    def _drop(self, connection: ContainerConnection) -> None:
        assert connection.idle is not None, "one that waits has its end"
        connection.idle.cancel()
        connection.abort()

    async def _dialled(self, destination: Destination) -> ContainerConnection:
        try:
            _, connection = await reach(
                destination.container,
                ContainerConnection,
                timeout=destination.connect_timeout,
                tls=destination.tls,
                tls_timeout=CONTAINER_TLS_TIMEOUT,
            )
        except OutOfDescriptors:
            raise ServiceUnavailable(
                "this gateway has no file descriptor left for a request; another one may take it"
            ) from None
        except Unreachable as error:
            none = "no connection with the container"
            raise ContainerUnreachable(
                f"{none}: {error.unnamed}", for_operator=f"{none}: {error}", passing=error.passing
            ) from None
        return connection
