"""Attacks by unauthenticated clients, or by a trick that is in no single frame.

Each attack has a gateway that asks for signatures (``partway serve --auth sigv4``), an attacker and
a neighbour. The attacker is a process of its own. The neighbour is a stream whose parts go to and
fro on its own connection all the time. The measures are the longest time of a part, the gateway's
CPU time in it, and the share of a core that the gateway spent. The CPU time counts because the
machine may be busy with other things. ``python -m benchmarks.floods`` runs the attacks.
"""

from __future__ import annotations

import argparse
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import psutil
from hyperframe.frame import WindowUpdateFrame

from benchmarks.http2_wires import CREDENTIALS, REGION
from benchmarks.peers import Peer, gateway
from benchmarks.process_meter import Meter
from tests.wire.floods import INITIAL_WINDOW, LARGEST_WINDOW, Attacker, raw

_STREAM = "/endpoints/echo/invocations-bidirectional-stream"
_TOKEN = "a-token-of-the-benchmarks"
_PRINCIPALS = """\
[[principals]]
name = "benchmarks"
tokens = ["{token}"]
[[principals.keys]]
access_key_id = "{key}"
secret_access_key = "{secret}"
"""

#: An upgrade's head beside its path; the key is RFC 6455's own.
_UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Authorization: Bearer {token}\r\n\r\n"
)
_CHUNK = b"1\r\nx\r\n"
_NO_LINGER = struct.pack("ii", 1, 0)
_NO_MASK = bytes(4)
_EMPTY = b"\x82\x80" + _NO_MASK
_PART = bytes(640)
_PARTS_FRAME = b"\x82\xfe" + len(_PART).to_bytes(2, "big") + _NO_MASK + _PART
_ECHO_BYTES = 4 + len(_PART)

_SOCKETS = 128
_BACKLOG = 64 * 1024
#: Seconds to settle, before an attack and after it.
_SETTLING = 0.5
#: Seconds between two parts of the neighbour's.
_PAUSE = 0.005
_PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Suffered:
    """The result of one attack.

    Attributes:
        asked: how often the attacker asked, or how many sockets it had.
        slowest: the neighbour's slowest part, in seconds.
        behind: the gateway's most CPU time during one of the neighbour's parts.
        share: of a core, the gateway's, until the attack's last bytes were worked off.
    """

    asked: int
    slowest: float
    behind: float
    share: float


class Neighbour:
    """A stream whose parts come back, on a thread of its own."""

    def __init__(self, address: str, meter: Meter) -> None:
        self.slowest = self.behind = 0.0
        self._meter = meter
        self._socket = upgraded(address)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._chat, daemon=True)
        self._thread.start()

    def forget(self) -> None:
        """Measure the slowest part anew from here on."""
        self.slowest = self.behind = 0.0

    def leave(self) -> None:
        """End after the part that is under way."""
        self._over.set()
        self._thread.join(_PATIENCE)
        self._socket.close()

    def _chat(self) -> None:
        while not self._over.wait(_PAUSE):
            began, cpu = time.monotonic(), self._meter.cpu_seconds()
            self._socket.sendall(_PARTS_FRAME)
            received(self._socket, _ECHO_BYTES)
            self.behind = max(self.behind, self._meter.cpu_seconds() - cpu)
            self.slowest = max(self.slowest, time.monotonic() - began)


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    made = socket.create_connection((host, int(port)), _PATIENCE)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def upgraded(address: str) -> socket.socket:
    made = connected(address)
    made.sendall(_UPGRADE.format(path=_STREAM, token=_TOKEN).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += received(made, 1)
    if not head.startswith(b"HTTP/1.1 101"):
        raise ConnectionError(f"no stream was granted: {head[:200]!r}")
    return made


def received(made: socket.socket, size: int) -> bytes:
    """Receive exactly ``size`` bytes.

    Raises:
        ConnectionError: the gateway closed before.
    """
    data = made.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise ConnectionError("the gateway closed the connection")
    return data


# --- Attacks --------------------------------------------------------------------------------------


def frames(address: str, seconds: float) -> int:
    """Open streams with a backlog of empty frames."""
    opened = _with_backlog(address)
    time.sleep(seconds)
    return len(opened)


def frames_and_resets(address: str, _: float) -> int:
    """Open streams with a backlog of empty frames, and reset all of them at once."""
    opened = _with_backlog(address)
    _reset(opened)
    return len(opened)


def _with_backlog(address: str) -> list[socket.socket]:
    opened = [upgraded(address) for _ in range(_SOCKETS)]
    time.sleep(_SETTLING)
    for made in opened:
        made.sendall(_EMPTY * (_BACKLOG // len(_EMPTY)))
    return opened


def _reset(opened: list[socket.socket]) -> None:
    for made in opened:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        made.close()


def chunks_and_resets(address: str, _: float) -> int:
    """Send bodies of one-byte chunks over HTTP/1.1, and reset the connections."""
    head = f"POST {_STREAM} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    opened = [connected(address) for _ in range(_SOCKETS)]
    for made in opened:
        made.setblocking(False)
        with suppress(BlockingIOError):
            made.send(head + _CHUNK * (_BACKLOG // len(_CHUNK)))
    _reset(opened)
    return len(opened)


def _wrongly_signed() -> tuple[str, list[tuple[str, str]]]:
    """Make a path with a hundred parameters, and headers with a wrong signature."""
    query = "&".join(f"a{number}=%C3%A9" for number in range(100))
    now = datetime.now(UTC)
    scope = f"{now:%Y%m%d}/{REGION}/sagemaker/aws4_request"
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={CREDENTIALS.access_key_id}/{scope}, "
        f"SignedHeaders=host;x-amz-date, Signature={'0' * 64}"
    )
    headers = [("authorization", authorization), ("x-amz-date", f"{now:%Y%m%dT%H%M%SZ}")]
    return f"{_STREAM}?{query}", headers


def _over_http2(made: socket.socket, until: float, most: int = 10**9) -> int:
    """Send wrongly signed requests of 17 bytes, as fast as they go; return how many were sent."""
    attacker = Attacker(_STREAM)
    path, headers = _wrongly_signed()
    made.sendall(attacker.opening({INITIAL_WINDOW: LARGEST_WINDOW}))
    made.sendall(raw(WindowUpdateFrame(0, 2**30)))
    threading.Thread(target=_drain, args=(made,), daemon=True).start()
    asked = 0
    with suppress(OSError):
        while time.monotonic() < until and asked < most:
            made.sendall(attacker.request("GET", path, *headers))
            asked += 1
            if asked % 8 == 0:
                time.sleep(0.004)  # within the requests that a connection may send: 1,000 a second
    return asked


def _drain(made: socket.socket) -> None:
    with suppress(OSError):
        while made.recv(65_536):
            pass


def one_http2_connection(address: str, seconds: float) -> int:
    """Send refused requests on one connection, and on the next one when that takes no more."""
    until = time.monotonic() + seconds
    asked = 0
    while time.monotonic() < until:
        with connected(address) as made:
            asked += _over_http2(made, until)
    return asked


def many_http2_connections(address: str, seconds: float) -> int:
    """The same on sixteen connections at a time."""
    return _at_a_time(16, lambda: one_http2_connection(address, seconds))


def _at_a_time(count: int, attack: Callable[[], int]) -> int:
    asked: list[int] = []
    threads = [threading.Thread(target=lambda: asked.append(attack())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(asked)


def _http1_request(headers: list[tuple[str, str]], path: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "host: a", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode()


def _answer(made: socket.socket) -> bool:
    """Read a whole answer; return whether the connection goes on."""
    head = b""
    while b"\r\n\r\n" not in head:
        data = made.recv(65_536)
        if not data:
            return False
        head += data
    return b"connection: close" not in head.lower()


def http1_kept(address: str, seconds: float) -> int:
    """The same requests over HTTP/1.1, on connections that are kept for as long as possible."""
    return _at_a_time(16, lambda: _over_http1(address, seconds, keep=True))


def http1_anew(address: str, seconds: float) -> int:
    """The same, each on a connection of its own."""
    return _at_a_time(16, lambda: _over_http1(address, seconds, keep=False))


def _over_http1(address: str, seconds: float, *, keep: bool) -> int:
    path, headers = _wrongly_signed()
    request = _http1_request(headers, path)
    until = time.monotonic() + seconds
    asked = 0
    while time.monotonic() < until:
        with suppress(OSError), connected(address) as made:
            goes_on = True
            while goes_on and time.monotonic() < until:
                made.sendall(request)
                asked += 1
                goes_on = _answer(made) and keep
    return asked


#: Every attack by its name.
ATTACKS: Mapping[str, Callable[[str, float], int]] = MappingProxyType(
    {
        "empty frames": frames,
        "empty frames, RST": frames_and_resets,
        "tiny chunks, RST": chunks_and_resets,
        "refusals, HTTP/2": one_http2_connection,
        "refusals, 16 of HTTP/2": many_http2_connections,
        "refusals, HTTP/1.1 kept": http1_kept,
        "refusals, HTTP/1.1 anew": http1_anew,
    }
)


HEADS = """\
| attack | asked | neighbour: slowest ms | of it the gateway's CPU, ms | share of a core |
|---|---:|---:|---:|---:|"""


class AttackError(Exception):
    pass


def measure(name: str, container: Peer, seconds: float = 5.0) -> Suffered:
    """Run one attack, with processes of its own.

    Raises:
        AttackError: the attacker failed, and says why.
    """
    with tempfile.TemporaryDirectory() as folder:
        principals = Path(folder) / "principals.toml"
        principals.touch(0o600)
        key, secret = CREDENTIALS.access_key_id, CREDENTIALS.secret_access_key
        principals.write_text(_PRINCIPALS.format(token=_TOKEN, key=key, secret=secret))
        options = ["--auth", "sigv4", "--principals", str(principals), "--region", REGION]
        with gateway(container, *options) as peer:
            meter = Meter(peer.pid)
            neighbour = Neighbour(peer.address, meter)
            time.sleep(_SETTLING)
            neighbour.forget()
            cpu, began = meter.cpu_seconds(), time.monotonic()
            command = [sys.executable, "-m", "benchmarks.strangers", name, peer.address]
            done = subprocess.run(
                [*command, str(seconds)], capture_output=True, text=True, timeout=60, check=False
            )
            time.sleep(_SETTLING)
            share = (meter.cpu_seconds() - cpu) / (time.monotonic() - began)
            neighbour.leave()
            psutil.Process(peer.pid).kill()  # the gateway has nothing to finish
    if done.returncode:
        raise AttackError(f"{name}: {done.stderr[-2000:]}")
    return Suffered(int(done.stdout), neighbour.slowest, neighbour.behind, share)


def row(name: str, found: Suffered) -> str:
    cells = [name, f"{found.asked:,}", f"{found.slowest * 1e3:.0f}", f"{found.behind * 1e3:.0f}"]
    return f"| {' | '.join([*cells, f'{found.share:.2f}'])} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strangers", description=__doc__)
    parser.add_argument("attack", choices=ATTACKS)
    parser.add_argument("address")
    parser.add_argument("seconds", type=float)
    args = parser.parse_args()
    print(ATTACKS[args.attack](args.address, args.seconds))


if __name__ == "__main__":
    main()
