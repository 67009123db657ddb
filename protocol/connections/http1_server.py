"""HTTP/1.1 server: all its connections, and their shutdown."""

from __future__ import annotations

import asyncio
from typing import Protocol


class OpenConnection(Protocol):
    encrypted: bool

    def close_if_idle(self) -> None:
        """Close, unless a response is under way."""

    def abort(self) -> None: ...


class RequestServer:
    """All connections of a server, and the tasks that answer their requests.

    Args:
        head_timeout: seconds from when a connection begins, and from its last response, to the end
            of the next head. Bytes that dribble in do not extend it (slowloris).
        taken_within: seconds in which a client must take some of the unsent bytes, over and over.
        cancels_waiting: whether a request's task is cancelled when its client has left, even if the
            task waits for that client and so would notice.

    Attributes:
        ending: whether connections end with the response that is under way.
        tasks: the tasks that answer requests.
    """

    def __init__(
        self, *, head_timeout: float, taken_within: float, cancels_waiting: bool = False
    ) -> None:
        self.head_timeout = head_timeout
        self.taken_within = taken_within
        self.cancels_waiting = cancels_waiting
        self.ending = False
        self.tasks: set[asyncio.Task[None]] = set()
        self._connections: set[OpenConnection] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    @property
    def open_connections(self) -> int:
        """How many connections are open, upgraded ones included."""
        return len(self._connections)

    async def shutdown(self, timeout: float) -> int:
        """Close idle connections now, others with their response, or after ``timeout`` seconds.

        Tasks that are cancelled then have another ``timeout`` seconds to end.

        Returns:
            The number of tasks that did not end.
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

    def begun(self, connection: OpenConnection) -> None:
        self._connections.add(connection)
        self._none_left.clear()

    def over(self, connection: OpenConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._none_left.set()
