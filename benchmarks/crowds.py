"""Crowds of connections from one address: their memory in the gateway, and others' access.

Each crowd has a gateway (``partway serve``) of its own. The crowd comes from 127.0.0.1, sends its
bytes, and waits. Meanwhile a client at 127.0.0.2 asks for ``/healthz``.
"""

from __future__ import annotations

import argparse
import http.client
import resource
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

from hyperframe.frame import ContinuationFrame, HeadersFrame, SettingsFrame

from benchmarks.peers import Peer, StartError, gateway
from benchmarks.process_meter import Meter
from tests.wire.floods import FRAME, PREFACE, raw

_START = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"
_GREETING = PREFACE + raw(SettingsFrame(0))
_BLOCK = raw(HeadersFrame(1, bytes(FRAME)), *[ContinuationFrame(1, bytes(FRAME))] * 2)
_PATIENCE = 10.0
_SETTLING = 0.5
_MIB = 1024 * 1024

#: A container that is never asked.
_NOBODY = Peer("127.0.0.1:9", 0)

#: The bytes of each connection of a crowd, in pieces.
CROWDS: Mapping[str, tuple[bytes, ...]] = MappingProxyType(
    {
        "nothing": (),
        "a whole request": (_START + b"\r\n",),
        "a head of 64 lines of 8 KiB": (_START, *[b"x: " + b"v" * 8180 + b"\r\n"] * 63),
        "a head that may still be finished": (_START, *[b"x: " + b"v" * 7700 + b"\r\n"] * 3),
        "HTTP/2": (_GREETING,),
        "HTTP/2, a block of 64 KiB": (_GREETING, _BLOCK, raw(ContinuationFrame(1, bytes(16_300)))),
    }
)


def join(address: tuple[str, int], pieces: tuple[bytes, ...]) -> socket.socket | None:
    """Open one connection of a crowd; None where the gateway has ended it meanwhile."""
    try:
        joined = socket.create_connection(address, timeout=_PATIENCE)
    except OSError:
        return None
    with suppress(OSError):
        for piece in pieces:
            joined.sendall(piece)
    return joined


def healthy(host: str, port: int) -> tuple[str, float]:
    """Ask for ``/healthz`` from another address; return status or error, and seconds."""
    began = time.monotonic()
    asking = http.client.HTTPConnection(
        host, port, timeout=_PATIENCE, source_address=("127.0.0.2", 0)
    )
    try:
        asking.request("GET", "/healthz")
        found = str(asking.getresponse().status)
    except OSError as error:
        found = type(error).__name__
    finally:
        asking.close()
    return found, time.monotonic() - began


def measure(peer: Peer, pieces: tuple[bytes, ...], count: int) -> tuple[int, str, float]:
    """Run one crowd; return growth of the gateway's peak in bytes, and slowest ``/healthz``."""
    host, _, port = peer.address.rpartition(":")
    meter = Meter(peer.pid)
    before = meter.forget_peak()
    crowd, found, slowest = [], "", 0.0
    for number in range(count):
        crowd.append(join((host, int(port)), pieces))
        if number % (count // 10) == count // 10 - 1:
            time.sleep(_SETTLING)  # the crowd stands: the cost of its arrival is not measured
            found, seconds = healthy(host, int(port))
            slowest = max(slowest, seconds)
            if found != "200":
                break
    growth = meter.peak() - before
    for each in crowd:
        if each is not None:
            each.close()
    return growth, found, slowest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowds", description=__doc__)
    parser.add_argument("--connections", type=int, default=5000, help="of each crowd (5,000)")
    parser.add_argument("--only", default="", help="crowds with this in their names")
    args = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print("| each says | peak memory + MiB | /healthz | slowest ms |\n|---|---:|---|---:|")
    try:
        for name in (name for name in CROWDS if args.only in name):
            with gateway(_NOBODY) as peer:
                growth, found, slowest = measure(peer, CROWDS[name], args.connections)
            cells = (name, f"{growth / _MIB:.0f}", found, f"{slowest * 1e3:.0f}")
            print(f"| {' | '.join(cells)} |", flush=True)
    except StartError as error:
        print(f"benchmarks.crowds: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
