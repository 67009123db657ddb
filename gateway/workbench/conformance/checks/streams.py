"""Streams in numbers, streams that are cut, and silent streams."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from typing import Final

from partway.gateway.workbench.conformance.check import Checks
from partway.gateway.workbench.conformance.raw_stream import Closed, Peer
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode

checks: Final = Checks()

_AT_ONCE = 16
_CUT = 16
#: Seconds of silence: more than the platform's ping interval (clause 1.4-1); fewer with ``--fast``.
_IDLE, _FAST_IDLE = 65.0, 3.0
_PONG_TIMEOUT = 2.0


@checks.add(
    "streams.many",
    "1.1-4",
    title=f"the container answers {_AT_ONCE} streams at the same time",
    remedy="serve streams side by side, with a task or a thread for each: no stream may wait for "
    "the end of another",
    requires=("messages.answer", "control.pong"),
    limit=180,
)
async def many(trial: Trial) -> None:
    async with AsyncExitStack() as streams:
        peers: list[Peer] = []
        for number in range(_AT_ONCE):
            try:
                peers.append(await streams.enter_async_context(trial.stream(f"stream {number}")))
            except Broken as broken:
                raise Broken(f"with {number} of {_AT_ONCE} streams open: {broken.what}") from None
        # The last one first: a container that serves them in turn has not begun with it.
        for number in reversed(range(_AT_ONCE)):
            what = (
                f"stream {number + 1} of {_AT_ONCE} open streams, asked from the last to the first"
            )
            if trial.probe.echo:  # each message differs, so that each answer can be told apart
                await peers[number].say(f"stream {number}")
                await trial.echoed(peers[number], f"stream {number}", what)
            else:
                await trial.answered(peers[number], what)
        for number, peer in enumerate(peers):
            await peer.ping(b"all of it")
            try:
                while await peer.pong(_PONG_TIMEOUT) != b"all of it":
                    continue
            except TimeoutError:
                return  # control.pong checks this
            if trial.probe.echo and peer.unasked:
                raise Broken(f"stream {number} got more than its own answer")


@checks.add(
    "streams.cut",
    "1.5-9",
    title=f"{_CUT} streams that are cut harm no other stream",
    remedy="a client may vanish at any time: end everything that belongs to its stream, and "
    "nothing else",
    requires=("messages.answer",),
    limit=120,
)
async def cut(trial: Trial) -> None:
    for number in range(_CUT):
        async with trial.stream(f"a stream that is cut, {number}") as peer:
            if number % 2:
                await peer.say(trial.probe.messages[0])
            await peer.send(Opcode.TEXT, b"half a mess", fin=False)
            peer.link.abort()
    async with trial.stream("a stream after them") as peer:
        await trial.answered(peer, f"after {_CUT} streams were cut")


@checks.add(
    "streams.idle",
    "1.4-1",
    title="a silent stream stays open",
    remedy="switch off the idle timeout of your handler, server or library (aiohttp: "
    "receive_timeout): streams may be silent for long",
    requires=("messages.answer", "control.pong"),
    limit=_IDLE + 60,
    aside=True,
)
async def idle(trial: Trial) -> None:
    async with trial.stream("a silent stream") as peer:
        deadline = time.monotonic() + trial.scaled(_IDLE, _FAST_IDLE)
        while (left := deadline - time.monotonic()) > 0:
            try:
                await peer.take(await peer.frame(left))
            except TimeoutError:
                break
            except Closed as closed:
                silent = trial.scaled(_IDLE, _FAST_IDLE) - (deadline - time.monotonic())
                raise Broken(
                    f"no message was sent for {silent:.1f} s, then the container ended the "
                    f"stream: {closed}; it must keep a silent stream open"
                ) from None
        await peer.ping(b"still there")
        await peer.pong()
        await trial.answered(peer, f"after {trial.scaled(_IDLE, _FAST_IDLE):g} s of silence")
