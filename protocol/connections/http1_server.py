"""The connections of a server of HTTP/1.1, from the first to the shutdown."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from partway.protocol.connections.http1_connection import RequestConnection
from partway.protocol.http1.parser import RequestBroken
from partway.protocol.http1.request import Http1Request

C = TypeVar("C", bound=RequestConnection)


class RequestServer(ABC, Generic[C]):
    """All connections of a server, each of its own kind of them, whose requests it has answered.

    Args:
        head_timeout: seconds from when a connection begins, and from its last response, to the end
            of the next head. Bytes that dribble in do not move it (slowloris).
        taken_within: seconds in which a client has to take some of what it is sent, over and over.

    Attributes:
        head_timeout: the same.
        taken_within: the same.
        ending: whether connections end with the response that is under way.
        tasks: those in which requests are answered.
    """

    def __init__(self, *, head_timeout: float, taken_within: float) -> None:
        self.head_timeout = head_timeout
        self.taken_within = taken_within
        self.ending = False
        self.tasks: set[asyncio.Task[None]] = set()
        self._connections: set[RequestConnection] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    @property
    def open_connections(self) -> int:
        """How many connections are open, upgraded ones included."""
        return len(self._connections)

    async def shutdown(self, timeout: float) -> int:
        """Close idle connections now, others with their response, or after ``timeout`` seconds.

        Requests that are broken off then have ``timeout`` seconds once more to come to their end.

        Returns:
            How many have not come to it, and are left behind.
        """
        self.ending = True
        for connection in list(self._connections):
            connection.close_if_idle()
        try:
            async with asyncio.timeout(timeout):
                if self.tasks:
                    await asyncio.wait(self.tasks)
                for connection in list(self._connections):
                    if connection.encrypted:
                        # A client need not answer TLS's close_notify, and the loop may end before.
                        connection.abort()
                await self._none_left.wait()
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort()
            for task in self.tasks:
                task.cancel()
            if self.tasks:
                _, left = await asyncio.wait(self.tasks, timeout=timeout)
                return len(left)
        return 0

    # --- From connections ------------------------------------------------------------------------

    def begun(self, connection: RequestConnection) -> None:
        """A connection has begun."""
        self._connections.add(connection)
        self._none_left.clear()

    def over(self, connection: RequestConnection) -> None:
        """A connection is over."""
        self._connections.discard(connection)
        if not self._connections:
            self._none_left.set()

    @abstractmethod
    async def answer(self, connection: C, request: Http1Request) -> bool:
        """Answer a request; returns whether the connection may have another one."""

    @abstractmethod
    def refuse(self, connection: C, broken: RequestBroken) -> None:
        """Answer what is no request; nothing of it is repeated."""
