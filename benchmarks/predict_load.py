"""Requests for predictions: one at a time for each client; each answer is compared."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from benchmarks.process_meter import Meter

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of a load.

    Attributes:
        delays: of each request, in seconds.
        cpu: seconds of the processes for each request.
    """

    delays: Sequence[float]
    cpu: float


async def load(
    address: str, request: bytes, answer: bytes, pids: Sequence[int], clients: int, seconds: float
) -> Loaded:
    """Send requests for some seconds, and compare each answer's body.

    Args:
        answer: bytes that each answer's body must have, spaces apart.
        pids: the processes whose CPU time counts.
        clients: connections; each has one request under way.
    """
    host, _, port = address.rpartition(":")
    meters = [Meter(pid) for pid in pids]
    delays: list[float] = []

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(request)
        head = await reader.readuntil(_END)
        if _LENGTH not in head.lower():
            raise AssertionError(head)
        length = int(head.lower().partition(_LENGTH)[2].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200 ") or answer not in body.replace(b" ", b""):
            raise AssertionError((head + body)[:500])

    async def go_on(until: float, *, counts: bool) -> None:
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 22)
        try:
            while (began := time.perf_counter()) < until:
                await ask(reader, writer)
                if counts:
                    delays.append(time.perf_counter() - began)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    warm = time.perf_counter() + seconds / 4
    await asyncio.gather(*(go_on(warm, counts=False) for _ in range(clients)))
    before = sum(meter.cpu_seconds() for meter in meters)
    end = time.perf_counter() + seconds
    await asyncio.gather(*(go_on(end, counts=True) for _ in range(clients)))
    return Loaded(delays, (sum(meter.cpu_seconds() for meter in meters) - before) / len(delays))
