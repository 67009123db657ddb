"""The closing handshake (clauses 1.2-7, 1.5-1, 1.5-2, 1.5-7, 1.5-11, 1.5-12)."""

from __future__ import annotations

from typing import Final

from partway.gateway.client import PayloadPart
from partway.gateway.workbench.conformance.evidence import shown
from partway.gateway.workbench.conformance.platform.check import PlatformChecks
from partway.gateway.workbench.conformance.platform.client import PARTIAL, TEXT, Client
from partway.gateway.workbench.conformance.platform.container import ContainerStream
from partway.gateway.workbench.conformance.platform.trial import PlatformTrial
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode

checks: Final = PlatformChecks("closing")

_CODES: Final = (1000, 1001, 1003, 1007, 1011, 1014, 3000, 4999)


@checks.add(
    "input_end",
    "1.5-11",
    "1.5-12",
    title="the container gets Close 1000 when the client's input ends",
    remedy='send Close(1000) once the client has ended its input (input_end = "close")',
)
async def input_end(trial: PlatformTrial) -> None:
    async with trial.stream("the input ends") as (client, seen):
        await client.end_input()
        close = await seen.control(Opcode.CLOSE, trial.patience)
    if close.close_code != 1000:
        raise Broken(f"the container gets {close}, not Close 1000")


@checks.add(
    "tail",
    "1.5-12",
    title="the container's frames after that Close still reach the client, then a clean end",
    remedy="relay the container's frames until its own Close: its half of the connection stays "
    "open",
    requires=("closing.input_end", "replies.part"),
)
async def tail(trial: PlatformTrial) -> None:
    async with trial.stream("an answer after the end of the input") as (client, seen):
        seen.closes = False
        await client.end_input()
        await seen.control(Opcode.CLOSE, trial.patience)
        seen.send(Opcode.TEXT, b"one mo", fin=False)
        seen.send(Opcode.CONTINUATION, b"re")
        seen.send_close(1000)
        seen.finish()
        found = await client.parts(2)
        end = await client.end()
    if [part.payload for part in found] != [b"one mo", b"re"]:
        raise Broken(f"the client gets {[part.payload for part in found]}")
    if end.kind != "clean":
        raise Broken(f"the client gets {end}, not a clean end")


@checks.add(
    "unfinished",
    "1.2-7",
    title="after an unfinished message of the client the container gets Close 1000, and no FIN",
    remedy="do not invent a FIN: send Close(1000) when the input ends inside a message",
    requires=("parts.fragments", "closing.input_end"),
)
async def unfinished(trial: PlatformTrial) -> None:
    async with trial.stream("the input ends inside a message") as (client, seen):
        await client.send(b"half", TEXT, PARTIAL)
        await client.end_input()
        close = await seen.control(Opcode.CLOSE, trial.patience)
        frames = [each for each in seen.frames if each.is_data]
    if [(each.payload, each.fin) for each in frames] != [(b"half", False)]:
        raise Broken(f"half a message reached the container as {[str(each) for each in frames]}")
    if close.close_code != 1000:
        raise Broken(f"the container gets {close}, not Close 1000")


@checks.add(
    "echo",
    "1.5-1",
    title="the platform answers a container's Close with the same code",
    remedy="answer Close with Close and its code (RFC 6455 §5.5.1)",
)
async def echo(trial: PlatformTrial) -> None:
    for code in _CODES:
        async with trial.stream(f"the container sends Close {code}") as (_, seen):
            seen.send_close(code, "done")
            close = await seen.control(Opcode.CLOSE, trial.patience)
            if close.close_code != code:
                raise Broken(f"the platform answered Close {code} with {close}")


@checks.add(
    "reported",
    "1.5-1",
    title="the client gets a container's Close as ModelStreamError, with code and reason",
    remedy="report the code in decimal and the reason unchanged; without a reason, the code's name",
)
async def reported(trial: PlatformTrial) -> None:
    for code, reason, wanted in ((4001, "no quota ✓", "no quota ✓"), (1011, "", "Internal Error")):
        async with trial.stream(f"the container sends Close {code}") as (client, seen):
            seen.send_close(code, reason)
            end = await client.end()
            if (end.kind, end.code, end.message) != ("model", str(code), wanted):
                raise Broken(f"after Close {code} {reason!r} the client gets {end}")


@checks.add(
    "empty",
    "1.5-2",
    title="the platform answers a Close without a code with an empty Close, and reports it as 1005",
    remedy="do not invent a code for the container",
)
async def empty(trial: PlatformTrial) -> None:
    async with trial.stream("the container sends an empty Close") as (client, seen):
        seen.send_close()
        close = await seen.control(Opcode.CLOSE, trial.patience)
        end = await client.end()
    if close.payload:
        raise Broken(
            f"the platform answered an empty Close with {close}, payload {shown(close.payload)}"
        )
    if end.kind == "clean":
        return  # normal_close = "end" allows this
    if (end.kind, end.code) != ("model", "1005"):
        raise Broken(f"after an empty Close the client gets {end}")


@checks.add(
    "inside",
    "1.5-7",
    title="the platform answers a Close inside a container's message, and reports its code",
    remedy="accept a Close between two fragments: it is legal (RFC 6455 §5.4)",
    requires=("closing.echo", "closing.reported", "replies.fragments"),
)
async def inside(trial: PlatformTrial) -> None:
    async with trial.stream("Close inside a message") as (client, seen):
        seen.send(Opcode.TEXT, b"half", fin=False)
        seen.send_close(4002, "enough")
        close = await seen.control(Opcode.CLOSE, trial.patience)
        part = await client.part()
        end = await client.end()
    if close.close_code != 4002:
        raise Broken(f"the platform answered Close 4002 inside a message with {close}")
    if part != PayloadPart(b"half", TEXT, PARTIAL):
        raise Broken(f"the client gets {part}, not half a message that stays PARTIAL")
    if (end.kind, end.code) != ("model", "4002"):
        raise Broken(f"after Close 4002 inside a message the client gets {end}")


async def _both_closes(trial: PlatformTrial, client: Client, seen: ContainerStream) -> str:
    """Say how the platform ends TCP after both Closes and the container's FIN."""
    await client.end_input()  # nothing is unanswered, so that no platform delays its Close
    await seen.control(Opcode.CLOSE, trial.patience)
    seen.send_raw(_BEHIND, "Pings after the platform's Close")
    seen.send_close(1000)
    seen.finish()
    return await seen.end(trial.patience)


#: Three Pings that nothing may answer.
_BEHIND: Final = b"\x89\x02no" * 3


@checks.add(
    "last",
    "1.5-11",
    title="the platform sends nothing after its Close",
    remedy="send no frame after your Close, not even a Pong (RFC 6455 §5.5.1)",
    requires=("closing.input_end",),
)
async def last(trial: PlatformTrial) -> None:
    async with trial.stream("after the platform's Close") as (client, seen):
        seen.closes = False
        await _both_closes(trial, client, seen)
        if seen.behind_close:
            raise Broken(f"after its Close the platform sent {'; '.join(seen.behind_close)}")


@checks.add(
    "tcp",
    "1.5-12",
    title="after both Closes and the container's FIN the platform ends TCP with FIN",
    remedy="read all bytes before you close the socket: a reset may destroy the last bytes",
    requires=("closing.input_end",),
)
async def tcp(trial: PlatformTrial) -> None:
    async with trial.stream("the end of TCP") as (client, seen):
        seen.closes = False
        ended = await _both_closes(trial, client, seen)
        if ended != "FIN":
            raise Broken(f"the platform ended the connection with a {ended}, not with FIN")
