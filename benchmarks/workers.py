"""A gateway with two workers beside one process: the same load, the same container, in one run.

``python -m benchmarks.workers`` prints tables in markdown. It fails when a process does not run or
a reply is wrong, never for being slow. ``docs/discussion/benchmarks.md`` explains the tables.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks import peers, rounds
from benchmarks.load import RAW, Counts, LoadError, exchange_one, open_streams
from benchmarks.peers import Peer, StartError
from benchmarks.process_meter import Meter
from benchmarks.rounds import RunError

_PATH = "/endpoints/echo/invocations-bidirectional-stream"
_LOAD_TIMEOUT = 120.0
_PATIENCE = 20.0
_MIB = 1024 * 1024


@dataclass(slots=True)
class _Row:
    """One gateway.

    Attributes:
        part: the part of the load that it has.
        paced: the loads at a rate, one a round.
        closed: the loads that send for each reply, one a round.
    """

    name: str
    peer: Peer
    part: float = 1.0
    paced: list[Counts] = field(default_factory=list)
    closed: list[Counts] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"ws://{self.peer.address}{_PATH}"

    def measure(self, seconds: float, streams: int, rate: float) -> None:
        """Put both loads on it."""
        options = [f"--seconds={seconds}", f"--streams={round(streams * self.part)}"]
        self.paced.append(self._load(*options, f"--rate={rate * self.part}"))
        self.closed.append(self._load(*options, "--in-flight=8"))

    def _load(self, *options: str) -> Counts:
        command = [sys.executable, "-m", "benchmarks.load", self.url, *options]
        command += ["--measure", str(self.peer.pid)]
        counts: Counts = rounds.printed(self.name, command, _LOAD_TIMEOUT)
        return counts


def run(args: argparse.Namespace) -> str:
    """Start everything, put the loads on each row in turn, and make the tables."""
    with ExitStack() as stack:
        container = stack.enter_context(peers.echo_container())
        one = _Row("one process", stack.enter_context(peers.gateway(container)))
        two = _Row("two workers", stack.enter_context(peers.gateway(container, "--workers=2")))
        rows = [one, _Row("one process, half the load", one.peer, 0.5), two]
        if args.beside is not None:
            other = stack.enter_context(peers.gateway(container, root=args.beside.resolve()))
            rows.insert(0, _Row("one process of the other checkout", other))
        spread = _spread(two.peer, args.streams, args.spreads)
        for number in range(args.repeat):
            for row in rows[:: -1 if number % 2 else 1]:  # none has the same neighbour always
                row.measure(args.seconds, args.streams, args.rate)
        memory = [f"{each / _MIB:.1f}" for each in asyncio.run(_memory(two, args.streams))]
    parts = [_table(rows, one)]
    if spread:
        parts.append(_spread_line(spread, args.streams))
    parts.append(f"A worker that has served streams takes {' and '.join(memory)} MiB (PSS).")
    return "\n\n".join(parts)


# --- Processes -----------------------------------------------------------------------------------


def _connections(peer: Peer) -> dict[int, int]:
    """Count the open connections of clients with each process of a gateway that has one."""
    port = int(peer.address.rpartition(":")[2])
    parent = psutil.Process(peer.pid)
    counts = {
        each.pid: sum(
            found.status == psutil.CONN_ESTABLISHED and found.laddr.port == port
            for found in each.net_connections("tcp")
        )
        for each in [parent, *parent.children(recursive=True)]
    }
    return {pid: count for pid, count in counts.items() if count}


def _until(peer: Peer, connections: int) -> dict[int, int]:
    """Wait until a gateway has so many connections with clients; return as _connections."""
    deadline = time.monotonic() + _PATIENCE
    while sum((found := _connections(peer)).values()) != connections:
        if time.monotonic() > deadline:
            raise RunError(f"the gateway has {found}, not {connections} connections")
        time.sleep(0.02)
    return found


async def _memory(row: _Row, streams: int) -> list[int]:
    """Return the bytes of each worker's memory while these streams are open."""
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    opened = await open_streams(row.url, streams, 640, RAW, failed)
    await exchange_one(opened, failed)
    held = [Meter(pid).proportional() for pid in _connections(row.peer)]
    for each in opened:
        each.end()
    return held


def _spread(peer: Peer, connections: int, spreads: int) -> list[float]:
    """Open connections and close them, again and again.

    Returns:
        the busiest worker's share of each such crowd.
    """
    host, _, port = peer.address.rpartition(":")
    shares = []
    for _ in range(spreads):
        with ExitStack() as stack:
            _until(peer, 0)
            for _ in range(connections):
                stack.enter_context(socket.create_connection((host, int(port))))
            shares.append(max(_until(peer, connections).values()) / connections)
    return shares


# --- Tables --------------------------------------------------------------------------------------


def _micros(loads: Sequence[Counts]) -> list[float]:
    return [each["cpu_seconds"] / each["round_trips"] * 1e6 for each in loads]


def _rate(loads: Sequence[Counts]) -> str:
    return f"{statistics.median(each['round_trips'] / each['seconds'] for each in loads):,.0f}"


def _times(loads: Sequence[Counts], reference: Sequence[Counts]) -> str:
    """Return the median of the ratios within each round, and the lowest and the highest."""
    ratios = [a / b for a, b in zip(_micros(loads), _micros(reference), strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _busiest(loads: Sequence[Counts]) -> str:
    """Return the busiest process's share of the CPU, and the highest of all rounds."""
    shares = [max(each["cpu_seconds_each"]) / each["cpu_seconds"] for each in loads]
    return f"{statistics.median(shares):.0%} ({max(shares):.0%})"


def _table(rows: Sequence[_Row], reference: _Row) -> str:
    heads = ["", "messages/s", "CPU µs a message", f"CPU × {reference.name}", "busiest process"]
    heads += ["round trips/s", "CPU µs", f"CPU × {reference.name}"]
    lines = [f"| {' | '.join(heads)} |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for row in rows:
        cells = [
            *(row.name, _rate(row.paced), f"{statistics.median(_micros(row.paced)):.1f}"),
            *(_times(row.paced, reference.paced), _busiest(row.paced), _rate(row.closed)),
            f"{statistics.median(_micros(row.closed)):.1f}",
            _times(row.closed, reference.closed),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _spread_line(shares: list[float], connections: int) -> str:
    over = sum(each > 0.65 for each in shares)
    return (
        f"Of {connections} connections the busier worker has {statistics.median(shares):.0%} in "
        f"the median, {max(shares):.0%} at most, and over 65% in {over} of {len(shares)} crowds."
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workers", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load (5)")
    parser.add_argument("--repeat", type=int, default=7, help="rounds over all rows (7)")
    parser.add_argument("--streams", type=int, default=40, help="a connection each (40)")
    parser.add_argument("--rate", type=float, default=2000, help="messages a second (2,000)")
    parser.add_argument("--spreads", type=int, default=200, help="crowds of connections (200)")
    parser.add_argument("--beside", type=Path, help="a checkout whose gateway is measured too")
    try:
        print(run(parser.parse_args()))
    except (StartError, RunError, LoadError) as error:
        print(f"benchmarks.workers: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
