"""The benchmark of codecs: one relay with three codecs, beside HAProxy, in one run.

``python -m benchmarks.codecs`` prints a table. ``docs/discussion/frame-codec.md`` explains it.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack

from benchmarks import peers, rounds
from benchmarks.codec_relays import PATH, RELAYS
from benchmarks.rounds import websocket_row


def run(args: argparse.Namespace) -> str:
    with ExitStack() as stack:
        container = stack.enter_context(peers.echo_container())
        reference = websocket_row("HAProxy", stack.enter_context(peers.haproxy(container)), PATH)
        rows = [reference]
        for codec in RELAYS:
            relay = stack.enter_context(peers.codec_relay(codec, container))
            rows.append(websocket_row(codec, relay, PATH))
        rounds.measure_throughput(rows, args)
        return rounds.table(rows, reference)


if __name__ == "__main__":
    sys.exit(rounds.command("benchmarks.codecs", __doc__, run))
