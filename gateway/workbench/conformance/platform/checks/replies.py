"""From frame to PayloadPart (section 1.3), as the client gets it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from partway.gateway.client import PayloadPart
from partway.gateway.workbench.conformance.evidence import shown
from partway.gateway.workbench.conformance.platform.check import PlatformChecks
from partway.gateway.workbench.conformance.platform.client import BINARY, COMPLETE, PARTIAL, TEXT
from partway.gateway.workbench.conformance.platform.trial import PlatformTrial
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode

checks: Final = PlatformChecks("replies")

_SIZES: Final = (1, 125, 126, 65_535, 65_536, 1 << 20)
_MOST: Final = 1 << 24
_TEXT, _BINARY, _CONTINUATION = Opcode.TEXT, Opcode.BINARY, Opcode.CONTINUATION
#: Bytes per second of the slowest machine.
_SLOWEST: Final = 2 << 20
_Frame = tuple[Opcode, bytes, bool]


async def _replied(
    trial: PlatformTrial, title: str, frames: Sequence[_Frame], wanted: Sequence[PayloadPart]
) -> None:
    """Send frames to the client, and check that they arrive as the wanted parts.

    Raises:
        Broken: other parts came, or no part came.
    """
    async with trial.stream(title) as (client, seen):
        client.patience += sum(len(payload) for _, payload, _ in frames) / _SLOWEST
        for opcode, payload, fin in frames:
            seen.send(opcode, payload, fin=fin)
        for number, part in enumerate(wanted, 1):
            found = await client.part()
            if found != part:
                raise Broken(f"{title}: part {number} is {_shown(found)}, not {_shown(part)}")


def _shown(part: PayloadPart) -> str:
    return f"{part.data_type.value} {part.completion.value} {shown(part.payload)}"


@checks.add(
    "part",
    "1.3-1",
    title="a frame becomes a part with its bytes and its type, COMPLETE if it has FIN",
    remedy="make one part of each frame: text is UTF8, binary is BINARY",
)
async def part(trial: PlatformTrial) -> None:
    frames: list[_Frame] = [(_TEXT, b"text", True), (_BINARY, b"bytes", True), (_TEXT, b"", True)]
    wanted = [PayloadPart(b"text", TEXT), PayloadPart(b"bytes", BINARY), PayloadPart(b"", TEXT)]
    await _replied(trial, "whole messages", frames, wanted)


@checks.add(
    "fragments",
    "1.3-1",
    title="a frame without FIN becomes PARTIAL, and a continuation has its message's DataType",
    remedy="pass fragments on as they come, and remember the type of the message",
    requires=("replies.part",),
)
async def fragments(trial: PlatformTrial) -> None:
    frames: list[_Frame] = [
        (_TEXT, b"a", False),
        (_CONTINUATION, b"", False),
        (_CONTINUATION, b"c", True),
        (_BINARY, b"d", False),
        (_CONTINUATION, b"e", True),
    ]
    wanted = [
        PayloadPart(b"a", TEXT, PARTIAL),
        PayloadPart(b"", TEXT, PARTIAL),
        PayloadPart(b"c", TEXT, COMPLETE),
        PayloadPart(b"d", BINARY, PARTIAL),
        PayloadPart(b"e", BINARY, COMPLETE),
    ]
    await _replied(trial, "messages in fragments", frames, wanted)


@checks.add(
    "sizes",
    "1.3-1",
    title="a frame of 1 byte to 1 MiB becomes one part",
    remedy="make one part of each frame; do not merge or split frames",
    requires=("replies.part",),
)
async def sizes(trial: PlatformTrial) -> None:
    payloads = [bytes(range(256)) * (size // 256) + bytes(size % 256) for size in _SIZES]
    frames: list[_Frame] = [(_BINARY, payload, True) for payload in payloads]
    await _replied(trial, "frames of all sizes", frames, [PayloadPart(each) for each in payloads])


@checks.add(
    "largest",
    "1.3-3",
    title="the platform accepts a frame of 16,777,216 bytes",
    remedy="refuse only larger frames",
    requires=("replies.sizes",),
)
async def largest(trial: PlatformTrial) -> None:
    payload = bytes(_MOST)
    await _replied(trial, "the largest frame", [(_BINARY, payload, True)], [PayloadPart(payload)])


@checks.add(
    "between",
    "1.3-2",
    title="control frames between the fragments of a message do not disturb it",
    remedy="handle control frames separately: the message goes on after them",
    requires=("replies.fragments",),
)
async def between(trial: PlatformTrial) -> None:
    frames: list[_Frame] = [
        (_TEXT, b"a", False),
        (Opcode.PING, b"between", True),
        (_CONTINUATION, b"b", False),
        (Opcode.PONG, b"unasked", True),
        (_CONTINUATION, b"c", True),
    ]
    wanted = [
        PayloadPart(b"a", TEXT, PARTIAL),
        PayloadPart(b"b", TEXT, PARTIAL),
        PayloadPart(b"c", TEXT, COMPLETE),
    ]
    await _replied(trial, "control frames between fragments", frames, wanted)


@checks.add(
    "unread",
    "1.2-5",
    title="text is passed on unchanged, even if it is split inside a code point or is not UTF-8",
    remedy="do not check payloads: a code point may be split between two frames",
    requires=("replies.fragments",),
)
async def unread(trial: PlatformTrial) -> None:
    euro = "€".encode()
    frames: list[_Frame] = [
        (_TEXT, euro[:1], False),
        (_CONTINUATION, euro[1:], True),
        (_TEXT, b"\xed\xa0\x80", True),
    ]
    wanted = [
        PayloadPart(euro[:1], TEXT, PARTIAL),
        PayloadPart(euro[1:], TEXT, COMPLETE),
        PayloadPart(b"\xed\xa0\x80", TEXT, COMPLETE),
    ]
    await _replied(trial, "text that is split, and text that is not UTF-8", frames, wanted)
