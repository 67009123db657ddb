"""The load: streams that keep a few messages in flight, and check every byte of the replies.

``python -m benchmarks.load URL`` is a process of its own with a compiled codec (picows). It prints
one JSON object with its counts, and the CPU of the measured process.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import time
from collections.abc import Sequence
from typing import Protocol, TypedDict

import msgpack
import psutil
import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

RAW = "payloadpart.v1.raw"
MSGPACK = "payloadpart.v1.msgpack"

#: Seconds before the measured time: connections settle, caches and allocators warm up.
_WARM_UP = 0.5

#: Seconds before which a timer is no use.
_COARSE = 0.002

#: Longest wait for one reply on an idle machine.
_REPLY_TIMEOUT = 10.0

#: Room for the message's number at the start of each payload.
_NUMBER_BYTES = 8


class LoadError(Exception):
    """The relay lost, changed or reordered something, or ended a stream."""


class Messages:
    """The messages of one stream: its own random filler behind a running number."""

    def __init__(self, size: int) -> None:
        self._filler = os.urandom(size - _NUMBER_BYTES)

    def message(self, number: int) -> bytes:
        return number.to_bytes(_NUMBER_BYTES, "big") + self._filler

    def is_reply(self, number: int, reply: bytes) -> bool:
        """Whether a reply answers message ``number``, to the last byte."""
        return reply == self.message(number)


class MsgpackMessages(Messages):
    """The same payloads in msgpack envelopes (clause 3-1)."""

    def _event(self, number: int) -> dict[str, object]:
        payload = super().message(number)
        return {
            "PayloadPart": {"Bytes": payload, "DataType": "BINARY", "CompletionState": "COMPLETE"}
        }

    def message(self, number: int) -> bytes:
        return msgpack.packb(self._event(number))

    def is_reply(self, number: int, reply: bytes) -> bool:
        return msgpack.unpackb(reply) == self._event(number)


class Stream(WSListener):
    """One client: once it is running, it sends the next message for each reply."""

    def __init__(self, messages: Messages, failed: asyncio.Future[None]) -> None:
        self._messages = messages
        self._failed = failed
        self._transport: WSTransport | None = None
        self._sent = 0
        self.received = 0
        self.running = False
        self.ended = False

    def send(self, count: int = 1) -> None:
        assert self._transport is not None, "connected"
        for _ in range(count):
            self._transport.send(WSMsgType.BINARY, self._messages.message(self._sent))
            self._sent += 1

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if self.ended:
            return
        if frame.msg_type != WSMsgType.BINARY or not frame.fin:
            self._fail(f"a frame that was never sent: {frame}, {frame.get_payload_as_bytes()!r}")
        elif not self._messages.is_reply(self.received, frame.get_payload_as_bytes()):
            self._fail(f"reply {self.received} is not what was sent")
        else:
            self.received += 1
            if self.running:
                self.send()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if not self.ended:
            self._fail("the stream ended")

    def end(self) -> None:
        self.ended = True
        if self._transport is not None:
            self._transport.disconnect()

    def pause_writing(self) -> None:
        """Do nothing: a few messages in flight never fill a socket for long."""

    def resume_writing(self) -> None:
        pass

    def _fail(self, what: str) -> None:
        if not self._failed.done():
            self._failed.set_exception(LoadError(what))


class Counts(TypedDict):
    """The result of a load.

    Attributes:
        cpu_seconds: of the measured process and its children.
        cpu_seconds_each: the same, of each process.
    """

    round_trips: int
    seconds: float
    cpu_seconds: float
    cpu_seconds_each: list[float]


class EchoStream(Protocol):
    """A stream of the load.

    Attributes:
        running: whether each reply makes it send the next message.
    """

    received: int
    running: bool

    def send(self, count: int = 1) -> None: ...

    def end(self) -> None: ...


class Meter:
    """CPU seconds and resident bytes of a process and its children; zero without one."""

    def __init__(self, pid: int | None) -> None:
        process = [psutil.Process(pid)] if pid else []
        self._processes = process + [c for p in process for c in p.children(recursive=True)]

    def cpu_seconds(self) -> float:
        """User and system time spent so far."""
        return sum(self.cpu_seconds_each())

    def cpu_seconds_each(self) -> list[float]:
        """Return the time of each process."""
        times = [each.cpu_times() for each in self._processes]
        return [each.user + each.system for each in times]

    def resident_bytes(self) -> int:
        return sum(p.memory_info().rss for p in self._processes)


async def open_streams(
    url: str,
    count: int,
    size: int,
    subprotocol: str,
    failed: asyncio.Future[None],
    headers: Sequence[tuple[str, str]] = (),
) -> list[Stream]:
    """Open silent streams; ``failed`` gets the error of any of them.

    Args:
        headers: further ones of each handshake.
    """
    messages = MsgpackMessages if subprotocol == MSGPACK else Messages
    streams = []
    for _ in range(count):
        _, stream = await ws_connect(
            lambda: Stream(messages(size), failed),
            url,
            extra_headers={"Sec-WebSocket-Protocol": subprotocol, **dict(headers)},
        )
        if stream is None:  # picows returns None when the peer leaves during the handshake
            raise LoadError("the connection ended during the handshake")
        streams.append(stream)
    return streams


async def _run_for(seconds: float, failed: asyncio.Future[None]) -> None:
    done, _ = await asyncio.wait([failed], timeout=seconds)
    for future in done:
        future.result()


async def throughput(args: argparse.Namespace) -> Counts:
    """Count round trips, and the measured process's cost of them."""
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    streams = await open_streams(args.url, args.streams, args.size, args.subprotocol, failed)
    return await count_round_trips(streams, failed, args)


async def count_round_trips(
    streams: Sequence[EchoStream], failed: asyncio.Future[None], args: argparse.Namespace
) -> Counts:
    """Keep messages in flight on open streams, or send at a rate, and count the replies.

    Raises:
        LoadError: no reply came, or ``failed`` has the error.
    """
    meter = Meter(args.measure)
    sending = None
    if args.rate:
        sending = asyncio.create_task(_send_at(args.rate, streams))
    else:
        for stream in streams:
            stream.running = True
            stream.send(args.in_flight)
    await _run_for(_WARM_UP, failed)
    started, received = time.monotonic(), sum(stream.received for stream in streams)
    before = meter.cpu_seconds_each()
    await _run_for(args.seconds, failed)
    received = sum(stream.received for stream in streams) - received
    each = [now - then for now, then in zip(meter.cpu_seconds_each(), before, strict=True)]
    seconds = time.monotonic() - started
    if sending is not None:
        sending.cancel()
        await asyncio.wait((sending,))
    if not received:
        raise LoadError("no reply in the measured time")
    for stream in streams:
        stream.end()
    return {
        "round_trips": received,
        "seconds": seconds,
        "cpu_seconds": sum(each),
        "cpu_seconds_each": each,
    }


async def _send_at(rate: float, streams: Sequence[EchoStream]) -> None:
    """Send so many messages a second at random moments, as independent clients do."""
    due = time.monotonic()
    for stream in itertools.cycle(streams):
        due += random.expovariate(rate)
        while (early := due - time.monotonic()) > 0:  # noqa: ASYNC110 (for a moment in time)
            # uvloop's timers have milliseconds; messages would come in bursts.
            await asyncio.sleep(early if early > _COARSE else 0)
        stream.send()


async def idle(args: argparse.Namespace) -> dict[str, float]:
    """Measure the memory of the measured process for idle streams."""
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    meter = Meter(args.measure)
    streams = await open_streams(args.url, 1, args.size, args.subprotocol, failed)
    await exchange_one(streams, failed)  # the first stream's imports are no cost of the others
    before = meter.resident_bytes()
    more = await open_streams(args.url, args.idle, args.size, args.subprotocol, failed)
    await exchange_one(more, failed)
    held = meter.resident_bytes() - before
    for stream in [*streams, *more]:
        stream.end()
    return {"streams": args.idle, "bytes_per_stream": held / args.idle}


async def exchange_one(streams: Sequence[Stream], failed: asyncio.Future[None]) -> None:
    """Exchange a message and its reply on each stream, so that each one is really there.

    Raises:
        LoadError: a reply is missing, or ``failed`` has the error.
    """
    before = [stream.received for stream in streams]
    for stream in streams:
        stream.send()
    deadline = time.monotonic() + _REPLY_TIMEOUT
    while any(stream.received == had for stream, had in zip(streams, before, strict=True)):
        if time.monotonic() > deadline:
            raise LoadError(f"no reply within {_REPLY_TIMEOUT} s")
        await _run_for(0.05, failed)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--in-flight", type=int, default=8, help="messages, per stream")
    parser.add_argument("--rate", type=float, help="instead: messages a second, at random")
    parser.add_argument("--size", type=int, default=640, help="bytes of a payload")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--measure", type=int, help="id of the process whose CPU is counted")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("url", help="ws://… of the stream")
    parser.add_argument("--subprotocol", default=RAW, choices=[RAW, MSGPACK])
    parser.add_argument("--idle", type=int, help="instead: open this many streams, measure memory")
    add_options(parser)
    args = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if args.idle is None:
            print(json.dumps(runner.run(throughput(args))))
        else:
            print(json.dumps(runner.run(idle(args))))


if __name__ == "__main__":
    main()
