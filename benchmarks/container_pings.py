"""Short requests beside a load: one every 100 ms, and the time of each answer."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

_PING = b"GET /ping HTTP/1.1\r\nHost: container\r\n\r\n"
_EVERY = 0.1
#: Seconds for an answer. The platform waits for 2 s (clause 1.1-2); this is longer, to measure slow
#: answers.
_PATIENCE = 10.0
_OK = 200


def spread(seconds: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    """Median, 99th percentile and maximum; empty for no values."""
    if not len(seconds):
        return []
    at = [50, 99, 100]
    return [float(value) for value in np.percentile(seconds, at, method="higher")]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one request.

    Attributes:
        asked: when the request was due.
        seconds: from then to the end of the answer's head.
    """

    asked: float
    seconds: float
    status: int


class Pings:
    """Requests at their times, whether or not earlier ones have been answered.

    Args:
        kept: whether all requests share one connection. Each then waits for the one before, and
            its time still counts from when it was due.
    """

    def __init__(self, address: str, *, kept: bool = False, request: bytes = _PING) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host, int(port)
        self._kept = kept
        self._request = request
        self._stopped = False
        self.answers: list[Answer] = []

    @property
    def failed(self) -> int:
        return sum(answer.status != _OK for answer in self.answers)

    def spread(self) -> list[float]:
        return spread([answer.seconds for answer in self.answers])

    def statuses(self, *, before: float) -> dict[str, int]:
        """Count the statuses of requests that were due before a time."""
        return dict(Counter(str(each.status) for each in self.answers if each.asked < before))

    def stop(self) -> None:
        """Send no more; :meth:`run` returns once the last request is answered or given up."""
        self._stopped = True

    async def run(self) -> None:
        """Send requests until :meth:`stop`; return early if the server keeps no connections."""
        await (self._run_kept() if self._kept else self._run_fresh())

    async def _run_fresh(self) -> None:
        async with asyncio.TaskGroup() as group:
            async for due in self._times():
                group.create_task(self._ask_afresh(due))

    async def _ask_afresh(self, due: float) -> None:
        status = 0
        with suppress(OSError, EOFError):  # includes TimeoutError: no answer
            async with asyncio.timeout(_PATIENCE):
                reader, writer = await asyncio.open_connection(self._host, self._port)
                try:
                    writer.write(self._request)
                    status, _ = await _answer(reader)
                finally:
                    writer.close()
        self._note(due, status)

    async def _run_kept(self) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            async for due in self._times():
                status, kept = 0, False
                with suppress(OSError, EOFError):
                    async with asyncio.timeout(_PATIENCE):
                        writer.write(self._request)
                        status, kept = await _answer(reader)
                if kept or not status:
                    self._note(due, status)
                if not kept:
                    break
        finally:
            writer.close()

    async def _times(self) -> AsyncIterator[float]:
        """Yield each time when a request is due; late if the one before takes longer."""
        due = time.monotonic()
        while True:
            await asyncio.sleep(due - time.monotonic())
            if self._stopped:
                return
            yield due
            due += _EVERY

    def _note(self, due: float, status: int) -> None:
        self.answers.append(Answer(due, time.monotonic() - due, status))


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Read an answer without a body; return its status, and whether its connection is kept."""
    head = await reader.readuntil(b"\r\n\r\n")
    return int(head[9:12]), b"connection: close" not in head.lower()
