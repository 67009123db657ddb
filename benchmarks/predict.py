"""predict beside KServe's own server and FastAPI, rawPredict beside predict and a direct call.

``python -m benchmarks.predict`` prints two tables in markdown. ``--peers`` is an interpreter that
has the peers; without it their rows say ``unmeasured``. It fails when a process does not run or an
answer is wrong, never for being slow. ``docs/discussion/benchmarks.md`` explains the tables.
"""

from __future__ import annotations

import argparse
import random
import socket
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import uvloop

from benchmarks import peers
from benchmarks.peers import Peer
from benchmarks.predict_load import load

_HERE = Path(__file__).parent
_OF_ENDPOINT = "/v1/projects/any/locations/here/endpoints/echo:"
_OF_MODEL = "/v1/models/sums:predict"
_PEERS = ("KServe", "FastAPI")


@dataclass
class Row:
    """One way to ask, and the rounds' results for it."""

    name: str
    processes: Sequence[Peer] | None
    path: str
    delays: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)


def _request(row: Row, body: bytes) -> bytes:
    assert row.processes, "it runs"
    lines = (
        f"POST {row.path} HTTP/1.1",
        f"Host: {row.processes[0].address}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


async def _rounds(
    rows: Sequence[Row], body: bytes, answer: bytes, args: argparse.Namespace
) -> None:
    """Measure the rows in turns, so that a disturbance of the machine meets all of them."""
    for _ in range(args.repeat):
        for row in rows:
            if row.processes is None:
                continue
            pids = [each.pid for each in row.processes]
            found = await load(
                *(row.processes[0].address, _request(row, body), answer, pids),
                *(args.clients, args.seconds),
            )
            row.delays.append(statistics.median(found.delays))
            row.costs.append(found.cpu)


def _table(rows: Sequence[Row], beside: Row) -> str:
    lines = [
        f"| | p50, ms | × {beside.name} | CPU ms a request | × {beside.name} |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        if row.processes is None:
            lines.append(f"| {row.name} | unmeasured | | | |")
            continue
        cells = [row.name]
        for own, theirs in ((row.delays, beside.delays), (row.costs, beside.costs)):
            ratio = "–"
            if theirs:
                pairs = zip(own, theirs, strict=True)
                ratio = f"{statistics.median(one / other for one, other in pairs):.2f}"
            cells += [f"{statistics.median(own) * 1e3:.2f}", ratio]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


@contextmanager
def _peer(python: str, module: str) -> Iterator[Peer | None]:
    """Start a peer's server; None where there is no interpreter that has it."""
    if not python:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    address = f"127.0.0.1:{port}"

    def look() -> str | None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return None
        return address

    with peers.started([python, str(_HERE / f"{module}.py"), str(port)]) as process:
        yield peers.until_it_listens(process, look)


def _raw(args: argparse.Namespace) -> str:
    """Measure the gateway's delay of a small body, by either operation."""
    body = orjson.dumps({"instances": [[1.5] * 28] * 4, "predictions": [0.25, 0.5, 0.75, 1.0]})
    with ExitStack() as stack:
        container = stack.enter_context(peers.invoke_container())
        gateway = stack.enter_context(peers.gateway(container))
        direct = Row("direct", (container,), "/invocations")
        raw = Row("rawPredict", (gateway,), f"{_OF_ENDPOINT}rawPredict")
        predict = Row("predict", (gateway,), f"{_OF_ENDPOINT}predict")
        rows = (direct, raw, predict)
        uvloop.run(_rounds(rows, body, b'"predictions":[0.25,0.5,0.75,1.0]', args))
        return f"{_table(rows, direct)}\n\n{_table((raw, predict), raw)}"


def _instances(args: argparse.Namespace) -> str:
    """Measure many instances: servers with the same model in them."""
    numbers = random.Random(1)
    instances = [[numbers.uniform(-5, 5) for _ in range(28)] for _ in range(1000)]
    body = orjson.dumps({"instances": instances})
    answer = orjson.dumps([sum(each) for each in instances])
    with ExitStack() as stack:
        container = stack.enter_context(peers.predict_container())
        gateway = stack.enter_context(
            peers.gateway(container, f"--endpoint=sums=http://{container.address}")
        )
        theirs = [
            stack.enter_context(_peer(args.peers, f"predict_{name.lower()}")) for name in _PEERS
        ]
        kserve, fastapi = (
            Row(name, None if peer is None else (peer,), _OF_MODEL)
            for name, peer in zip(_PEERS, theirs, strict=True)
        )
        alone = Row("runtime, no gateway", (container,), "/invocations")
        both = Row("gateway and runtime", (gateway, container), _OF_MODEL)
        share = Row("of that, the gateway", (gateway,), _OF_MODEL)
        rows = (kserve, fastapi, alone, both, share)
        uvloop.run(_rounds(rows, body, answer, args))
        return _table(rows, kserve)


def run(args: argparse.Namespace) -> str:
    """Start everything, put the load on each row in turn, and make the tables."""
    return f"{_raw(args)}\n\n{_instances(args)}"


def main() -> int:
    parser = argparse.ArgumentParser("benchmarks.predict", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load")
    parser.add_argument("--repeat", type=int, default=5, help="rounds")
    parser.add_argument("--clients", type=int, default=1, help="connections")
    parser.add_argument("--peers", default="", help="a Python with kserve and fastapi")
    print(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
