"""Connections to containers for requests: dialled, kept for a moment, and used again."""

from __future__ import annotations

import asyncio
import fcntl
import select
import struct
import termios
import time
from functools import partial
from typing import cast

from partway.gateway.containers.container_answer import ContainerAnswer
from partway.gateway.containers.container_requests import ContainerRequest, Destination
from partway.gateway.containers.limits import (
    CONTAINER_IDLE_TIMEOUT,
    MAX_IDLE_CONNECTIONS,
    MAX_IDLE_OF_CONTAINER,
    WHOLE_CHUNK_BYTES,
)
from partway.gateway.limits import CONTAINER_TLS_TIMEOUT, INVOCATION_TIMEOUT
from partway.gateway.network.dialling import OutOfDescriptors, Unreachable, reach
from partway.gateway.network.silent_hosts import silent_hosts
from partway.gateway.timing.clock import Clock, LoopClock, Timer
from partway.gateway.timing.many_timers import ManyTimers
from partway.protocol.connections.prompt_acks import acknowledge, prompt_acks
from partway.protocol.errors import ContainerBroke, ContainerUnreachable, ServiceUnavailable
from partway.protocol.limits import JOIN_UP_TO, WRITE_HIGH_WATER


class _Kept:
    """The kept connections of one container, which wait for their next request.

    Attributes:
        waiting: the connections, the most recently used one at the end.
        asked: how many exchanges are under way.
    """

    __slots__ = ("asked", "destination", "waiting")

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self.waiting: list[ContainerConnection] = []
        self.asked = 0


class ContainerConnection(asyncio.Protocol):
    """One connection to a container; it has one exchange at a time, or waits for the next.

    Attributes:
        idle_until: when its wait is over, by the pool's clock.
        idle: a timer that checks this, then or earlier.
    """

    def __init__(self, connections: ContainerConnections, kept: _Kept) -> None:
        self.answer: ContainerAnswer | None = None
        self.kept = kept
        self._connections = connections
        self.loop = asyncio.get_running_loop()
        self.idle_until = 0.0
        self.idle: Timer | None = None
        self._transport: asyncio.Transport
        self._ended = False
        self._full = False
        self._encrypted = False
        self._room: asyncio.Future[None] | None = None
        self._looked = select.poll()
        self._acknowledges_soon = False

    def is_open(self) -> bool:
        """Say whether it is open, as far as the loop knows."""
        return not self._ended and not self._transport.is_closing()

    def is_usable(self) -> bool:
        """Say whether another request may use it.

        The kernel is asked too: the container may have sent or closed while the connection waited,
        and the loop may not know of it yet.
        """
        return not (self._ended or self._transport.is_closing() or self._looked.poll(0))

    def check_silence(self) -> None:
        """Break off a connection on which bytes have come before its first request.

        The kernel says how many there are. With TLS they may be messages of TLS itself, which are
        no fault.

        Raises:
            ContainerBroke: there are some, or the connection has ended.
        """
        if not self.is_open():
            raise ContainerBroke("the container ended the connection before it got the request")
        if self._encrypted:
            return
        number = self._transport.get_extra_info("socket").fileno()
        (waiting,) = struct.unpack("i", fcntl.ioctl(number, termios.FIONREAD, bytes(4)))
        if waiting:
            self.abort()
            raise ContainerBroke("the container sent bytes before it got the request")

    def abort(self) -> None:
        if self.idle is not None:
            self.idle.cancel()
            self.idle = None
        self._transport.abort()

    # --- For an exchange (RequestWire) -----------------------------------------------------------

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def write_whole(self, head: bytes, body: bytes) -> None:
        """Send a whole request in one write; dropped once the connection is gone."""
        if self._transport.is_closing():
            return
        if len(body) > JOIN_UP_TO:  # a copy would hold megabytes twice
            self._transport.writelines((head, body))
        else:
            self._transport.write(head + body)

    async def room(self) -> None:
        if not self._full or self._ended:
            return
        self._room = self.loop.create_future()
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

    def over(self, *, good: bool) -> None:
        self._connections.over(self, good=good)

    # --- Callbacks of the loop -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._encrypted = transport.get_extra_info("sslcontext") is not None
        self._transport.set_write_buffer_limits(WRITE_HIGH_WATER)
        self._looked.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._forget_host = silent_hosts.opened(self._transport)

    def data_received(self, data: bytes) -> None:
        if self.answer is None:
            # The container speaks without a request. The idle timer of the connection runs on, and
            # removes it.
            self._transport.abort()
        else:
            self.answer.data_received(data)
            if not (self._acknowledges_soon or self.answer.parser.complete):
                self._acknowledges_soon = True
                prompt_acks.soon(self)

    def acknowledge(self) -> None:
        """Acknowledge the last read, unless it has ended an answer, since a request may follow."""
        self._acknowledges_soon = False
        if self.answer is not None and not (self._ended or self.answer.parser.complete):
            acknowledge(self._transport)

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
        self._forget_host()
        self._give_room()
        if self.answer is not None:
            self.answer.connection_ended(trouble)

    def _give_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)


class ContainerConnections:
    """Sends requests to containers; each has a connection of its own while it lasts.

    A request without a connection has not been sent, and may go to another instance. A request on a
    connection is never sent again: the container may have acted on it. A kept connection that the
    container has closed is detected before it gets a request, and another one is used. (Go's
    transport does the same and calls it errServerClosedIdle.) If it closes later, the exchange is
    broken.

    Args:
        clock: measures the times; the running loop's unless it is given.

    Attributes:
        idle: how many connections wait for their next request.
        timers: the same clock, for timers that are mostly cancelled early.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.idle = 0
        self._clock = clock or LoopClock()
        self.timers = ManyTimers(self._clock)
        self._kept: dict[str, _Kept] = {}
        self._closed = False

    async def ask(
        self,
        destination: Destination,
        request: ContainerRequest,
        timeout: float = INVOCATION_TIMEOUT,
        whole_chunk: int = WHOLE_CHUNK_BYTES,
    ) -> ContainerAnswer:
        """Send a request, or begin to; use the result in ``async with`` at once.

        Args:
            destination: where it goes.
            request: the request.
            timeout: seconds from the request's end to the answer's head, and of silence in its
                body.
            whole_chunk: a chunk of the answer of up to so many bytes is one piece.

        Raises:
            ContainerUnreachable: there is no connection; nothing of the body has been read.
            ContainerBroke: the container sent something, or closed, before the request.
            ServiceUnavailable: the gateway has no file descriptor left for one.
        """
        head, body = request.head(destination.authority), request.body
        kept = self._kept.get(destination.key)
        if kept is None:
            kept = self._kept[destination.key] = _Kept(destination)
        kept.asked += 1
        try:
            connection = self._usable(kept)
            if connection is None:
                connection = await self._dialled(destination, kept)
                connection.check_silence()
        except BaseException:
            self._end(kept)
            raise
        began_at = time.monotonic()
        # The request is sent before the exchange object is made.
        if isinstance(body, bytes):
            connection.write_whole(head, body)
        else:
            connection.write(head)
        answer = ContainerAnswer(connection, self.timers, began_at, timeout, whole_chunk)
        connection.answer = answer
        if isinstance(body, bytes):
            answer.is_sent()
        else:
            answer.send(body, request.length)
        return answer

    def close(self) -> None:
        """Close waiting connections, and keep none from here on."""
        self._closed = True
        self.idle = 0
        for kept in list(self._kept.values()):
            waiting, kept.waiting = kept.waiting, []
            for connection in waiting:
                connection.abort()
            self._forget_unused(kept)

    def _usable(self, kept: _Kept) -> ContainerConnection | None:
        """Return the most recently used connection that is usable, or None."""
        waiting = kept.waiting
        while waiting:
            connection = waiting.pop()
            self.idle -= 1
            if connection.is_usable():
                return connection
            connection.abort()
        return None

    def over(self, connection: ContainerConnection, *, good: bool) -> None:
        """Let the connection of an ended exchange wait for the next, if there is room.

        A connection whose exchange has not ended in good order is broken off.
        """
        answer, connection.answer = connection.answer, None
        assert answer is not None, "an exchange is over once"
        answer.parser.close()
        kept = connection.kept
        waiting = kept.waiting
        full = len(waiting) >= MAX_IDLE_OF_CONTAINER or self.idle >= MAX_IDLE_CONNECTIONS
        if not good or full or self._closed or not connection.is_open():
            connection.abort()
            self._end(kept)
            return
        kept.asked -= 1
        waiting.append(connection)
        self.idle += 1
        connection.idle_until = self._clock.time() + CONTAINER_IDLE_TIMEOUT
        if connection.idle is None:  # else an earlier timer still runs and checks
            self._look_after(CONTAINER_IDLE_TIMEOUT, connection)

    def _end(self, kept: _Kept) -> None:
        kept.asked -= 1
        self._forget_unused(kept)

    def _forget_unused(self, kept: _Kept) -> None:
        if not kept.waiting and not kept.asked:
            self._kept.pop(kept.destination.key, None)

    def _look_after(self, seconds: float, connection: ContainerConnection) -> None:
        connection.idle = self._clock.call_later(seconds, self._look, connection)

    def _look(self, connection: ContainerConnection) -> None:
        connection.idle = None
        if connection.answer is not None:
            return  # it is in use; the next wait has a timer again
        left = connection.idle_until - self._clock.time()
        if left > 0:
            self._look_after(left, connection)
            return
        connection.kept.waiting.remove(connection)
        self.idle -= 1
        self._forget_unused(connection.kept)
        connection.abort()

    async def _dialled(self, destination: Destination, kept: _Kept) -> ContainerConnection:
        try:
            _, connection = await reach(
                destination.container,
                partial(ContainerConnection, self, kept),
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
