"""Floods at the gateway: the cost of the attacker's bytes, and the delay of other clients.

The floods of HTTP/2 frames come first. The attacks of :mod:`benchmarks.strangers` follow, which
take many connections, or requests that are refused.

Each flood has a gateway (``partway serve``) and an attacker, each a process of its own. The
attacker's connection has a good stream too, and another good stream has its own connection. Parts
go to and fro on both all the time. "ordinary" is no flood: the same parts, eight at a time, as fast
as they come back. The others are compared with its cost of a byte.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass

import psutil
import uvloop
from hyperframe.frame import DataFrame, PingFrame, SettingsFrame, WindowUpdateFrame

from benchmarks import strangers
from benchmarks.peers import Peer, StartError, echo_container, gateway
from benchmarks.process_meter import Meter
from tests.event_factory import part
from tests.wire.floods import FLOODS, INITIAL_WINDOW, Attacker, Flood, raw

ORDINARY = "ordinary"
_PATH = "/endpoints/echo/invocations-bidirectional-stream"
_EVENT = part(bytes(640))
_PART = raw(DataFrame(1, _EVENT))
_IN_FLIGHT = 8

#: Seconds between two parts of a good stream.
_PAUSE = 0.01
#: Seconds for the answers to the bytes before a flood.
_SETTLING = 0.2
_PATIENCE = 20.0
#: Seconds between pieces that must not share a segment, and bytes of TCP and IP in front of each.
_PACE = 0.0002
_SEGMENT = 40
_WINDOW = 65_535

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK = _END_STREAM = 0x1

_HEADS = [
    "flood", "bytes", "CPU µs per byte", "× ordinary", "peak memory + MiB",
    "good stream: slowest ms", "other connection: slowest ms", "the client sees",
]  # fmt: skip


class FloodError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one flood.

    Attributes:
        sent: bytes of the attacker's.
        cpu_seconds: of the gateway's.
        growth: of its peak of resident bytes.
        slowest: round trip of the good stream, seconds; 0 if it could not speak.
        other: of the stream on a connection of its own.
        sees: the gateway's answer on the attacker's connection.
        ends: how the two streams ended.
    """

    sent: int
    cpu_seconds: float
    growth: int
    slowest: float
    other: float
    sees: str
    ends: tuple[str, str]


class Client:
    """A connection with one stream, whose parts come back."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.attacker = Attacker(_PATH)
        self.sent = self.echoed = self._due = 0
        self.slowest = 0.0
        self.sees = "nothing"
        self.over = False
        self.end = ""
        #: Bytes that the gateway takes on each stream, beside the initial window.
        self.credit: dict[int, int] = {}
        self._reader, self._writer = reader, writer
        self._answered = False
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, address: str, window: int = _WINDOW) -> Client:
        """Connect, and open the good stream, whose windows are large."""
        host, _, port = address.rpartition(":")
        sock = socket.create_connection((host, int(port)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = cls(*await asyncio.open_connection(sock=sock))
        client.send(client.attacker.opening({INITIAL_WINDOW: window}) + client.attacker.post())
        client.send(raw(*(WindowUpdateFrame(stream_id, 2**30) for stream_id in (0, 1))))
        await client.until(lambda: client._answered)
        return client

    def send(self, data: bytes) -> None:
        if not self.over:
            self.sent += len(data)
            self._writer.write(data)

    async def flush(self) -> None:
        with suppress(ConnectionError):
            await self._writer.drain()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds, which the gateway's frames may change.

        Raises:
            FloodError: the connection ended first, or the condition never held.
        """
        try:
            async with asyncio.timeout(_PATIENCE):
                while not condition():
                    if self.over:
                        raise FloodError(f"the connection ended: {self.sees}")
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise FloodError("waited in vain") from None

    async def round_trips(self, count: int = 1) -> None:
        """Send ``count`` parts at once, and wait until all are back."""
        self._due += count * len(_EVENT)
        began, due = time.monotonic(), self._due
        self.send(_PART * count)
        await self.until(lambda: self.echoed >= due)
        self.slowest = max(self.slowest, time.monotonic() - began)

    async def chat(self, count: int = 1, pause: float = _PAUSE) -> None:
        """Make round trips until the connection or the task ends."""
        with suppress(FloodError):
            while True:
                await self.round_trips(count)
                await asyncio.sleep(pause)

    async def leave(self) -> str:
        """End the good stream; return how it has ended."""
        self.send(raw(DataFrame(1, flags=["END_STREAM"])))
        with suppress(FloodError):
            await self.until(lambda: self.end)
        self._writer.transport.abort()
        await asyncio.wait([self._reading])
        return self.end or "lost"

    async def _read(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(9)
                body = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                self._frame(head[3], head[4], int.from_bytes(head[5:], "big"), body)
                self._news.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.over = True
            self._news.set()

    def _frame(self, kind: int, flags: int, stream_id: int, body: bytes) -> None:
        if kind == _DATA and stream_id == 1:
            self.echoed += len(body)
            self.end = self.end or ("END_STREAM" if flags & _END_STREAM else "")
        elif kind == _HEADERS and stream_id == 1:
            self._answered = True
        elif kind == _RST_STREAM and stream_id == 1:
            self.end = self.end or "RST_STREAM"
        elif kind == _SETTINGS and not flags & _ACK:
            self.send(raw(SettingsFrame(0, flags=["ACK"])))
        elif kind == _PING and not flags & _ACK:
            self.send(raw(PingFrame(0, body, flags=["ACK"])))
        elif kind == _GOAWAY:
            self.sees = f"GOAWAY({int.from_bytes(body[4:8], 'big')})"
        elif kind == _RST_STREAM and stream_id == self.attacker.last_id:
            self.sees = f"RST_STREAM({int.from_bytes(body, 'big')})"
        elif kind == _WINDOW_UPDATE:
            more = int.from_bytes(body, "big")
            self.credit[stream_id] = self.credit.get(stream_id, 0) + more


async def attack(name: str, address: str, pid: int, frames: int, seconds: float) -> Found:
    """Run one flood, for ``seconds`` at most, beside the parts of good streams."""
    flood = FLOODS.get(name)
    bad = await Client.open(address, flood.window if flood else _WINDOW)
    other = await Client.open(address)
    chats = [asyncio.create_task(other.chat())]
    if flood and flood.before:
        bad.send(flood.before(bad.attacker))
        await asyncio.sleep(_SETTLING)
    await bad.round_trips()
    meter = Meter(pid)
    before, cpu, sent = meter.forget_peak(), meter.cpu_seconds(), bad.sent
    bad.slowest = other.slowest = 0.0
    if flood is None:
        chats.append(asyncio.create_task(bad.chat(_IN_FLIGHT, 0)))
        await asyncio.sleep(seconds)
    else:
        if not flood.mute:
            chats.append(asyncio.create_task(bad.chat()))
        segments = await _send(flood, bad, frames, seconds)
        sent -= segments * _SEGMENT
    with suppress(FloodError):
        await bad.round_trips()  # the gateway answers behind the whole flood
    cpu = meter.cpu_seconds() - cpu
    for chat in chats:
        chat.cancel()
    await asyncio.wait(chats)
    # The CPU of good streams' parts during the sleep is negligible beside a flood's.
    return Found(
        bad.sent - sent,
        cpu,
        max(0, meter.peak() - before),
        0.0 if flood and flood.mute else bad.slowest,
        other.slowest,
        bad.sees if not bad.over else f"{bad.sees}, the end",
        (await bad.leave(), await other.leave()),
    )


async def _send(flood: Flood, bad: Client, frames: int, seconds: float) -> int:
    """Send a flood; return its number of segments, if that matters."""
    deadline, spent, segments = time.monotonic() + seconds, 0, 0
    if flood.paced:  # its cost is the segment's, whatever their number
        frames, deadline = frames // 10, deadline + _PATIENCE
    for piece in flood.pieces(bad.attacker, frames):
        bad.send(piece)
        spent += len(piece)
        await bad.flush()
        if flood.paced:
            segments += 1
            time.sleep(_PACE)  # noqa: ASYNC251 (the loop's own is coarser)
        await asyncio.sleep(0)
        while flood.spends and not bad.over and time.monotonic() < deadline:
            if bad.credit.get(bad.attacker.last_id, 0) + _WINDOW - spent > len(piece):
                break
            await asyncio.sleep(_PAUSE / 10)
        if bad.over or time.monotonic() > deadline:
            break
    return segments


def measure(name: str, container: Peer, frames: int, seconds: float) -> Found:
    """Run one flood, with processes of its own.

    Raises:
        FloodError: the attacker failed, and says why.
    """
    with gateway(container) as peer:
        command = [sys.executable, "-m", "benchmarks.floods", "--attack", name]
        command += ["--address", peer.address, "--pid", str(peer.pid)]
        command += ["--frames", str(frames), "--seconds", str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        # The gateway has nothing to finish, and its drain would take longer than the flood.
        psutil.Process(peer.pid).kill()
    if done.returncode:
        raise FloodError(f"{name}: {done.stderr[-2000:]}")
    return Found(**json.loads(done.stdout))


def row(name: str, found: Found, ordinary: Found) -> str:
    micros, usual = (each.cpu_seconds / each.sent * 1e6 for each in (found, ordinary))
    good, other = (
        f"{seconds * 1e3:.0f}" if end == "END_STREAM" and seconds else "–" if seconds else "silent"
        for seconds, end in zip((found.slowest, found.other), found.ends, strict=True)
    )
    sees = found.sees if found.ends[0] == "END_STREAM" else f"{found.sees}; {found.ends[0]}"
    cells = [name, f"{found.sent:,}", f"{micros:.3f}", f"{micros / usual:.1f}"]
    cells += [f"{found.growth / 2**20:.1f}", good, other, sees]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floods", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each flood at most (0.5)")
    parser.add_argument("--frames", type=int, default=20_000, help="of each flood (20,000)")
    parser.add_argument("--only", default="", help="floods with this in their names")
    for option in ("--attack", "--address", "--pid"):
        parser.add_argument(option, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.attack:
        flood = attack(args.attack, args.address, int(args.pid), args.frames, args.seconds)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            print(json.dumps(asdict(runner.run(flood))))
        return 0
    print(f"| {' | '.join(_HEADS)} |", "|---|" + "---:|" * (len(_HEADS) - 2) + "---|", sep="\n")
    try:
        with echo_container() as container:
            ordinary = measure(ORDINARY, container, args.frames, args.seconds)
            print(row(ORDINARY, ordinary, ordinary), flush=True)
            for name in (name for name in FLOODS if args.only in name):
                found = measure(name, container, args.frames, args.seconds)
                print(row(name, found, ordinary), flush=True)
            print(f"\n{strangers.HEADS}", flush=True)
            for name in (name for name in strangers.ATTACKS if args.only in name):
                print(strangers.row(name, strangers.measure(name, container)), flush=True)
    except (StartError, FloodError, strangers.AttackError) as error:
        print(f"benchmarks.floods: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
