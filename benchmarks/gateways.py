"""Three gateways in a Kubernetes cluster beside one: the same load on each, CPU for each message.

``python -m benchmarks.gateways`` prints a table in markdown. It fails when a process does not run
or a reply is wrong, never for being slow. The gateways are pods that discover the same three pods,
and count each other. For the row of one gateway, each has the load alone in turn, and the others
are idle. It needs root, and a control plane that ``make kubernetes`` has built.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.load import RAW, LoadError, Stream, exchange_one, open_streams
from benchmarks.process_meter import Meter
from partway.gateway.client.request import request_for
from tests.interop.kubernetes.cluster import Cluster, programs
from tests.interop.kubernetes.control_plane import DEFAULT_TIMES
from tests.interop.kubernetes.gateways import (
    CREDENTIALS,
    NODES,
    Gateway,
    several_gateways,
)

_SIZE = 640

#: Seconds before the measured time.
_WARM_UP = 0.5

#: Seconds in which the last replies come.
_REST = 10.0


@dataclass(slots=True)
class Measured:
    """One load.

    Attributes:
        messages: that were sent and echoed.
        cpu: seconds of the gateways that had the load.
    """

    messages: int
    seconds: float
    cpu: float

    @property
    def micros(self) -> float:
        return self.cpu / self.messages * 1e6


@dataclass(slots=True)
class Rounds:
    """All loads: of each round, those of each gateway alone, and that of all at once."""

    alone: list[list[Measured]] = field(default_factory=list)
    together: list[Measured] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """CPU for a message with all gateways, as a multiple of the mean of each alone."""
        return [
            together.micros / statistics.mean(each.micros for each in alone)
            for alone, together in zip(self.alone, self.together, strict=True)
        ]


async def measure(
    gateways: Sequence[Gateway], *, rounds: int, seconds: float, rate: float, streams: int
) -> Rounds:
    """Put the same load on each gateway alone and on all at once, again and again.

    Args:
        rate: messages a second of each gateway.
        streams: of each gateway.

    Raises:
        LoadError: a reply is missing or wrong.
    """
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    opened = [await _open(each, streams, failed) for each in gateways]
    meters = [[Meter(pid) for pid in each.processes()] for each in gateways]
    found = Rounds()
    everyone = range(len(gateways))
    orders = [[each] for each in everyone] + [[*everyone]]
    for number in range(rounds):
        alone, together = [], []
        for loaded in orders[:: -1 if number % 2 else 1]:  # none has the same neighbour always
            here = [opened[each] for each in loaded]
            cost = [meter for each in loaded for meter in meters[each]]
            measured = await _load(here, cost, seconds, rate, failed)
            (alone if len(loaded) == 1 else together).append(measured)
        found.alone.append(alone)
        found.together += together
    for each in [stream for some in opened for stream in some]:
        each.end()
    return found


async def _open(gateway: Gateway, count: int, failed: asyncio.Future[None]) -> list[Stream]:
    key = {"credentials": CREDENTIALS, "region": "us-east-1", "token": None, "ca": None}
    request = request_for(gateway.url, "chat", {}, **key)
    streams = []
    for _ in range(count):  # each signature opens one
        target, headers = request.upgrade(time.time())
        url = f"ws://{request.authority}{target}"
        streams += await open_streams(url, 1, _SIZE, RAW, failed, headers)
    await exchange_one(streams, failed)
    return streams


async def _load(
    streams: Sequence[Sequence[Stream]],
    meters: Sequence[Meter],
    seconds: float,
    rate: float,
    failed: asyncio.Future[None],
) -> Measured:
    await _send(streams, _WARM_UP, rate, failed)
    before, begun = sum(each.cpu_seconds() for each in meters), time.monotonic()
    messages = await _send(streams, seconds, rate, failed)
    spent = sum(each.cpu_seconds() for each in meters) - before
    return Measured(messages, time.monotonic() - begun, spent)


async def _send(
    streams: Sequence[Sequence[Stream]],
    seconds: float,
    rate: float,
    failed: asyncio.Future[None],
) -> int:
    """Send at even distances, the gateways in turn; return once all is echoed.

    Returns:
        how many messages there were.
    """
    everything = [each for some in streams for each in some]
    had = sum(each.received for each in everything)
    total = round(seconds * rate) * len(streams)
    begun = time.monotonic()
    for number in range(total):
        due = begun + number / (rate * len(streams))
        if (early := due - time.monotonic()) > 0:
            await asyncio.sleep(early)
        turn, gateway = divmod(number, len(streams))
        streams[gateway][turn % len(streams[gateway])].send()
    deadline = time.monotonic() + _REST
    while sum(each.received for each in everything) < had + total:
        if failed.done():
            failed.result()
        if time.monotonic() > deadline:
            raise LoadError(f"a reply has not come within {_REST:g} s")
        await asyncio.sleep(0.005)
    return total


def table(rounds: Rounds) -> str:
    """Make the table; the ratios are those within each round."""
    alone = [each for some in rounds.alone for each in some]
    ratios = rounds.ratios
    times = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    rows = [("one gateway", alone, "1"), ("three, each with as much", rounds.together, times)]
    lines = ["| | messages/s | CPU µs a message | CPU × one gateway |", "|---|---:|---:|---:|"]
    for name, loads, ratio in rows:
        speed = statistics.median(each.messages / each.seconds for each in loads)
        micros = statistics.median(each.micros for each in loads)
        lines.append(f"| {name} | {speed:,.0f} | {micros:.1f} | {ratio} |")
    return "\n".join(lines)


def run(args: argparse.Namespace) -> str:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(
            Cluster.start(programs(), folder / "logs", nodes=NODES, times=DEFAULT_TIMES)
        )
        scene = stack.enter_context(several_gateways(cluster, "models", folder))
        scene.serve("chat", "echo")
        measuring = measure(
            scene.gateways,
            rounds=args.repeat,
            seconds=args.seconds,
            rate=args.rate,
            streams=args.streams,
        )
        return table(asyncio.run(measuring))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateways", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load (3)")
    parser.add_argument("--repeat", type=int, default=7, help="rounds over all loads (7)")
    parser.add_argument("--streams", type=int, default=12, help="of each gateway (12)")
    parser.add_argument("--rate", type=float, default=300, help="messages/s of each (300)")
    try:
        print(run(parser.parse_args()))
    except (RuntimeError, LoadError, TimeoutError) as error:
        print(f"benchmarks.gateways: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
