"""From PayloadPart to frame (section 1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from partway.gateway.client import PayloadPart
from partway.gateway.workbench.conformance.evidence import shown
from partway.gateway.workbench.conformance.platform.check import PlatformChecks
from partway.gateway.workbench.conformance.platform.client import BINARY, COMPLETE, PARTIAL, TEXT
from partway.gateway.workbench.conformance.platform.container import ContainerStream
from partway.gateway.workbench.conformance.platform.frames import SeenFrame
from partway.gateway.workbench.conformance.platform.trial import PlatformTrial
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode

checks: Final = PlatformChecks("parts")

_SIZES: Final = (1, 2, 125, 126, 127, 65_535, 65_536, 1 << 20)
_IN_A_ROW: Final = 500
_FENCE: Final = b"\x00fence\x00"


async def _sent(trial: PlatformTrial, title: str, parts: Sequence[PayloadPart]) -> list[SeenFrame]:
    """Send parts, and return their data frames; a fence behind the parts shows where they end."""
    async with trial.stream(title) as (client, seen):
        for part in parts:
            await client.send(*part)
        await client.send(_FENCE, BINARY)
        return await _until_fence(trial, seen)


async def _until_fence(trial: PlatformTrial, seen: ContainerStream) -> list[SeenFrame]:
    frames: list[SeenFrame] = []
    while not frames or not frames[-1].payload.endswith(_FENCE):
        frames.append(await seen.data(trial.patience, "the frame of a part"))
    if frames[-1].payload != _FENCE:
        return frames  # merged with another part, which the check reports
    return frames[:-1]


def _same(frames: Sequence[SeenFrame], payloads: Sequence[bytes], what: str) -> None:
    """Check that there is one frame for each part, with the part's bytes."""
    if len(frames) != len(payloads):
        raise Broken(f"{what}: {len(payloads)} parts became {len(frames)} frames")
    for number, (seen, payload) in enumerate(zip(frames, payloads, strict=True), 1):
        if seen.payload != payload:
            raise Broken(
                f"{what}: frame {number} has {shown(seen.payload)}, but its part has "
                f"{shown(payload)}"
            )


def _shape(frames: Sequence[SeenFrame]) -> list[tuple[int, bool]]:
    return [(each.opcode, each.fin) for each in frames]


def _check_shape(frames: Sequence[SeenFrame], wanted: list[tuple[int, bool]], what: str) -> None:
    if _shape(frames) != wanted:
        raise Broken(f"{what}: opcodes and FIN are {_shape(frames)}, not {wanted}")


@checks.add(
    "one_frame",
    "1.2-1",
    title="a part of 1 byte to 1 MiB becomes one frame, with the same bytes",
    remedy="make one data frame of each part; do not merge or split parts, and change no byte",
)
async def one_frame(trial: PlatformTrial) -> None:
    payloads = [bytes(range(256)) * (size // 256) + bytes(size % 256) for size in _SIZES]
    frames = await _sent(trial, "parts of all sizes", [PayloadPart(each) for each in payloads])
    _same(frames, payloads, "parts of 1 byte to 1 MiB")


@checks.add(
    "order",
    "1.2-1",
    title="parts that come together keep their number and their order",
    remedy="send frames in the order of their parts, each by itself",
    requires=("parts.one_frame",),
)
async def order(trial: PlatformTrial) -> None:
    payloads = [f"{number:03}".encode() for number in range(_IN_A_ROW)]
    frames = await _sent(trial, "many parts", [PayloadPart(each) for each in payloads])
    _same(frames, payloads, f"{_IN_A_ROW} parts in a row")


@checks.add(
    "type",
    "1.2-2",
    title="a UTF8 part becomes a text frame, a BINARY part a binary frame",
    remedy="take the opcode from the part's DataType: 1 for UTF8, 2 for BINARY",
    requires=("parts.one_frame",),
)
async def type_(trial: PlatformTrial) -> None:
    parts = [PayloadPart(b"text", TEXT), PayloadPart(b"bytes", BINARY)]
    frames = await _sent(trial, "text and binary", parts)
    _check_shape(frames, [(Opcode.TEXT, True), (Opcode.BINARY, True)], "UTF8, then BINARY")


@checks.add(
    "absent",
    "1.2-2",
    title="absent members of a part mean BINARY and COMPLETE, and P is ignored",
    remedy="read an absent DataType as BINARY, an absent CompletionState as COMPLETE; ignore P",
    requires=("parts.type",),
)
async def absent(trial: PlatformTrial) -> None:
    async with trial.raw_stream("parts with few members, and with padding") as (client, seen):
        client.send({"PayloadPart": {"Bytes": b"bare"}})
        client.send({"PayloadPart": {"Bytes": b"padded", "DataType": "UTF8", "P": "abcd"}})
        client.send({"PayloadPart": {"Bytes": _FENCE}})
        frames = await _until_fence(trial, seen)
    _same(frames, [b"bare", b"padded"], "parts with few members, and with padding")
    _check_shape(frames, [(Opcode.BINARY, True), (Opcode.TEXT, True)], "absent members")


@checks.add(
    "fragments",
    "1.2-3",
    title="a PARTIAL part has no FIN, the next part continues it, a COMPLETE part has FIN",
    remedy="send a message's first part with its opcode, the others with opcode 0; FIN on COMPLETE",
    requires=("parts.type",),
)
async def fragments(trial: PlatformTrial) -> None:
    parts = [
        PayloadPart(b"a", TEXT, PARTIAL),
        PayloadPart(b"b", TEXT, PARTIAL),
        PayloadPart(b"c", TEXT, COMPLETE),
        PayloadPart(b"d", BINARY, PARTIAL),
        PayloadPart(b"e", BINARY, COMPLETE),
    ]
    frames = await _sent(trial, "two messages in parts", parts)
    _same(frames, [part.payload for part in parts], "two messages in parts")
    going_on = Opcode.CONTINUATION
    wanted = [(Opcode.TEXT, False), (going_on, False), (going_on, True)]
    wanted += [(Opcode.BINARY, False), (going_on, True)]
    _check_shape(frames, [(int(opcode), fin) for opcode, fin in wanted], "two messages in parts")


@checks.add(
    "type_stands",
    "1.2-4",
    title="inside a message the opcode is 0, whatever the part's DataType says",
    remedy="keep the type of a message's first part for the whole message",
    requires=("parts.fragments",),
)
async def type_stands(trial: PlatformTrial) -> None:
    parts = [PayloadPart(b"text", TEXT, PARTIAL), PayloadPart(b"bytes?", BINARY, COMPLETE)]
    frames = await _sent(trial, "another DataType inside a message", parts)
    wanted: list[tuple[int, bool]] = [(Opcode.TEXT, False), (Opcode.CONTINUATION, True)]
    _check_shape(frames, wanted, "BINARY inside a text message")


@checks.add(
    "empty",
    "1.2-4",
    title="an empty part becomes an empty frame",
    remedy="drop no part: an empty COMPLETE part ends a message, and an empty message is a message",
    requires=("parts.fragments",),
)
async def empty(trial: PlatformTrial) -> None:
    parts = [
        PayloadPart(b"", TEXT),
        PayloadPart(b"a", TEXT, PARTIAL),
        PayloadPart(b"", TEXT, PARTIAL),
        PayloadPart(b"", TEXT, COMPLETE),
    ]
    frames = await _sent(trial, "empty parts", parts)
    _same(frames, [part.payload for part in parts], "parts, three of them empty")


@checks.add(
    "unread",
    "1.2-5",
    title="text is passed on unchanged, even if it is split inside a code point or is not UTF-8",
    remedy="do not check payloads: a code point may be split between two parts",
    requires=("parts.fragments",),
)
async def unread(trial: PlatformTrial) -> None:
    euro = "€".encode()
    parts = [
        PayloadPart(euro[:1], TEXT, PARTIAL),
        PayloadPart(euro[1:], TEXT, COMPLETE),
        PayloadPart(b"\xed\xa0\x80", TEXT, COMPLETE),
    ]
    title = "text that is split, and text that is not UTF-8"
    _same(await _sent(trial, title, parts), [part.payload for part in parts], title)
