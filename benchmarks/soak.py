"""A soak: 200 clients of a chat come, leave and break off at random, and nothing may stay behind.

``python -m benchmarks.soak`` runs an engine of a fixed pace, the model ``chat`` and a gateway. A
tenth of the clients stay on their streams for the whole time. The others stay for some turns, on
streams or by requests, and many leave in the middle of a reply. It prints a table, and fails when

1. a client that stays, or that waits for its answer, gets another end than it has asked for;
2. those that stay wait longer for their first tokens in the last third than in the second;
3. ``/ping`` of the container or ``/healthz`` of the gateway is slow, or says anything but 200;
4. streams, replies, descriptors or memory are left behind after the last client.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import random
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Final

import aiohttp
import psutil
import uvloop

from benchmarks import chat_peers, peers
from benchmarks.chat_client import RequestUser, User, opened
from benchmarks.chat_peers import CHAT_PATH, STREAM_PATH, asked
from benchmarks.load import LoadError
from benchmarks.peers import Peer, StartError

#: Tokens of a reply, and ms between two: a reply takes a second.
_TOKENS: Final = 20
_PACE: Final = 50.0
_STAYING: Final = 0.1
#: Mean seconds from a reply to the client's next turn.
_PAUSE: Final = 1.0
_LOOK: Final = 0.25
#: Seconds in which everything must be over after the last client has left.
_PATIENCE: Final = 10.0
#: First tokens may come this much later in the last third than in the second, in seconds.
_LATER: Final = 0.02
#: Seconds for /ping, which a platform asks for all the time.
_SLOW_LOOK: Final = 0.1
#: Growth of a process's memory from the second third's end to the last's, in bytes.
_GROWTH: Final = 4 * 1024 * 1024
#: Descriptors that may be left: a connection that the look at a process itself has opened.
_DESCRIPTORS: Final = 2
_MIB = 1024 * 1024
#: The gateway's metric of streams and requests under way.
_OUTSTANDING: Final = re.compile(r"^partway_instance_outstanding\{.*\} (.*)$", re.MULTILINE)


@dataclass
class Observations:
    """Everything that a soak has seen; times in seconds.

    Attributes:
        waits: of the clients that stay: when each turn was sent, and the time to its first token.
        left: how often clients have left, and how.
        looks: the times of ``/ping`` and ``/healthz``.
        faults: everything that must not happen.
    """

    began: float
    waits: list[tuple[float, float]] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    looks: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def _look(address: str, path: str, over: Event, seen: Connection) -> None:
    """Ask for a path until all is over; send the times, and the faults."""
    looks, faults = [], []
    while not over.wait(_LOOK):
        began = time.monotonic()
        try:
            status, _ = asked(address, path)
            if status != 200:
                faults.append(f"{path}: {status}")
        except OSError as error:
            faults.append(f"{path}: {error}")
        looks.append(time.monotonic() - began)
    seen.send((looks, faults))


class Looks:
    """Asks for a path again and again, in a process of its own: a load delays its own threads."""

    def __init__(self, address: str, path: str) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._over = spawn.Event()
        self._seen, seen = spawn.Pipe(duplex=False)
        self._process = spawn.Process(
            target=_look, args=(address, path, self._over, seen), daemon=True
        )
        self._process.start()
        seen.close()

    def stop(self) -> tuple[list[float], list[str]]:
        """Return the times of the answers in seconds, and the faults."""
        self._over.set()
        found: tuple[list[float], list[str]] = self._seen.recv()
        self._process.join()
        return found


class Soak:
    """The clients.

    Args:
        gateway: its address.
        clients: at the same time.
    """

    def __init__(self, gateway: str, clients: int, seconds: float, seen: Observations) -> None:
        self._stream = f"ws://{gateway}{STREAM_PATH}"
        self._requests = f"http://{gateway}{CHAT_PATH}"
        self._clients = clients
        self._until = seen.began + seconds
        self._seen = seen
        self._numbers = itertools.count(1)
        self._session: aiohttp.ClientSession

    async def run(self) -> None:
        staying = int(self._clients * _STAYING)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as self._session:
            await asyncio.gather(
                *(self._stay(random.Random(n)) for n in range(staying)),
                *(self._come_and_go(random.Random(n)) for n in range(staying, self._clients)),
            )

    async def _stay(self, chance: random.Random) -> None:
        try:
            user = await opened(self._stream)
            while time.monotonic() < self._until:
                sent = time.monotonic()
                first = await self._turn(user, _TOKENS)
                self._seen.waits.append((sent - self._seen.began, first - sent))
                await asyncio.sleep(chance.expovariate(1 / _PAUSE))
            user.close()
        except LoadError as error:
            self._seen.faults.append(f"a client that stays: {error}")

    async def _come_and_go(self, chance: random.Random) -> None:
        """Come again and again, stay for up to three turns, and leave in one of many ways."""
        await asyncio.sleep(chance.uniform(0, 2 * _PAUSE))
        ways = [self._close, self._abort, self._stop_reading, self._request, self._cut_request]
        while time.monotonic() < self._until:
            way = chance.choice(ways)
            try:
                await way(chance)
            except (LoadError, aiohttp.ClientError) as error:
                self._seen.faults.append(f"{way.__name__}: {error}")
            self._seen.left[way.__name__.strip("_").replace("_", " ")] += 1
            await asyncio.sleep(chance.expovariate(1 / _PAUSE))

    async def _close(self, chance: random.Random) -> None:
        user = await opened(self._stream)
        for _ in range(chance.randint(1, 3)):
            await self._turn(user, chance.choice((_TOKENS, 3)))
        user.close()

    async def _abort(self, chance: random.Random) -> None:
        user = await opened(self._stream)
        await self._turn(user, chance.randint(1, _TOKENS))
        user.abort()

    async def _stop_reading(self, chance: random.Random) -> None:
        """Ask, and leave before the first token."""
        user = await opened(self._stream)
        user.say(f"#{next(self._numbers)} are you there?")
        await asyncio.sleep(chance.uniform(0, _PACE / 1e3))
        user.abort()

    async def _request(self, chance: random.Random) -> None:
        await self._turn(RequestUser(self._session, self._requests), _TOKENS)

    async def _cut_request(self, chance: random.Random) -> None:
        await self._turn(RequestUser(self._session, self._requests), chance.randint(1, 10))

    async def _turn(self, user: User, pieces: int) -> float:
        """Ask, and read some pieces of the reply; return when the first came."""
        first = 0.0
        async with aclosing(user.ask(f"#{next(self._numbers)} tell me more")) as reply:
            read = 0
            async for _ in reply:
                first = first or time.monotonic()
                read += 1
                if read == pieces and pieces < _TOKENS:
                    break
        if read != pieces:
            raise LoadError(f"a reply had {read} pieces; it must have {pieces}")
        return first


class Watched:
    """A process whose memory and descriptors must not grow.

    Args:
        path: answers 200 all the time.
    """

    def __init__(self, name: str, peer: Peer, path: str, seen: Observations) -> None:
        self.name = name
        self._process = psutil.Process(peer.pid)
        self._seen = seen
        self._looks = Looks(peer.address, path)
        self.memory: list[int] = []
        self.descriptors: list[int] = []

    def sample(self) -> None:
        self.memory.append(self._process.memory_info().rss)
        self.descriptors.append(self._process.num_fds())

    def stop(self) -> None:
        looks, faults = self._looks.stop()
        self._seen.looks += looks
        self._seen.faults += faults

    def left_descriptors(self) -> int:
        """Return how many descriptors more than at the beginning are open."""
        return self._process.num_fds() - self.descriptors[0]

    def faults(self, slack: float) -> Iterator[str]:
        """Compare the end with the samples of the beginning and of the second third."""
        second, last = _thirds(self.memory)
        growth = max(last) - max(second)
        if growth > _GROWTH * slack:
            yield f"{self.name}: its memory grew by {growth / _MIB:.1f} MiB in the last third"


def _thirds(values: list[int]) -> tuple[list[int], list[int]]:
    third = len(values) // 3
    return values[third : 2 * third], values[2 * third :]


async def _sampled(soak: Soak, watched: list[Watched]) -> None:
    """Run the soak, and sample the processes each second."""
    for each in watched:
        each.sample()

    async def samples() -> None:
        while True:
            await asyncio.sleep(1.0)
            for each in watched:
                each.sample()

    sampling = asyncio.create_task(samples())
    try:
        await soak.run()
    finally:
        sampling.cancel()


def _left_behind(engine: Peer, gateway: Peer, watched: list[Watched]) -> str:
    """Return the replies, streams and descriptors that are still open; empty for none.

    Connections to the engine are kept for some seconds.
    """
    replies = json.loads(asked(engine.address, "/cancelled")[1])["open"]
    text = asked(gateway.address, "/metrics")[1].decode()
    streams = sum(map(float, _OUTSTANDING.findall(text)))
    left = {f"descriptors of {each.name}": each.left_descriptors() for each in watched}
    found = {"replies": replies, "streams": round(streams)}
    found |= {name: count for name, count in left.items() if count > _DESCRIPTORS}
    return ", ".join(f"{count} {name}" for name, count in found.items() if count)


def _wait_until_over(
    engine: Peer, gateway: Peer, watched: list[Watched], seen: Observations
) -> None:
    until = time.monotonic() + _PATIENCE
    while left := _left_behind(engine, gateway, watched):
        if time.monotonic() > until:
            seen.faults.append(f"{_PATIENCE:g} s after the last client are left: {left}")
            return
        time.sleep(_LOOK)


def _judge(seen: Observations, args: argparse.Namespace) -> Iterator[str]:
    """Yield the table's lines, and add the faults of the waits and looks."""
    thirds = [
        [wait for at, wait in seen.waits if third <= at * 3 / args.seconds < third + 1]
        for third in range(3)
    ]
    medians = [statistics.median(waits) if waits else 0.0 for waits in thirds]
    if medians[2] > medians[1] + _LATER and not args.untimed:
        seen.faults.append(f"clients that stay wait longer: {medians} s to the first token")
    slowest = max(seen.looks, default=0.0)
    if slowest > _SLOW_LOOK and not args.untimed:
        seen.faults.append(f"/ping or /healthz took {slowest * 1e3:.0f} ms")
    yield "| | |"
    yield "|---|---:|"
    yield f"| turns of clients that stay | {len(seen.waits):,} |"
    for way, count in sorted(seen.left.items()):
        yield f"| clients that left: {way} | {count:,} |"
    shown = ", ".join(f"{median * 1e3:.0f}" for median in medians)
    yield f"| ms to the first token in each third, those that stay | {shown} |"
    yield f"| slowest /ping or /healthz, ms | {slowest * 1e3:.0f} |"


def run(args: argparse.Namespace) -> bool:
    """Run the soak, and print its table; return whether it passed."""
    with ExitStack() as stack:
        engine = stack.enter_context(chat_peers.engine(_TOKENS, _PACE))
        container = stack.enter_context(chat_peers.container(engine))
        gateway = stack.enter_context(peers.gateway(container))
        seen = Observations(time.monotonic())
        watched = [
            Watched("the gateway", gateway, "/healthz", seen),
            Watched("the container", container, "/ping", seen),
        ]
        uvloop.run(_sampled(Soak(gateway.address, args.clients, args.seconds, seen), watched))
        _wait_until_over(engine, gateway, watched, seen)
        for each in watched:
            each.stop()
            each.sample()
            seen.faults += each.faults(args.slack)
        print("\n".join(_judge(seen, args)))
        for each in watched:
            second, last = _thirds(each.memory)
            print(f"| {each.name}, MiB | {max(second) / _MIB:.1f}, then {max(last) / _MIB:.1f} |")
            print(
                f"| {each.name}, descriptors | {each.descriptors[0]}, then {each.descriptors[-1]} |"
            )
    for fault, count in Counter(seen.faults).items():
        print(f"FAULT: {fault} ({count} times)")
    return not seen.faults


def main() -> int:
    parser = argparse.ArgumentParser("benchmarks.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="until the last turn (600)")
    parser.add_argument("--clients", type=int, default=200, help="at the same time (200)")
    parser.add_argument(
        "--slack", type=float, default=1.0, help="multiplies the limit of growth: for a minute"
    )
    parser.add_argument(
        "--untimed", action="store_true", help="judge no times: on a machine that does other work"
    )
    try:
        passed = run(parser.parse_args())
    except StartError as error:
        print(f"benchmarks.soak: {error}", file=sys.stderr)
        return 1
    print("Nothing is left behind." if passed else "The soak failed.")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
