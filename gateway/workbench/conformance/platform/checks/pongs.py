"""Pings of the container, and unsolicited Pongs (clauses 1.3-2, 1.4-1, 1.4-3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from partway.gateway.workbench.conformance.evidence import shown
from partway.gateway.workbench.conformance.platform.check import PlatformChecks
from partway.gateway.workbench.conformance.platform.client import PARTIAL, TEXT
from partway.gateway.workbench.conformance.platform.container import ContainerStream
from partway.gateway.workbench.conformance.platform.trial import PlatformTrial
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode

checks: Final = PlatformChecks("pongs")

_IN_A_ROW: Final = 20


async def _ponged(trial: PlatformTrial, seen: ContainerStream, payload: bytes, what: str) -> None:
    seen.send(Opcode.PING, payload)
    pong = await seen.control(Opcode.PONG, trial.patience)
    if pong.payload != payload:
        raise Broken(f"{what}: the Pong has {shown(pong.payload)}, the Ping had {shown(payload)}")


@checks.add(
    "payload",
    "1.4-3",
    title="the platform answers a container's Ping with a Pong that has the same payload",
    remedy="answer each Ping of a container with a Pong that has the same 0 to 125 bytes",
)
async def payload(trial: PlatformTrial) -> None:
    async with trial.stream("pings of a container") as (_, seen):
        for each in (b"ping", b"", bytes(range(125))):
            await _ponged(trial, seen, each, f"after a Ping with {len(each)} bytes")


@checks.add(
    "order",
    "1.4-3",
    title="the platform answers Pings in a row in their order",
    remedy="send Pongs in the order of the Pings; you may drop unsent Pongs, except for the latest",
    requires=("pongs.payload",),
)
async def order(trial: PlatformTrial) -> None:
    sent = [f"{number:02}".encode() for number in range(_IN_A_ROW)]
    async with trial.stream("pings in a row") as (_, seen):
        for each in sent:
            seen.send(Opcode.PING, each)
        await seen.until(lambda: _pongs(seen)[-1:] == sent[-1:], trial.patience, "the last Pong")
        found = _pongs(seen)
    if not _in_order(found, sent):
        raise Broken(f"Pongs came as {b' '.join(found).decode('latin-1')}, out of order")


def _pongs(seen: ContainerStream) -> list[bytes]:
    return [each.payload for each in seen.frames if each.opcode == Opcode.PONG]


def _in_order(found: Sequence[bytes], sent: Sequence[bytes]) -> bool:
    places = [sent.index(each) if each in sent else -1 for each in found]
    return -1 not in places and places == sorted(set(places))


@checks.add(
    "inside",
    "1.3-2",
    "1.4-3",
    title="the platform answers a Ping while messages are unfinished in both directions",
    remedy="answer Pings between the fragments of a message",
    requires=("pongs.payload", "parts.fragments"),
)
async def inside(trial: PlatformTrial) -> None:
    async with trial.stream("a ping inside messages") as (client, seen):
        await client.send(b"half a quest", TEXT, PARTIAL)
        await seen.data(trial.patience)
        seen.send(Opcode.TEXT, b"half an ans", fin=False)
        await _ponged(trial, seen, b"inside", "after a Ping inside two messages")
        await client.send(b"ion", TEXT)
        end = await seen.data(trial.patience)
    if (end.opcode, end.fin, end.payload) != (Opcode.CONTINUATION, True, b"ion"):
        raise Broken(f"after the Pong the message goes on as {end}, not with its last fragment")


@checks.add(
    "unsolicited",
    "1.4-1",
    title="the platform ignores a Pong that answers no Ping",
    remedy="ignore Pongs that answer no Ping (RFC 6455 §5.5.3)",
    requires=("parts.one_frame", "replies.part"),
)
async def unsolicited(trial: PlatformTrial) -> None:
    async with trial.stream("unsolicited pongs") as (client, seen):
        for each in (b"", b"nobody asked", (1 << 63).to_bytes(8, "big")):
            seen.send(Opcode.PONG, each)
        seen.send(Opcode.TEXT, b"still here")
        reply = await client.part()
        if reply.payload != b"still here":
            raise Broken(f"after unsolicited Pongs the client gets {shown(reply.payload)}")
        await client.send(b"so am I")
        await seen.data(trial.patience)
