"""Interleaved rounds of load over several rows, and the table of their results."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.load import RAW
from benchmarks.peers import Peer, StartError

UNMEASURED = "unmeasured"
_MICRO = 1e6

#: Seconds after which a load is ended: longer than any sensible one.
_LOAD_TIMEOUT = 600.0


class RunError(Exception):
    """A load did not come to its end, or a reply was wrong."""


@dataclass(slots=True)
class Row:
    """One line of the table.

    Attributes:
        peer: its process, or None where it is not installed.
        measured: whether the process is a relay whose CPU counts.
    """

    name: str
    peer: Peer | None
    load: Sequence[str]
    measured: bool = True
    rates: list[float] = field(default_factory=list)
    micros: list[float] = field(default_factory=list)
    kib_per_stream: float | None = None


def websocket_row(
    name: str, peer: Peer | None, path: str, subprotocol: str = RAW, *, measured: bool = True
) -> Row:
    url = f"ws://{peer.address}{path}" if peer is not None else ""
    return Row(name, peer, ["benchmarks.load", url, "--subprotocol", subprotocol], measured)


def load(row: Row, *options: str) -> dict[str, float]:
    """Put one load on a row.

    Raises:
        RunError: the load failed; the message says how.
    """
    assert row.peer is not None, "measured rows only"
    command = [sys.executable, "-m", *row.load, *options]
    if row.measured:
        command += ["--measure", str(row.peer.pid)]
    found: dict[str, float] = printed(row.name, command, _LOAD_TIMEOUT)
    return found


def printed(name: str, command: Sequence[str], timeout: float) -> Any:
    """Run a load to its end; return the JSON that it prints.

    Args:
        name: begins the errors.
        timeout: seconds.

    Raises:
        RunError: the load failed, or did not end in time.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise RunError(f"{name}: the load did not end within {timeout:g} s") from None
    if done.returncode:
        raise RunError(f"{name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def measure_memory(rows: Sequence[Row], streams: int) -> None:
    """Measure the memory of idle streams, before any load that would leave free memory."""
    for row in rows:
        if row.peer is not None and row.measured:
            held = load(row, "--idle", str(streams))
            row.kib_per_stream = held["bytes_per_stream"] / 1024


def command(
    module: str,
    description: str | None,
    run: Callable[[argparse.Namespace], str],
    idle: bool = False,
) -> int:
    """Run a comparison and print its table; return the process's exit status.

    Args:
        module: as it is called with ``python -m``.
        idle: whether it measures the memory of idle streams.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    add_options(parser)
    if idle:
        parser.add_argument("--idle", type=int, default=500, help="idle streams for memory (500)")
    try:
        print(run(parser.parse_args()))
    except (StartError, RunError) as error:
        print(f"{module}: {error}", file=sys.stderr)
        return 1
    return 0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load (5)")
    parser.add_argument("--repeat", type=int, default=5, help="rounds over all rows (5)")
    parser.add_argument("--streams", type=int, default=20, help="open at once (20)")
    parser.add_argument("--in-flight", type=int, default=8, help="messages, per stream (8)")
    parser.add_argument("--size", type=int, default=640, help="bytes of a payload, from 8 on (640)")


def measure_throughput(rows: Sequence[Row], args: argparse.Namespace) -> None:
    """Put one load on each row in each round, so that a disturbance meets all rows."""
    names = ("seconds", "streams", "in_flight", "size")
    options = [f"--{name.replace('_', '-')}={getattr(args, name)}" for name in names]
    for _ in range(args.repeat):
        for row in rows:
            if row.peer is None:
                continue
            found = load(row, *options)
            row.rates.append(found["round_trips"] / found["seconds"])
            row.micros.append(found["cpu_seconds"] / found["round_trips"] * _MICRO)


def table(rows: Sequence[Row], reference: Row) -> str:
    """The rows in markdown; ratios are the median of those taken within each round."""
    heads = ["", "round trips/s", "CPU µs per round trip", "lowest to highest"]
    heads += [f"CPU × {reference.name}", "KiB per idle stream"]
    cells = [[row.name, *_cells(row, reference)] for row in rows]
    if all(row.kib_per_stream is None for row in rows):  # no run of this command measures it
        heads, cells = heads[:-1], [line[:-1] for line in cells]
    lines = [f"| {' | '.join(heads)} |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    lines += [f"| {' | '.join(line)} |" for line in cells]
    return "\n".join(lines)


def _cells(row: Row, reference: Row) -> list[str]:
    if row.peer is None:
        return [UNMEASURED] * 5
    rate = f"{statistics.median(row.rates):,.0f}"
    if not row.measured:
        return [rate, "–", "–", "–", "–"]
    ratios = [
        a / b for a, b in zip(row.micros, reference.micros, strict=reference.peer is not None)
    ]
    return [
        rate,
        f"{statistics.median(row.micros):.1f}",
        f"{min(row.micros):.1f} to {max(row.micros):.1f}",
        f"{statistics.median(ratios):.2f}" if ratios else UNMEASURED,
        "–" if row.kib_per_stream is None else f"{row.kib_per_stream:.1f}",
    ]
