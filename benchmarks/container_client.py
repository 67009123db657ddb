"""The load on a container: its messages, their cost, and the ends of its streams.

``python -m benchmarks.container_client ADDRESS`` is a process of its own. It prints one JSON object
with its counts, and the CPU and memory of the measured process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import numpy as np
import uvloop

from benchmarks.container_pings import Pings, spread
from benchmarks.container_streams import Load
from benchmarks.load import Meter

#: Seconds before the measured time, and before SIGTERM: caches and allocators warm up.
_WARM_UP = 2.0
#: Seconds for the replies to the last messages.
_DRAIN_TIMEOUT = 30.0
#: Seconds for all streams to end after SIGTERM.
_SHUTDOWN_TIMEOUT = 40.0

_GOING_AWAY = 1001


def timing(load: Load, first: int) -> dict[str, Any]:
    """Measure the messages from ``first`` on, as the load saw them."""
    sent = np.frombuffer(load.sent_at)[first : load.sent]
    received = np.frombuffer(load.received_at)[first : load.sent]
    due = load.began + (np.arange(first, load.sent) - load.streams_count) / load.per_second
    came = received > 0
    # The number of messages under way at each message sent.
    outstanding = np.arange(1, len(sent) + 1) - np.searchsorted(np.sort(received[came]), sent)
    return {
        "round_trip": spread(received[came] - sent[came]),
        "late": spread(sent - due),
        "outstanding": int(outstanding.max()),
        "unanswered": int(len(sent) - came.sum()),
    }


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    meter = Meter(args.measure)
    load = Load(args.address, args.streams, args.rate, _WARM_UP + args.seconds)
    await load.open(1)  # the first stream's imports are no cost of the others
    before = meter.resident_bytes()
    await load.open(args.streams - 1)
    idle = meter.resident_bytes()
    await load.run(until=_WARM_UP)
    async with asked(Pings(args.address), Pings(args.address, kept=True)) as pings:
        first, answers = load.sent, sum(stream.received for stream in load.streams)
        began, cpu, own_cpu = time.monotonic(), meter.cpu_seconds(), time.process_time()
        await load.run(until=_WARM_UP + args.seconds)
        seconds, cpu = time.monotonic() - began, meter.cpu_seconds() - cpu
        own_cpu = time.process_time() - own_cpu
        answers = sum(stream.received for stream in load.streams) - answers
    sent = load.sent - first
    whole = await load.answered(_DRAIN_TIMEOUT)
    after = meter.resident_bytes()
    found = timing(load, first)
    if whole:
        await load.close()
    return found | {
        "offered": load.per_second,
        "sent": sent / seconds,
        "answered": answers / seconds,
        "cpu_per_message": cpu / answers,
        "cpu_share": cpu / seconds,
        "load_share": own_cpu / seconds,
        "ping_fresh": pings[0].spread(),
        "ping_kept": pings[1].spread(),
        "failed_pings": sum(each.failed for each in pings),
        "resident": [before, idle, after],
        "idle_stream": (idle - before) / max(1, args.streams - 1),
        "used_stream": (after - before) / max(1, args.streams - 1),
    }


async def shut_down(args: argparse.Namespace) -> dict[str, Any]:
    """Send SIGTERM under load, and speak on each stream until the container's Close."""
    load = Load(args.address, args.streams, args.rate, _WARM_UP + _SHUTDOWN_TIMEOUT)
    await load.open(args.streams)
    await load.run(until=_WARM_UP)
    pings, upgrades = Pings(args.address), Pings(args.address, request=load.upgrade)
    load.ending = True
    signalled = time.monotonic()
    os.kill(args.measure, signal.SIGTERM)
    async with asked(pings, upgrades):
        talking = asyncio.create_task(load.run(until=_WARM_UP + _SHUTDOWN_TIMEOUT))
        closing = asyncio.create_task(load.closed(_SHUTDOWN_TIMEOUT))
        await asyncio.wait((talking, closing), return_when=asyncio.FIRST_COMPLETED)
        over = time.monotonic()
        talking.cancel()
        await asyncio.wait((talking, closing))
        closing.result()
    return ends(load, signalled) | {
        "signalled": signalled,
        "streams_over": over - signalled,
        "pings": pings.statuses(before=over),
        "upgrades": upgrades.statuses(before=over),
        "round_trip": timing(load, load.streams_count)["round_trip"],
    }


def ends(load: Load, signalled: float) -> dict[str, Any]:
    """Count the streams' ends, and the messages before and after the signal by their fate."""
    sent = np.frombuffer(load.sent_at)[: load.sent]
    received = np.frombuffer(load.received_at)[: load.sent]
    going_away = np.array([stream.code == _GOING_AWAY for stream in load.streams])
    told = np.resize(going_away, load.sent)  # by message: whether its stream got Close 1001
    found: dict[str, Any] = {}
    for name, chosen in {
        "before": (sent > 0) & (sent <= signalled),
        "after": sent > signalled,
    }.items():
        open_ones = chosen & (received == 0)
        found[name] = {
            "sent": int(chosen.sum()),
            "answered": int((chosen & (received > 0)).sum()),
            "closed": int((open_ones & told).sum()),
            "lost": int((open_ones & ~told).sum()),
        }
    codes = sorted(cast("int", stream.code) for stream in load.streams)
    found["codes"] = {str(code): len(list(same)) for code, same in itertools.groupby(codes)}
    return found


@asynccontextmanager
async def asked(*pings: Pings) -> AsyncIterator[Sequence[Pings]]:
    """Send requests beside the load until the block's end; the open ones are awaited."""
    async with asyncio.TaskGroup() as group:
        for each in pings:
            group.create_task(each.run())
        yield pings
        for each in pings:
            each.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.container_client")
    parser.add_argument("address", help="HOST:PORT of the container")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=50.0, help="messages a second, per stream")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--measure", type=int, required=True, help="id of the container's process")
    parser.add_argument("--sigterm", action="store_true", help="instead: end it under this load")
    args = parser.parse_args()
    gc.disable()  # its pauses would count as the container's
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(shut_down(args) if args.sigterm else measure(args))))


if __name__ == "__main__":
    main()
