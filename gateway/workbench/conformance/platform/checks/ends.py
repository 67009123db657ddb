"""Ends of a stream without the container's Close (rows 1.5-3, 1.5-9, 1.5-10, 1.5-12)."""

from __future__ import annotations

from typing import Final

from partway.gateway.workbench.conformance.platform.check import PlatformChecks
from partway.gateway.workbench.conformance.platform.container import ContainerStream
from partway.gateway.workbench.conformance.platform.trial import PlatformTrial
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode

checks: Final = PlatformChecks("ends")

#: Seconds that a busy machine may add to a limit.
_SLACK: Final = 1.0

#: Seconds by which a busy container may see a Close later than the platform has sent it.
_SEEN_LATE: Final = 0.1


async def _told(trial: PlatformTrial, seen: ContainerStream, code: int, what: str) -> None:
    close = await seen.control(Opcode.CLOSE, trial.patience)
    if close.close_code != code:
        raise Broken(f"{what} the container gets {close}, not Close {code}")


@checks.add(
    "container_lost",
    "1.5-3",
    title="the client gets ModelStreamError 1006 when the container ends without a Close",
    remedy="distinguish a connection that ends without a Close, by FIN or reset, from one with a "
    "Close",
)
async def container_lost(trial: PlatformTrial) -> None:
    for cut in (ContainerStream.finish, ContainerStream.abort):
        async with trial.stream("the container is gone") as (client, seen):
            cut(seen)
            end = await client.end()
            if (end.kind, end.code) != ("model", "1006"):
                raise Broken(
                    f"the container's connection ended, and the client gets {end}, not "
                    "ModelStreamError 1006"
                )


@checks.add(
    "client_vanished",
    "1.5-9",
    title="the container gets Close 1001 when the client vanishes",
    remedy="tell the container that its client is gone",
)
async def client_vanished(trial: PlatformTrial) -> None:
    async with trial.stream("the client vanishes") as (client, seen):
        client.vanish()
        await _told(trial, seen, 1001, "when its client vanishes")


@checks.add(
    "client_left",
    "1.5-9",
    title="the container gets Close 1001 when the client leaves before the end",
    remedy="tell the container that the stream was cancelled; Close 1000 means the end of the "
    "input",
)
async def client_left(trial: PlatformTrial) -> None:
    async with trial.stream("the client leaves") as (client, seen):
        await client.leave()
        await _told(trial, seen, 1001, "when its client leaves")


@checks.add(
    "client_fault",
    "1.5-10",
    title="the container gets Close 1008 after a client's fault, and nothing of the faulty event",
    remedy="refuse an invalid event, and tell the container why the stream ends",
)
async def client_fault(trial: PlatformTrial) -> None:
    async with trial.raw_stream("a part with a wrong DataType") as (client, seen):
        client.send({"PayloadPart": {"Bytes": b"good"}})
        client.send({"PayloadPart": {"Bytes": b"bad", "DataType": "utf8"}})
        client.send({"PayloadPart": {"Bytes": b"behind"}})
        await _told(trial, seen, 1008, "after a part with a wrong DataType")
        found = b"".join(each.payload for each in seen.frames if each.is_data)
    if found != b"good":
        raise Broken(
            f"around a part with a wrong DataType the container gets {found!r}, not b'good'"
        )


@checks.add(
    "no_close",
    "1.5-12",
    title="the platform gives up a container that does not answer a Close in time",
    remedy="wait 10 seconds for a container's Close, then end with InternalStreamFailure",
    requires=("closing.input_end",),
)
async def no_close(trial: PlatformTrial) -> None:
    limit = trial.platform.times.close_timeout
    async with trial.stream("Close is not answered", endpoint=trial.hurried()) as (client, seen):
        seen.closes = False
        client.patience = limit + _SLACK + trial.patience
        await client.end_input()
        close = await seen.control(Opcode.CLOSE, trial.patience)
        end, at = await client.end(), client.ended_at
    if end.kind != "platform":
        raise Broken(
            f"without the container's Close the client gets {end}, not InternalStreamFailure"
        )
    if not limit * 0.9 - _SEEN_LATE <= at - close.at <= limit + _SLACK:
        raise Broken(
            f"the platform gave the container up after {at - close.at:.2f} s, not after {limit:g} s"
        )
