"""The platform's own Pings (clauses 1.4-1, 1.5-8)."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from partway.gateway.workbench.conformance.evidence import shown
from partway.gateway.workbench.conformance.platform.check import PlatformChecks
from partway.gateway.workbench.conformance.platform.client import Client
from partway.gateway.workbench.conformance.platform.container import ContainerStream
from partway.gateway.workbench.conformance.platform.frames import SeenFrame
from partway.gateway.workbench.conformance.platform.trial import PlatformTrial
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode

checks: Final = PlatformChecks("pings")

#: Seconds that a busy machine may add to a limit, beside a share of the limit.
_SLACK: Final = 0.5


def _pings(seen: ContainerStream) -> list[SeenFrame]:
    return [each for each in seen.frames if each.opcode == Opcode.PING]


async def _answered(trial: PlatformTrial) -> ContainerStream:
    """Open a stream long enough for two Pings beyond the limit, and answer each."""
    times = trial.platform.times
    async with trial.stream("pings, each answered", endpoint=trial.hurried()) as (_, seen):
        for _ in range(times.pings_unanswered + 2):
            await seen.control(Opcode.PING, times.ping_interval * 2 + _SLACK)
    return seen


@checks.add(
    "sent",
    "1.4-1",
    title="the platform sends the container one Ping in each interval",
    remedy="send a Ping every 60 seconds, or as the endpoint's policy says",
)
async def sent(trial: PlatformTrial) -> None:
    interval = trial.platform.times.ping_interval
    pings = _pings(await trial.once(_answered))
    gaps = [later.at - before.at for before, later in pairwise(pings)]
    mean = sum(gaps) / len(gaps)
    if not interval * 0.8 <= mean <= interval * 1.5 + _SLACK:
        raise Broken(f"a Ping came every {mean:.3g} s on the average, not every {interval:g} s")


@checks.add(
    "counter",
    "1.4-1",
    title="a Ping's payload is a counter of eight bytes",
    remedy="count Pings from 1, so that a Pong tells which Ping it answers",
    requires=("pings.sent",),
)
async def counter(trial: PlatformTrial) -> None:
    for number, ping in enumerate(_pings(await trial.once(_answered)), 1):
        if ping.payload != number.to_bytes(8, "big"):
            raise Broken(f"Ping {number} has the payload {shown(ping.payload)}")


async def _lost(trial: PlatformTrial, client: Client, seen: ContainerStream, what: str) -> None:
    """Check that the platform gives a container up, and tells both sides so (row 1.5-8)."""
    times = trial.platform.times
    close = await seen.control(Opcode.CLOSE, times.until_lost * 1.5 + _SLACK)
    count = len(_pings(seen))
    if count != times.pings_unanswered:
        raise Broken(
            f"{what}: the platform gave the container up after {count} Pings, not after "
            f"{times.pings_unanswered}"
        )
    waited = close.at - _pings(seen)[-1].at
    if waited < times.ping_interval * 0.2:  # given up at once; the Ping may have come late
        raise Broken(
            f"{what}: the platform gave the container up {waited:.3g} s after the last Ping, not "
            "one interval after it"
        )
    if close.close_code != 1011:
        raise Broken(f"{what}: the container gets {close}, not Close 1011")
    end = await client.end()
    if end.kind != "platform" or "container" not in end.message:
        raise Broken(
            f"{what}: the client gets {end}, not InternalStreamFailure that names the container"
        )


@checks.add(
    "unanswered",
    "1.4-1",
    "1.5-8",
    title="five Pings without a Pong end the stream, an interval after the fifth",
    remedy="then send Close 1011 to the container and InternalStreamFailure to the client",
    requires=("pings.sent",),
)
async def unanswered(trial: PlatformTrial) -> None:
    async with trial.stream("pings, none answered", endpoint=trial.hurried()) as (client, seen):
        seen.pongs = False
        await _lost(trial, client, seen, "without a Pong")


@checks.add(
    "no_answer",
    "1.4-1",
    title="neither data nor a Pong with another payload answers a Ping",
    remedy="accept as an answer only a Pong with the counter of a Ping",
    requires=("pings.unanswered", "pings.counter"),
)
async def no_answer(trial: PlatformTrial) -> None:
    times = trial.platform.times
    async with trial.stream("pings, answered wrongly", endpoint=trial.hurried()) as (client, seen):
        seen.pongs = False
        for _ in range(times.pings_unanswered):
            ping = await seen.control(Opcode.PING, times.ping_interval * 2 + _SLACK)
            seen.send(Opcode.PONG, b"")
            seen.send(Opcode.PONG, bytes(reversed(ping.payload)))
            seen.send(Opcode.BINARY, ping.payload)
        await _lost(trial, client, seen, "with data, and Pongs to no Ping")


@checks.add(
    "earlier",
    "1.4-1",
    title="a Pong answers every earlier Ping as well",
    remedy="count as answered all Pings up to the one that a Pong names (RFC 6455 §5.5.3)",
    requires=("pings.unanswered", "pings.counter"),
)
async def earlier(trial: PlatformTrial) -> None:
    times = trial.platform.times
    few = times.pings_unanswered - 1
    async with trial.stream("pings, the last answered", endpoint=trial.hurried()) as (_, seen):
        seen.pongs = False
        for number in range(2 * few):
            ping = await seen.control(Opcode.PING, times.ping_interval * 2 + _SLACK)
            if number == few - 1:
                seen.send(Opcode.PONG, ping.payload)
