"""The model ``chat`` and the OpenAI path beside LiteLLM's proxy, before an engine of a fixed pace.

``python -m benchmarks.chat`` prints tables in markdown: the delay that each way adds to first
tokens, the time until an engine learns of an interruption, and the memory of a crowd of streams. It
fails when a process does not run or a reply is not whole, never for being slow.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from benchmarks import chat_peers, peers
from benchmarks.chat_peers import CHAT_PATH, STREAM_PATH, asked
from benchmarks.peers import Peer, StartError
from benchmarks.process_meter import Meter
from benchmarks.rounds import UNMEASURED, RunError
from benchmarks.text_replies import spread

#: Seconds that a load may take beyond its own.
_LATE = 60.0
#: Seconds in which an engine has noticed all interruptions.
_NOTICING = 2.0
_MILLI = 1e3
#: Turns are numbered through all loads of a run, and no load has as many.
_TURNS_PER_LOAD = 1_000_000


@dataclass
class Row:
    """One way to the engine; seconds.

    Attributes:
        added: to each first token.
        cancelled: from each interruption until the engine noticed it.
        missed: interruptions that the engine had not noticed by the load's end.
    """

    name: str
    url: str | None
    added: list[float] = field(default_factory=list)
    cancelled: list[float] = field(default_factory=list)
    missed: int = 0


def _load(url: str, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.chat_client", url, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _result(load: subprocess.Popen[str], name: str, seconds: float) -> dict[str, Any]:
    try:
        output, errors = load.communicate(timeout=seconds + _LATE)
    except subprocess.TimeoutExpired:
        load.kill()
        raise RunError(f"{name}: the load did not end in time") from None
    if load.returncode:
        raise RunError(f"{name}: {errors[-2000:]}")
    found: dict[str, Any] = json.loads(output)
    return found


def _rounds(rows: Sequence[Row], engine: Peer, args: argparse.Namespace) -> None:
    """Measure the rows in turns, so that a disturbance of the machine meets all of them."""
    firsts = itertools.count(1, _TURNS_PER_LOAD)
    options = [f"--users={args.users}", f"--seconds={args.seconds}", f"--tokens={args.tokens}"]
    for _ in range(args.repeat):
        for row in rows:
            if row.url is None:
                continue
            load = _load(row.url, *options, f"--first={next(firsts)}")
            seen = _result(load, row.name, args.seconds)
            row.added += seen["added"]
            noticed = _noticed(engine, seen["interrupted"].keys())
            interrupted = seen["interrupted"].items()
            row.cancelled += [noticed[turn] - at for turn, at in interrupted if turn in noticed]
            row.missed += len(seen["interrupted"].keys() - noticed.keys())


def _noticed(engine: Peer, numbers: AbstractSet[str]) -> dict[str, float]:
    """Return when the engine noticed each interruption; the last ones may take a while."""
    until = time.monotonic() + _NOTICING
    while True:
        noticed: dict[str, float] = json.loads(asked(engine.address, "/cancelled")[1])["cancelled"]
        if numbers <= noticed.keys() or time.monotonic() > until:
            return noticed
        time.sleep(0.1)


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield (
        "| | replies | added to the first token, ms, median | p99 | "
        "engine told, ms, median | p99 | slowest | not told |"
    )
    yield "|---" + "|---:" * 7 + "|"
    for row in rows:
        if row.url is None:
            yield f"| {row.name} |" + f" {UNMEASURED} |" * 7
            continue
        told = [*spread(row.cancelled), max(row.cancelled)] if row.cancelled else []
        cells = [f"{seconds * _MILLI:.1f}" for seconds in (*spread(row.added), *told)]
        cells += ["–"] * (5 - len(cells))
        yield f"| {row.name} | {len(row.added)} | {' | '.join(cells)} | {row.missed} |"


def _crowd(args: argparse.Namespace) -> Iterator[str]:
    """Hold many conversations at a slow pace; yield the memory of gateway and container."""
    with ExitStack() as stack:
        engine = stack.enter_context(chat_peers.engine(10, 500.0))
        container = stack.enter_context(chat_peers.container(engine))
        gateway = stack.enter_context(peers.gateway(container))
        meters = [Meter(gateway.pid), Meter(container.pid)]
        options = [f"--users={args.crowd}", f"--seconds={args.crowd_seconds}", "--pause=5"]
        before = [meter.resident() for meter in meters]
        load = _load(f"ws://{gateway.address}{STREAM_PATH}", *options)
        yield f"| seconds | gateway, KiB per stream of {args.crowd} | container |"
        yield "|---:|---:|---:|"
        for part in range(1, 5):
            with suppress(subprocess.TimeoutExpired):
                load.wait(args.crowd_seconds / 4)
            now = [meter.resident() for meter in meters]
            each = [
                (end - begin) / args.crowd / 1024 for begin, end in zip(before, now, strict=True)
            ]
            yield f"| {part * args.crowd_seconds / 4:.0f} | {each[0]:.1f} | {each[1]:.1f} |"
        seen = _result(load, "crowd", args.crowd_seconds)
        yield f"\n{len(seen['added']):,} replies were begun."


def run(args: argparse.Namespace) -> Iterator[str]:
    """Start everything, load each way in turn, and make the tables."""
    with ExitStack() as stack:
        engine = stack.enter_context(chat_peers.engine(args.tokens, args.pace))
        container = stack.enter_context(chat_peers.container(engine))
        gateway = stack.enter_context(peers.gateway(container))
        bare = stack.enter_context(peers.gateway(engine))
        proxy = stack.enter_context(chat_peers.litellm(args.litellm, engine))
        path = "/v1/chat/completions"
        direct = Row("the engine itself", f"http://{engine.address}{path}")
        rows = [
            direct,
            Row("streams, gateway and `chat`", f"ws://{gateway.address}{STREAM_PATH}"),
            Row("requests, gateway and `chat`", f"http://{gateway.address}{CHAT_PATH}"),
            Row("requests, gateway alone", f"http://{bare.address}{CHAT_PATH}"),
            Row("requests, LiteLLM's proxy", f"http://{proxy.address}{path}" if proxy else None),
        ]
        _rounds(rows, engine, args)
        yield from _table(rows)
    if args.crowd:
        yield ""
        yield from _crowd(args)


def main() -> int:
    parser = argparse.ArgumentParser("benchmarks.chat", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load (10)")
    parser.add_argument("--repeat", type=int, default=3, help="rounds (3)")
    parser.add_argument("--users", type=int, default=100, help="at the same time (100)")
    parser.add_argument("--tokens", type=int, default=20, help="of each reply (20)")
    parser.add_argument("--pace", type=float, default=25.0, help="ms between two tokens (25)")
    parser.add_argument("--crowd", type=int, default=1000, help="streams for memory (1,000)")
    parser.add_argument("--crowd-seconds", type=float, default=60.0, help="of the crowd (60)")
    parser.add_argument("--litellm", metavar="PYTHON", help="an interpreter with litellm[proxy]")
    try:
        for line in run(parser.parse_args()):
            print(line, flush=True)
    except (StartError, RunError) as error:
        print(f"benchmarks.chat: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
