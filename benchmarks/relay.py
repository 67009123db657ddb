"""The gateway beside its peers: the same load, the same container, in one run.

``python -m benchmarks.relay`` prints a table in markdown. It fails when a process does not run or a
reply is wrong, never for being slow. ``docs/discussion/benchmarks.md`` explains the table.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack

from benchmarks import peers, rounds
from benchmarks.load import MSGPACK, RAW
from benchmarks.rounds import websocket_row

_CONTAINER_PATH = "/invocations-bidirectional-stream"
_GATEWAY_PATH = "/endpoints/echo/invocations-bidirectional-stream"


def run(args: argparse.Namespace) -> str:
    """Start everything, put the load on each row in turn, and make the table."""
    with ExitStack() as stack:
        container = stack.enter_context(peers.echo_container())
        tunnel = stack.enter_context(peers.haproxy(container))
        # A process for each row: memory that one load leaves is no cost of the other.
        raw = stack.enter_context(peers.gateway(container))
        msgpack = stack.enter_context(peers.gateway(container))
        haproxy = websocket_row("HAProxy", tunnel, _CONTAINER_PATH)
        rows = [
            websocket_row("direct, no relay", container, _CONTAINER_PATH, measured=False),
            haproxy,
            websocket_row(f"gateway, `{RAW}`", raw, _GATEWAY_PATH),
            websocket_row(f"gateway, `{MSGPACK}`", msgpack, _GATEWAY_PATH, MSGPACK),
        ]
        rounds.measure_memory(rows, args.idle)
        rounds.measure_throughput(rows, args)
        return rounds.table(rows, haproxy)


if __name__ == "__main__":
    sys.exit(rounds.command("benchmarks.relay", __doc__, run, idle=True))
