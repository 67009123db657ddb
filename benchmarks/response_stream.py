"""InvokeEndpointWithResponseStream beside HAProxy, nginx, a bare relay: the first token's delay.

``python -m benchmarks.response_stream`` prints a table in markdown. It fails when a process does
not run or a token is missing, never for being slow. ``docs/discussion/benchmarks.md`` explains the
table.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import cast

import httptools
import uvloop

from benchmarks import peers
from benchmarks.peers import Peer
from benchmarks.token_container import COUNT, token
from partway.protocol.event_stream.reader import Decoder
from partway.protocol.limits import MAX_PART_BYTES

_BODY = b'{"prompt": "to be or"}'
_EVERYTHING = b"".join(map(token, range(COUNT)))


@dataclass
class Row:
    """One way to the container, and the rounds' results for it.

    Attributes:
        delays: for each round, the median of the seconds from a request to its first token.
    """

    name: str
    peer: Peer | None
    path: str = "/invocations"
    events: bool = False
    delays: list[float] = field(default_factory=list)


class Client(asyncio.Protocol):
    """One connection, with one request under way at a time.

    Args:
        said: the tokens in the body of a whole answer.
    """

    def __init__(self, request: bytes, said: Callable[[bytes], bytes]) -> None:
        self._request = request
        self._said = said
        self._transport: asyncio.Transport
        self._answer: asyncio.Future[float]
        self._asked_at = 0.0
        self._delay = 0.0
        self._body = bytearray()
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def ask(self) -> asyncio.Future[float]:
        """Send the request; the future has the delay of the first token when all have come."""
        self._answer = asyncio.get_running_loop().create_future()
        self._body.clear()
        self._asked_at = time.perf_counter()
        self._transport.write(self._request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        """Take part of the answer's body; the first part brings the first token."""
        if not self._body:
            self._delay = time.perf_counter() - self._asked_at
        self._body += data

    def on_message_complete(self) -> None:
        said = self._said(bytes(self._body))
        if said == _EVERYTHING:
            self._answer.set_result(self._delay)
        else:
            self._answer.set_exception(AssertionError(said[:500]))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the connection ended"))

    def close(self) -> None:
        self._transport.abort()


def _of_events(body: bytes) -> bytes:
    decoder = Decoder(MAX_PART_BYTES)
    decoder.feed(body)
    parts = []
    while (message := decoder.next_message()) is not None:
        parts.append(message.payload)
    return b"".join(parts)


async def _measure(row: Row, args: argparse.Namespace) -> float:
    """The median of the first tokens' delays, in seconds.

    Args:
        args: the command's. ``clients`` connections begin to ask ``apart`` ms after each other,
            and wait ``pause`` ms between an answer and the next request. As all streams take the
            same time, connections stay as far apart as they began: with 0 all ask at once.
    """
    assert row.peer is not None, "it runs"
    host, _, port = row.peer.address.rpartition(":")
    head = f"POST {row.path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(_BODY)}\r\n\r\n"
    loop = asyncio.get_running_loop()
    said = _of_events if row.events else bytes
    asking = [
        (await loop.create_connection(lambda: Client(head.encode() + _BODY, said), host, int(port)))
        for _ in range(args.clients)
    ]
    delays = []
    until = time.perf_counter() + args.seconds - args.pause / 1e3

    async def go_on(client: Client, number: int) -> None:
        await asyncio.sleep(number * args.apart / 1e3)
        await client.ask()  # makes the connections
        while time.perf_counter() < until:
            await asyncio.sleep(args.pause / 1e3)
            delays.append(await client.ask())

    try:
        await asyncio.gather(*(go_on(client, number) for number, (_, client) in enumerate(asking)))
    finally:
        for _, client in asking:
            client.close()
    return statistics.median(delays)


async def _rounds(rows: list[Row], args: argparse.Namespace) -> None:
    """Measure the rows in turns, so that a disturbance of the machine meets all of them."""
    for _ in range(args.repeat):
        for row in rows:
            if row.peer is not None:
                row.delays.append(await _measure(row, args))


def _table(rows: list[Row], direct: Row) -> str:
    lines = ["| | first token, ms | added to direct, ms |", "|---|---|---|"]
    for row in rows:
        if row.peer is None:
            lines.append(f"| {row.name} | unmeasured | |")
            continue
        pairs = zip(row.delays, direct.delays, strict=True)
        added = statistics.median(own - bare for own, bare in pairs)
        middle = statistics.median(row.delays)
        lines.append(f"| {row.name} | {middle * 1e3:.2f} | {added * 1e3:.2f} |")
    return "\n".join(lines)


def run(args: argparse.Namespace) -> str:
    """Start everything, ask each row in turn, and make the table."""
    with ExitStack() as stack:
        container = stack.enter_context(peers.token_container())
        direct = Row("direct, no proxy", container)
        path = "/endpoints/echo/invocations-response-stream"
        gateway = stack.enter_context(peers.gateway(container))
        rows = [
            direct,
            Row("HAProxy", stack.enter_context(peers.haproxy(container))),
            Row("nginx", stack.enter_context(peers.nginx(container))),
            Row("bare relay", stack.enter_context(peers.bare_relay(container))),
            Row("gateway", gateway, path, events=True),
        ]
        uvloop.run(_rounds(rows, args))
        return f"{_table(rows, direct)}\n\n{peers.python_build()}"


def main() -> int:
    parser = argparse.ArgumentParser("benchmarks.response_stream", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each row in a round")
    parser.add_argument("--repeat", type=int, default=5, help="rounds")
    parser.add_argument("--clients", type=int, default=4, help="connections")
    parser.add_argument("--apart", type=float, default=0.0, help="ms between their requests")
    parser.add_argument(
        "--pause", type=float, default=0.0, help="ms from an answer to the next request"
    )
    print(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
