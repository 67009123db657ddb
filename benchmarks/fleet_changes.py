"""A fleet that changes under load: 3 → 1 → 3 instances, then a new version of all.

``python -m benchmarks.fleet_changes`` holds streams open and sends requests at even rates
meanwhile, one run for each rate. It prints a table in markdown, and fails when a stream was cut or
a request failed. ``docs/discussion/benchmarks.md`` explains the table.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from benchmarks import peers
from benchmarks.invoke_load import Asked, Client
from benchmarks.load import RAW, LoadError, Stream, exchange_one, open_streams
from benchmarks.peers import Peer, StartError

_CLIENTS = 32
_BODY = b"x" * 640
_CHANGE_TIMEOUT = 120.0

#: Seconds after each change, in which requests go on.
_PAUSE = 3.0
_INSTANCES = re.compile(r'partway_instances\{endpoint="changed",state="(\w+)",[^}]*\} ([0-9.]+)')
_TABLE = '[endpoints.changed]\nimage = "echo"\ninstances = {}\nenvironment = {{ VERSION = "{}" }}\n'

#: Instances and version of each change, and the instances that are in service and drain at its end.
#: Streams that began before the first change keep their instances draining.
_CHANGES = ((1, 1, 1, 2), (3, 1, 3, 2), (3, 2, 3, 3))


@dataclass
class Requests:
    """Requests at an even rate, from one moment to another.

    Attributes:
        asked: the requests that were answered correctly.
        failures: wrong results, and how often each came.
    """

    address: str
    rate: float
    asked: Asked = field(default_factory=Asked)
    failures: Counter[str] = field(default_factory=Counter)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def go_on(self) -> None:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as clients:
            for number in range(_CLIENTS):
                clients.create_task(self._ask(began + number / self.rate))
        self.asked.seconds = time.perf_counter() - began

    async def _ask(self, due: float) -> None:
        client = await self._connected()
        while not self.over.is_set():
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            try:
                await client.ask()
                self.asked.delays.append(time.perf_counter() - due)  # a late client's delay counts
            except (AssertionError, OSError) as error:
                self.failures[str(error)] += 1
                client.close()
                client = await self._connected()
            due += _CLIENTS / self.rate
        client.close()

    async def _connected(self) -> Client:
        head = (
            "POST /endpoints/changed/invocations HTTP/1.1\r\n"
            f"Host: {self.address}\r\nContent-Length: {len(_BODY)}\r\n\r\n"
        )
        host, _, port = self.address.rpartition(":")
        _, client = await asyncio.get_running_loop().create_connection(
            lambda: Client(head.encode() + _BODY, _BODY), host, int(port)
        )
        return client


def _counts(gateway: Peer) -> dict[str, int]:
    connection = http.client.HTTPConnection(gateway.address, timeout=10)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return {state: int(float(number)) for state, number in _INSTANCES.findall(text)}


async def _until(gateway: Peer, in_service: int, draining: int) -> None:
    """Wait for the numbers of instances in service and draining, with no other starting.

    Raises:
        StartError: the wait takes too long.
    """
    wanted = {"Pending": 0, "Starting": 0, "InService": in_service, "Draining": draining}
    deadline = time.monotonic() + _CHANGE_TIMEOUT
    while (found := await asyncio.to_thread(_counts, gateway)).items() & wanted.items() != (
        wanted.items()
    ):
        if time.monotonic() > deadline:
            raise StartError(f"the change did not come to its end: {found}, not {wanted}")
        await asyncio.sleep(0.2)


async def _change(
    gateway: Peer, file: Path, streams: Sequence[Stream], failed: asyncio.Future[None]
) -> None:
    """Make each change, and exchange a message on every stream after it."""
    for instances, version, in_service, draining in _CHANGES:
        file.write_text(_TABLE.format(instances, version))  # noqa: ASYNC240 (a line of a file)
        os.kill(gateway.pid, signal.SIGHUP)
        await _until(gateway, in_service, draining)
        await exchange_one(streams, failed)
        await asyncio.sleep(_PAUSE)


async def _run(gateway: Peer, file: Path, count: int, rate: float) -> list[str]:
    """Do one run, and make its row of the table.

    Raises:
        LoadError: a stream was cut.
    """
    await _until(gateway, 3, 0)
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    url = f"ws://{gateway.address}/endpoints/changed/invocations-bidirectional-stream"
    streams = await open_streams(url, count, 640, RAW, failed)
    requests = Requests(gateway.address, rate)
    asking = asyncio.create_task(requests.go_on())
    try:
        await exchange_one(streams, failed)
        await _change(gateway, file, streams, failed)
    finally:
        requests.over.set()
        await asking
        for stream in streams:
            stream.end()
    for why, times in requests.failures.most_common(3):
        print(f"{rate:g}/s: {times} × {why}", file=sys.stderr)
    asked = requests.asked
    delays = (f"{asked.percentile(share) * 1e3:.0f}" for share in (0.5, 0.99, 1.0))
    failures = f"{requests.failures.total():,}"
    return [f"{rate:g}", f"{asked.rate:.0f}", f"{len(asked.delays):,}", failures, *delays]


def run(args: argparse.Namespace) -> tuple[str, bool]:
    """Start a gateway for each rate; return the table, and whether each request was answered."""
    rows = []
    for rate in args.rates:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "gateway.toml"
            file.write_text(_TABLE.format(3, 1))
            with (
                peers.invoke_container() as container,
                peers.gateway(container, "--config", str(file)) as gateway,
            ):
                rows.append(uvloop.run(_run(gateway, file, args.streams, rate)))
    heads = ("asked/s", "reached/s", "answered", "failed", "median, ms", "p99, ms", "longest, ms")
    lines = [f"| {' | '.join(heads)} |", "|---:" * len(heads) + "|"]
    table = "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
    return table, all(row[3] == "0" for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser("benchmarks.fleet_changes", description=__doc__)
    parser.add_argument("--streams", type=int, default=200, help="open all the time (200)")
    parser.add_argument(
        "--rates", type=float, nargs="+", default=[100, 250, 500], help="requests/s (100 250 500)"
    )
    try:
        table, is_whole = run(parser.parse_args())
    except (StartError, LoadError) as error:
        print(f"benchmarks.fleet_changes: {error}", file=sys.stderr)
        return 1
    print(table)
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
