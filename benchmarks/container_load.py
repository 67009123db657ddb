"""The container runtime under load, beside the same container on the websockets package.

``python -m benchmarks.container_load`` puts a thousand streams of fifty messages a second on one
process. The process has a core to itself, and the load has another. With ``--sigterm`` it ends the
runtime under that load instead. The exit status is not zero when a process did not run or a reply
was wrong, and never for being slow. ``docs/discussion/benchmarks.md`` explains the table.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.peers import Peer, Process, StartError, started, until_it_listens
from benchmarks.rounds import RunError

_RUNTIME = [
    *(
        sys.executable,
        "-m",
        "partway.container",
        "serve",
        "--model",
        "benchmarks.container_models:Echo",
    ),
    *("--host", "127.0.0.1", "--port", "0"),
]
_WEBSOCKETS = [sys.executable, "-m", "benchmarks.peer_websockets"]
_NAMES = ("runtime", "websockets")

#: The limit of /ping's 99th percentile in seconds, and the share of offered messages that must be
#: answered.
_PING_GOAL = 0.1
_ANSWERED_GOAL = 0.99

#: Seconds beside the load's own time: longer than the slowest opening, drain and closing.
_SLACK = 150.0
#: The platform kills 30 s after SIGTERM (clause 1.1-1); a minute shows how late it would be.
_EXIT_TIMEOUT = 60.0
#: Descriptors beside those of streams.
_SPARE_FILES = 200

_MILLI, _MICRO = 1e3, 1e6
_KIB, _MIB = 1024, 1024 * 1024

Found = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of the table.

    Attributes:
        name: the figure, with its unit.
        value: takes the figure from a load's result; None without one.
        ratio: whether the table compares the two containers by it.
    """

    name: str
    value: Callable[[Found], float | None]
    form: str = ",.0f"
    ratio: bool = False


def _at(key: str, index: int) -> Callable[[Found], float | None]:
    """Milliseconds at one place of a spread."""
    return lambda found: found[key][index] * _MILLI if found[key] else None


def _spread(name: str, key: str, *, ratio: bool = True) -> list[Line]:
    parts = ("median", "p99", "slowest")
    return [Line(f"{name}, {part}", _at(key, n), ",.1f", ratio) for n, part in enumerate(parts)]


_LINES = [
    Line("messages/s offered each way", lambda found: found["offered"]),
    Line("sent", lambda found: found["sent"]),
    Line("answered", lambda found: found["answered"]),
    Line("not answered within 30 s of the end", lambda found: found["unanswered"]),
    Line("under way at most", lambda found: found["outstanding"]),
    Line("CPU µs per message", lambda found: found["cpu_per_message"] * _MICRO, ".1f", ratio=True),
    Line("share of its core", lambda found: found["cpu_share"], ".0%"),
    *_spread("round trip, ms", "round_trip"),
    *_spread("/ping, fresh connection, ms", "ping_fresh"),
    *_spread("/ping, kept connection, ms", "ping_kept"),
    Line("/ping not answered 200", lambda found: found["failed_pings"]),
    Line("resident MiB before", lambda found: found["resident"][0] / _MIB, ".1f", ratio=True),
    Line("with all streams idle", lambda found: found["resident"][1] / _MIB, ".1f", ratio=True),
    Line("after the load", lambda found: found["resident"][2] / _MIB, ".1f", ratio=True),
    Line("KiB per idle stream", lambda found: found["idle_stream"] / _KIB, ".1f", ratio=True),
    Line("KiB per stream after the load", lambda found: found["used_stream"] / _KIB, ".1f", True),
    Line("the load's share of its core", lambda found: found["load_share"], ".0%"),
    *_spread("the load sent late by, ms", "late", ratio=False)[1:],
]


# --- Processes ------------------------------------------------------------------------------------


def cores() -> tuple[set[int], set[int]]:
    """Choose the container's core and the load's.

    Raises:
        StartError: this system has fewer than two cores to choose from, or does not pin.
    """
    ours = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(ours) < 2:
        raise StartError("the container and the load need a core each, and a system that pins them")
    return {ours[0]}, {ours[1]}


@contextmanager
def pinned(core: set[int]) -> Iterator[None]:
    """Pin all processes and threads that start in the block to one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def container(command: Sequence[str], core: set[int]) -> Iterator[tuple[Process, Peer]]:
    """Start a container on its core, and wait until it listens."""
    with ExitStack() as stack:
        with pinned(core):
            process = stack.enter_context(started(command))

        def said() -> str | None:
            found = re.search(r"listening on http://([\w.]+:\d+)", process.said())
            return found[1] if found else None

        yield process, until_it_listens(process, said)


def start_load(
    args: argparse.Namespace, peer: Peer, core: set[int], *options: str
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.container_client", peer.address]
    command += ["--measure", str(peer.pid), "--streams", str(args.streams)]
    command += ["--rate", str(args.rate), "--seconds", str(args.seconds), *options]
    with pinned(core):
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(load: subprocess.Popen[str], seconds: float) -> Found:
    """Wait for the result of a load.

    Raises:
        RunError: the load failed, or did not end in time.
    """
    try:
        output, errors = load.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        load.kill()
        load.communicate()
        raise RunError(f"the load did not end within {seconds} s") from None
    if load.returncode:
        raise RunError(errors[-2000:])
    found: Found = json.loads(output)
    return found


def allow_files(streams: int) -> None:
    """Raise the limit on open files, which children inherit.

    Raises:
        StartError: the hard limit is too low.
    """
    needed = streams + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise StartError(f"{streams} streams need {needed} open files, and ulimit -Hn says {hard}")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


# --- The load ------------------------------------------------------------------------------------


def compare(args: argparse.Namespace) -> str:
    """Put the load on each container in turn, round after round; return table and verdict."""
    container_core, load_core = cores()
    found: dict[str, list[Found]] = {name: [] for name in _NAMES}
    for _ in range(args.rounds):
        for name, command in zip(_NAMES, (_RUNTIME, _WEBSOCKETS), strict=True):
            # A process for each round: memory that one load leaves is no cost of the next.
            with container(command, container_core) as (_, peer):
                load = start_load(args, peer, load_core)
                found[name].append(result(load, args.seconds + _SLACK))
    return "\n".join([*table(found), "", *verdict(found[_NAMES[0]], args)])


def table(found: dict[str, list[Found]]) -> Iterator[str]:
    """The figures in markdown, lowest to highest of the rounds; ratios are medians of rounds."""
    ours, theirs = (found[name] for name in _NAMES)
    yield f"| | {' | '.join(_NAMES)} | ratio |"
    yield "|---|---:|---:|---:|"
    for line in _LINES:
        pairs = [(line.value(a), line.value(b)) for a, b in zip(ours, theirs, strict=True)]
        ratios = [a / b for a, b in pairs if line.ratio and a and b]
        ratio = f"{statistics.median(ratios):.2f}" if ratios else ""
        cells = [_range([pair[n] for pair in pairs], line.form) for n in range(len(_NAMES))]
        yield f"| {line.name} | {' | '.join(cells)} | {ratio} |"


def _range(values: Sequence[float | None], form: str) -> str:
    numbers = [value for value in values if value is not None]
    if not numbers:
        return "–"
    lowest, highest = format(min(numbers), form), format(max(numbers), form)
    return lowest if lowest == highest else f"{lowest} to {highest}"


def verdict(rounds: Sequence[Found], args: argparse.Namespace) -> Iterator[str]:
    """Say whether the runtime met the goals, round by round."""
    yield (
        f"Goal: {args.streams:,} streams × {args.rate:g} messages a second each way on one core, "
        f"all answered in order, /ping's p99 under {_PING_GOAL * _MILLI:.0f} ms."
    )
    for number, found in enumerate(rounds, 1):
        misses = list(_misses(found))
        yield f"Round {number}: {'MISSED: ' + '; '.join(misses) if misses else 'met.'}"


def _misses(found: Found) -> Iterator[str]:
    least = found["offered"] * _ANSWERED_GOAL
    if found["sent"] < least:
        yield f"the load itself sent only {found['sent']:,.0f}/s"
    elif found["answered"] < least:
        yield f"answered {found['answered']:,.0f}/s"
    if found["unanswered"]:
        yield f"{found['unanswered']:,} messages without an answer"
    if found["failed_pings"]:
        yield f"{found['failed_pings']} /ping not answered 200"
    for key, name in (("ping_fresh", "fresh"), ("ping_kept", "kept")):
        p99 = found[key][1]
        if p99 >= _PING_GOAL:
            yield f"/ping on a {name} connection: p99 {p99 * _MILLI:.0f} ms"


# --- SIGTERM -------------------------------------------------------------------------------------


def shut_down(args: argparse.Namespace) -> str:
    container_core, load_core = cores()
    with container(_RUNTIME, container_core) as (process, peer):
        load = start_load(args, peer, load_core, "--sigterm")
        deadline = time.monotonic() + _SLACK + _EXIT_TIMEOUT
        while process.running.poll() is None and not load.poll() and time.monotonic() < deadline:
            time.sleep(0.01)
        ended = time.monotonic()
        found = result(load, _EXIT_TIMEOUT)
        return "\n".join(_shutdown_report(found, process.running.poll(), ended))


def _shutdown_report(found: Found, status: int | None, ended: float) -> Iterator[str]:
    took = "still runs" if status is None else f"{ended - found['signalled']:.1f}"
    lines = {
        "seconds from SIGTERM to the exit": took,
        "exit status": str(status),
        "seconds until the last stream was over": f"{found['streams_over']:.1f}",
        "streams' ends, by code": _counts(found["codes"]),
        "/ping meanwhile, by status": _counts(found["pings"]),
        "upgrades meanwhile, by status": _counts(found["upgrades"]),
    }
    for name in ("before", "after"):
        counted = found[name]
        lines[f"messages sent {name} it"] = (
            f"{counted['sent']:,}: {counted['answered']:,} answered, {counted['closed']:,} on "
            f"streams that got Close 1001, {counted['lost']:,} otherwise"
        )
    yield "| SIGTERM under load | |"
    yield "|---|---|"
    for name, value in lines.items():
        yield f"| {name} | {value} |"


def _counts(counted: dict[str, int]) -> str:
    return ", ".join(f"{count:,} × {what}" for what, count in sorted(counted.items())) or "none"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.container_load")
    parser.add_argument("--streams", type=int, default=1000, help="open at once (1000)")
    parser.add_argument("--rate", type=float, default=50.0, help="messages/s on each (50)")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each load (30)")
    parser.add_argument("--rounds", type=int, default=3, help="over both containers (3)")
    parser.add_argument("--sigterm", action="store_true", help="end the runtime under the load")
    args = parser.parse_args()
    try:
        allow_files(args.streams)
        print(shut_down(args) if args.sigterm else compare(args))
    except (StartError, RunError) as error:
        print(f"benchmarks.container_load: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
