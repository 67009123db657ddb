"""InvokeEndpoint beside HAProxy, nginx and a bare relay: the same requests and container.

``python -m benchmarks.invoke`` prints a table in markdown. It fails when a process does not run or
an answer is wrong, never for being slow. ``docs/discussion/benchmarks.md`` explains the table.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks import peers
from benchmarks.invoke_load import Asked, load
from benchmarks.peers import Peer
from benchmarks.process_meter import Meter

_PATH = "/endpoints/{}/invocations"
#: Endpoints of the large gateway, and the endpoints that are asked in turn, as one client may.
_MANY, _IN_TURN = 1000, 100
#: Different signed requests. With 16 connections, each sends every one of them once in 16 x as
#: many.
_SIGNED_IN_TURN = 511
_USER_AGENT = (
    "Boto3/1.44.5 md/Botocore#1.44.5 ua/2.1 os/linux#6.1 md/arch#x86_64 lang/python#3.11.7 "
    "md/pyimpl#CPython m/Z,b cfg/retry-mode#legacy Botocore/1.44.5"
)
_NOTHING: Mapping[str, str] = {}
_KEY, _SECRET = "AKIAIOSFODNN7EXAMPLE", "a-secret-of-the-benchmark"
_PRINCIPALS = f"""
[[principals]]
name = "load"
[[principals.keys]]
access_key_id = "{_KEY}"
secret_access_key = "{_SECRET}"
"""


@dataclass
class Row:
    """One way to the container, and the rounds' results for it."""

    name: str
    peer: Peer | None
    paths: tuple[str, ...] = (_PATH.format("echo"),)
    signed: bool = False
    rates: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)


def _requests(row: Row, body: bytes) -> list[bytes]:
    """Make a row's requests, to be sent in turn; each signed one is signed anew, as boto3 does."""
    if not row.signed:
        return [_request(row, path, body) for path in row.paths]
    (path,) = row.paths
    return [_request(row, path, body, _of_boto3()) for _ in range(_SIGNED_IN_TURN)]


def _of_boto3() -> dict[str, str]:
    """The headers that boto3 adds to InvokeEndpoint's; the invocation id is new each time."""
    return {
        "User-Agent": _USER_AGENT,
        "amz-sdk-invocation-id": str(uuid.uuid4()),
        "amz-sdk-request": "attempt=1",
    }


def _request(row: Row, path: str, body: bytes, more: Mapping[str, str] = _NOTHING) -> bytes:
    assert row.peer is not None, "it runs"
    url = f"http://{row.peer.address}{path}"
    request = AWSRequest("POST", url, {"Content-Type": "application/json", **more}, body)
    if row.signed:
        SigV4Auth(Credentials(_KEY, _SECRET), "sagemaker", "us-east-1").add_auth(request)
    headers = {"Host": row.peer.address, **dict(request.headers), "Content-Length": len(body)}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


async def _measure(row: Row, args: argparse.Namespace, rate: float | None) -> tuple[Asked, float]:
    """Put a load on a row; return the answers and the CPU seconds of a request."""
    assert row.peer is not None, "it runs"
    body = b"x" * args.size
    requests = _requests(row, body)
    await load(row.peer.address, requests, body, args.clients, 0.5, rate)
    meter = Meter(row.peer.pid)
    before = meter.cpu_seconds()
    asked = await load(row.peer.address, requests, body, args.clients, args.seconds, rate)
    return asked, (meter.cpu_seconds() - before) / len(asked.delays)


async def _rounds(rows: list[Row], args: argparse.Namespace) -> None:
    """Measure the rows in turns, so that a disturbance of the machine meets all of them."""
    running = [row for row in rows if row.peer is not None]
    for _ in range(args.repeat):
        for row in running:
            asked, cost = await _measure(row, args, None)
            row.rates.append(asked.rate)
            row.costs.append(cost)
    half = min(statistics.median(row.rates) for row in running) / 2
    for _ in range(args.repeat):
        for row in running:
            asked, _ = await _measure(row, args, half)
            row.delays.append(asked.percentile(0.99))


def _table(rows: list[Row], direct: Row, haproxy: Row) -> str:
    lines = [
        "| | requests/s | CPU µs a request | CPU × HAProxy | p99 at half load, ms | × direct |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row.peer is None:
            lines.append(f"| {row.name} | unmeasured | | | | |")
            continue
        cost = f"{statistics.median(row.costs) * 1e6:.0f}" if row is not direct else ""
        ratio = ""
        if haproxy.peer is not None and row is not direct:
            pairs = zip(row.costs, haproxy.costs, strict=True)
            ratio = f"{statistics.median(own / theirs for own, theirs in pairs):.1f}"
        pairs = zip(row.delays, direct.delays, strict=True)
        slower = statistics.median(own / theirs for own, theirs in pairs)
        lines.append(
            f"| {row.name} | {statistics.median(row.rates):.0f} | {cost} | {ratio} "
            f"| {statistics.median(row.delays) * 1e3:.2f} | {slower:.1f} |"
        )
    return "\n".join(lines)


@contextmanager
def _principals() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "principals.toml"
        file.write_text(_PRINCIPALS)
        file.chmod(0o600)
        yield file


def run(args: argparse.Namespace) -> str:
    """Start everything, put the load on each row in turn, and make the table."""
    with ExitStack() as stack:
        container = stack.enter_context(peers.invoke_container())
        bare = ("/invocations",)
        direct = Row("direct, no proxy", container, bare)
        haproxy = Row("HAProxy", stack.enter_context(peers.haproxy(container)), bare)
        names = [f"echo-{number}" for number in range(_MANY)]
        in_turn = tuple(map(_PATH.format, names[:: _MANY // _IN_TURN]))
        backends = Row(
            f"HAProxy, {_IN_TURN} of {_MANY:,} backends in turn",
            stack.enter_context(peers.haproxy(container, names)),
            in_turn,
        )
        nginx = Row("nginx", stack.enter_context(peers.nginx(container)), bare)
        relay = Row("bare relay", stack.enter_context(peers.bare_relay(container)), bare)
        plain = Row("gateway", stack.enter_context(peers.gateway(container)))
        further = [f"--endpoint={name}=http://{container.address}" for name in names]
        large = stack.enter_context(peers.gateway(container, *further))
        one = Row(f"gateway, one of {_MANY:,} endpoints", large)
        hundred = Row(f"gateway, {_IN_TURN} of {_MANY:,} in turn", large, in_turn)
        file = stack.enter_context(_principals())
        signing = peers.gateway(container, "--auth", "sigv4", "--principals", str(file))
        signed = Row("gateway, signed", stack.enter_context(signing), signed=True)
        rows = [direct, haproxy, backends, nginx, relay, plain, one, hundred, signed]
        uvloop.run(_rounds(rows, args))
        return f"{_table(rows, direct, haproxy)}\n\n{peers.python_build()}"


def main() -> int:
    parser = argparse.ArgumentParser("benchmarks.invoke", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument("--repeat", type=int, default=5, help="rounds")
    parser.add_argument("--clients", type=int, default=16, help="connections")
    parser.add_argument("--size", type=int, default=640, help="bytes of a body")
    print(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
