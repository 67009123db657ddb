"""The platform's frames, which must be right whatever it sends (RFC 6455 §5)."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Final

from partway.gateway.workbench.conformance.platform.check import PlatformChecks
from partway.gateway.workbench.conformance.platform.client import BINARY, PARTIAL, TEXT
from partway.gateway.workbench.conformance.platform.container import ContainerStream
from partway.gateway.workbench.conformance.platform.trial import PlatformTrial
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode

checks: Final = PlatformChecks("frames")

#: Sizes at every edge of the three forms of a length (RFC 6455 §5.2).
_SIZES: Final = (1, 125, 126, 127, 65_535, 65_536)
_SMALL: Final = 40


async def _sweep(trial: PlatformTrial) -> ContainerStream:
    """Open a stream with frames of every kind that a platform sends on its own."""
    async with trial.stream("frames of every kind") as (client, seen):
        for size in _SIZES:
            await client.send(bytes(size), TEXT if size % 2 else BINARY)
        for number in range(_SMALL):
            await client.send(f"{number:02}".encode(), TEXT, PARTIAL)
        await client.send(b"", TEXT)
        seen.send(Opcode.PING, bytes(125))
        due = sum(_SIZES) + 2 * _SMALL
        # other checks ask how the bytes are cut into frames
        await seen.until(
            lambda: sum(len(each.payload) for each in seen.frames if each.is_data) >= due,
            trial.patience,
            "all that the client sent",
        )
    return seen


async def _ended(trial: PlatformTrial) -> ContainerStream:
    """Open a stream on which the platform sends only its Close."""
    async with trial.stream("a stream without a part") as (client, seen):
        with suppress(Broken):  # other checks ask how a stream ends
            await client.end_input()
            await client.end()
    return seen


@checks.add(
    "masked",
    "1.2-1",
    title="every frame is masked",
    remedy="mask every frame: the gateway is the WebSocket's client (RFC 6455 §5.1)",
)
async def masked(trial: PlatformTrial) -> None:
    for each in (await trial.once(_sweep)).frames:
        if not each.key:
            raise Broken(f"a frame is not masked: {each}")


@checks.add(
    "keys",
    "1.2-1",
    title="every frame has its own masking key, which nobody can predict",
    remedy="take four bytes from a strong source of entropy for each frame (RFC 6455 §5.3)",
    requires=("frames.masked",),
)
async def keys(trial: PlatformTrial) -> None:
    found = [int.from_bytes(each.key, "big") for each in (await trial.once(_sweep)).frames]
    if len(set(found)) < len(found):
        most = max(set(found), key=found.count)
        raise Broken(f"{found.count(most)} of {len(found)} frames have the key {most:08x}")
    steps = {(later - earlier) % (1 << 32) for earlier, later in pairwise(found)}
    if len(steps) == 1:
        raise Broken(f"each key is the key before it plus {steps.pop()}")


@checks.add(
    "rsv",
    "1.2-6",
    title="no RSV bit is set",
    remedy="leave RSV1 to RSV3 at 0: no extension was agreed on (RFC 6455 §5.2)",
)
async def rsv(trial: PlatformTrial) -> None:
    for each in (await trial.once(_sweep)).frames:
        if each.rsv:
            raise Broken(f"a frame has the RSV bits {each.rsv:03b}: {each}")


@checks.add(
    "opcodes",
    "1.2-3",
    title="no reserved opcode is used",
    remedy="send only text, binary, continuation, Close, Ping and Pong (RFC 6455 §5.2)",
)
async def opcodes(trial: PlatformTrial) -> None:
    for each in (await trial.once(_sweep)).frames:
        if each.opcode not in tuple(Opcode):
            raise Broken(f"a frame has the reserved opcode {each.opcode:#x}")


@checks.add(
    "shortest",
    "1.2-1",
    title="a length is written in its shortest form",
    remedy="write lengths up to 125 in 7 bits, up to 65,535 in 16 (RFC 6455 §5.2)",
)
async def shortest(trial: PlatformTrial) -> None:
    for each in (await trial.once(_sweep)).frames:
        if not each.shortest:
            raise Broken(f"a length is not in its shortest form: {each}")


@checks.add(
    "control",
    "1.3-2",
    title="control frames are not fragmented, and have at most 125 bytes",
    remedy="send each Ping, Pong and Close in one frame of at most 125 bytes (RFC 6455 §5.5)",
)
async def control(trial: PlatformTrial) -> None:
    for each in (*(await trial.once(_sweep)).frames, *(await trial.once(_ended)).frames):
        if not each.is_data and (not each.fin or len(each.payload) > 125):
            raise Broken(f"a control frame is fragmented or too long: {each}")
