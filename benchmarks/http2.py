"""The gateway's HTTP/2 beside Envoy's tunnel and Hypercorn: the same load, in one run.

``python -m benchmarks.http2`` prints a table for each way to connect. It fails when a process does
not run or a reply is wrong, never for being slow. ``docs/discussion/benchmarks.md`` explains the
tables.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import peers, rounds
from benchmarks.envoy import envoy
from benchmarks.http2_wires import BYTES, CREDENTIALS, EVENTS, SIGNED, WEBSOCKET
from benchmarks.peers import Peer
from benchmarks.rounds import Row
from partway.gateway.tls.context import TlsFiles
from partway.gateway.tls.local_ca import LocalCa

_CONTAINER_PATH = "/invocations-bidirectional-stream"
_GATEWAY_PATH = "/endpoints/echo/invocations-bidirectional-stream"

_PRINCIPALS = f"""\
[[principals]]
name = "benchmarks"

[[principals.keys]]
access_key_id = "{CREDENTIALS.access_key_id}"
secret_access_key = "{CREDENTIALS.secret_access_key}"
"""


@dataclass(frozen=True, slots=True)
class _Servers:
    """The servers of one scheme; Hypercorn serves in clear only."""

    scheme: str
    envoy: Peer | None
    unsigned: Peer
    signed: Peer
    hypercorn: Peer | None

    def rows(self, *options: str) -> list[Row]:
        """Make the rows for one way to connect. Envoy is the first, and the others' reference."""
        rows = [
            self._row("Envoy", self.envoy, _CONTAINER_PATH, WEBSOCKET, options),
            self._row("gateway, unsigned", self.unsigned, _GATEWAY_PATH, EVENTS, options),
            self._row("gateway, signed", self.signed, _GATEWAY_PATH, SIGNED, options),
        ]
        if self.scheme == "http":
            rows.append(self._row("Hypercorn", self.hypercorn, "/", BYTES, options))
        return rows

    def _row(
        self, name: str, peer: Peer | None, path: str, wire: str, options: Sequence[str]
    ) -> Row:
        url = f"{self.scheme}://{peer.address}{path}" if peer is not None else ""
        return Row(name, peer, ["benchmarks.http2_load", url, "--wire", wire, *options])


def run(args: argparse.Namespace) -> str:
    """Start everything, put the load on each row in turn, and make the tables."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = LocalCa(folder / "ca").ensure(["127.0.0.1"], datetime.now(UTC))
        container = stack.enter_context(peers.echo_container())
        clear = _start(stack, folder, container, None)
        tls = _start(stack, folder, container, files)
        tables = {
            "In clear, all streams on one connection": clear.rows("--connections", "1"),
            "In clear, a connection for each stream": clear.rows(),
            "TLS, all streams on one connection": tls.rows(
                "--connections", "1", "--ca", str(files.ca)
            ),
        }
        rounds.measure_throughput([row for rows in tables.values() for row in rows], args)
        return "\n\n".join(
            f"{name}:\n\n{rounds.table(rows, rows[0])}" for name, rows in tables.items()
        )


def _start(stack: ExitStack, folder: Path, container: Peer, tls: TlsFiles | None) -> _Servers:
    principals = folder / "principals.toml"
    principals.write_text(_PRINCIPALS)
    principals.chmod(0o600)
    auth = ("--auth", "sigv4", "--principals", str(principals))
    return _Servers(
        "http" if tls is None else "https",
        stack.enter_context(envoy(container, tls)),
        stack.enter_context(peers.gateway(container, tls=tls)),
        stack.enter_context(peers.gateway(container, *auth, tls=tls)),
        stack.enter_context(peers.hypercorn()) if tls is None else None,
    )


if __name__ == "__main__":
    sys.exit(rounds.command("benchmarks.http2", __doc__, run))
