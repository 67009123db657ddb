"""Requests of InvokeEndpoint, as many as possible or at a rate; each answer is compared."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

_END = b"\r\n\r\n"


class Client(asyncio.Protocol):
    """One connection with one request under way at a time."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._data = b""
        self._answer: asyncio.Future[None]
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes) -> asyncio.Future[None]:
        """Send a request; the future is done when the right answer has come."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(_END)
        if not end or len(body) < len(self._body):
            return
        self._data = b""
        if head.startswith(b"HTTP/1.1 200 ") and body == self._body:
            self._answer.set_result(None)
        else:
            self._answer.set_exception(AssertionError((head + body)[:500]))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the connection ended"))

    def close(self) -> None:
        self._transport.abort()


@dataclass
class Asked:
    """The result of a load.

    Attributes:
        delays: of each request, in seconds.
    """

    seconds: float = 0.0
    delays: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.delays) / self.seconds

    def percentile(self, share: float) -> float:
        """The delay that this share of requests did not exceed."""
        return sorted(self.delays)[int(share * (len(self.delays) - 1))]


async def load(
    address: str,
    requests: Sequence[bytes],
    body: bytes,
    clients: int,
    seconds: float,
    rate: float | None,
) -> Asked:
    """Send requests for some seconds.

    Args:
        body: the body that each answer must have.
        clients: connections; each has one request under way.
        rate: requests a second of all of them; None for as many as there is room for.
    """
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    asked = Asked()
    turn = itertools.cycle(requests)
    connected = [
        (await loop.create_connection(lambda: Client(body), host, int(port)))[1]
        for _ in range(clients)
    ]
    began = time.perf_counter()

    async def go_on(client: Client, number: int) -> None:
        due = began + (0.0 if rate is None else number / rate)
        while due < began + seconds:
            if rate is not None and (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            sent = time.perf_counter() if rate is None else due  # a late client's delay counts
            await client.ask(next(turn))
            now = time.perf_counter()
            asked.delays.append(now - sent)
            due = now if rate is None else due + clients / rate

    try:
        await asyncio.gather(*(go_on(client, number) for number, client in enumerate(connected)))
    finally:
        for client in connected:
            client.close()
    asked.seconds = time.perf_counter() - began
    return asked
