"""The cost of an idle gateway, with one endpoint and with very many.

``python -m benchmarks.idle_fleet`` prints a table in markdown. It fails when a process does not
run, never for being slow. ``docs/discussion/benchmarks.md`` explains the table.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import peers
from benchmarks.peers import Peer, StartError
from benchmarks.process_meter import Meter

#: Seconds after a start until each instance is pinged once in each interval.
_SETTLING = 12.0

_MIB = 1024 * 1024
_CONTAINER = Path(__file__).with_name("idle_container.py")
_HEADS = (
    "endpoints",
    "containers",
    "start, s",
    "MiB",
    "CPU, % of a core",
    "CPU µs an endpoint and second",
)


def _settings(endpoints: int, source: str) -> str:
    """The file of a gateway with this many endpoints, less the one that each row has."""
    return "\n".join(f"[endpoints.idle-{each}]\n{source}\n" for each in range(1, endpoints))


def _measured(
    endpoints: int, container: Peer, seconds: float, *, are_processes: bool = False
) -> list[str]:
    source = f'url = "http://{container.address}"'
    if are_processes:
        source = f"command = {shlex.join([sys.executable, '-S', '-E', str(_CONTAINER)])!r}"
    kind = "processes" if are_processes else "attached"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "gateway.toml"
        file.write_text(_settings(endpoints, source))
        began = time.monotonic()
        with peers.gateway(container, "--config", str(file)) as gateway:
            started = time.monotonic() - began
            time.sleep(_SETTLING)
            meter = Meter(gateway.pid)
            before = meter.cpu_seconds()
            time.sleep(seconds)
            share = (meter.cpu_seconds() - before) / seconds
            held = meter.peak() / _MIB
    each = share / endpoints * 1e6
    cells = (f"{started:.1f}", f"{held:.0f}", f"{share * 100:.2f}", f"{each:.0f}")
    return [f"{endpoints:,}", kind, *cells]


def run(args: argparse.Namespace) -> str:
    """Start a gateway for each row, wait, and make the table."""
    with peers.invoke_container() as container:
        rows = [_measured(count, container, args.seconds) for count in args.endpoints]
        rows += [
            _measured(count, container, args.seconds, are_processes=True)
            for count in args.processes
        ]
    lines = [f"| {' | '.join(_HEADS)} |", "|---:|---" + "|---:" * (len(_HEADS) - 2) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def main() -> int:
    parser = argparse.ArgumentParser("benchmarks.idle_fleet", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each row (30)")
    parser.add_argument(
        "--endpoints", type=int, nargs="*", default=[1, 200, 1000], help="of a row (1 200 1000)"
    )
    parser.add_argument(
        "--processes", type=int, nargs="*", default=[200], help="endpoints of a row (200)"
    )
    try:
        print(run(parser.parse_args()))
    except StartError as error:
        print(f"benchmarks.idle_fleet: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
