"""The delay of a reply's first part, beside the time of one step of the engine."""

from __future__ import annotations

import http.client
import json
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchmarks import peers
from benchmarks.peers import Peer
from benchmarks.rounds import RunError
from benchmarks.text_replies import held, prompts, spread
from benchmarks.text_ways import (
    CONTAINER_PATH,
    GATEWAY_PATH,
    THROUGH_ALL,
    THROUGH_RUNTIME,
    Load,
    Setup,
    client,
    container,
)

_MODEL = "benchmarks.text_stamps:StampedText"
_MILLI = 1e3


@dataclass(frozen=True, slots=True)
class Delays:
    """First parts for one number of streams; seconds, as median and 99th percentile.

    Attributes:
        path: the way of the client's streams.
        written: from the token's delivery by the engine until its part had been written.
        arrived: from the delivery until the client on the same machine had the part.
        step: the median time between two steps of the engine meanwhile.
    """

    streams: int
    path: str
    written: tuple[float, float]
    arrived: tuple[float, float]
    step: float


def measure(setup: Setup, streams: Sequence[int], rounds: int) -> list[Delays]:
    """Measure first parts, on streams to the runtime and through the gateway."""
    with ExitStack() as stack:
        runtime = stack.enter_context(container(_MODEL, setup))
        gateway = stack.enter_context(peers.gateway(runtime))
        loads = {
            THROUGH_RUNTIME: client(runtime, CONTAINER_PATH),
            THROUGH_ALL: client(gateway, GATEWAY_PATH),
        }
        return [
            _delays(runtime, path, load, count, setup, rounds)
            for count in streams
            for path, load in loads.items()
        ]


def _delays(
    runtime: Peer, path: str, load: Load, streams: int, setup: Setup, rounds: int
) -> Delays:
    load(streams, setup.warm_up_tokens)
    _stamps(runtime)
    written, arrived, steps = [], [], []
    for _ in range(rounds):
        replies = load(streams, setup.tokens)
        stamps = _stamps(runtime)
        for prompt, reply in zip(prompts(streams), replies, strict=True):
            first = stamps["first"][prompt]
            written.append(stamps["left"][prompt] - first)
            arrived.append(reply.at[0] - first)
        times = [at for at, _ in stamps["steps"]]
        steps += [after - before for before, after in pairwise(times)]
    return Delays(streams, path, spread(written), spread(arrived), statistics.median(steps))


def _stamps(runtime: Peer) -> dict[str, Any]:
    connection = http.client.HTTPConnection(runtime.address, timeout=10)
    try:
        connection.request("POST", "/invocations", b"")
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise RunError(f"the stamps: {answer.status} {body[:200]!r}")
    found: dict[str, Any] = json.loads(body)
    return found


def table(delays: Sequence[Delays]) -> Iterator[str]:
    """The figures in markdown, and whether each row meets the goal."""
    yield (
        "| streams | through | written, ms, median | p99 | at the client, ms, median | p99 | "
        "a step, ms | p99 at the client within a step |"
    )
    yield "|---:|---|" + "---:|" * 5 + "---|"
    for each in delays:
        times = (*each.written, *each.arrived, each.step)
        cells = [f"{value * _MILLI:.1f}" for value in times]
        within = held(each.arrived[1] <= each.step)
        yield f"| {each.streams} | {each.path} | {' | '.join(cells)} | {within} |"
