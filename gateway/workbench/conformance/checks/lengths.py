"""Every edge of a frame's length, and frames that come in pieces (clauses 1.2-1 to 1.2-3)."""

from __future__ import annotations

import asyncio
from typing import Final

from partway.gateway.workbench.conformance.check import Checks, Need
from partway.gateway.workbench.conformance.checks.messages import send_fragments
from partway.gateway.workbench.conformance.message_content import long_bytes, long_text
from partway.gateway.workbench.conformance.raw_stream import as_frame, frame_bytes
from partway.gateway.workbench.conformance.trial import Trial, meanwhile
from partway.protocol.websocket.frames import Opcode

checks: Final = Checks()

#: Lengths where the encoding changes (RFC 6455 §5.2): to two bytes more, and to eight.
_ENCODED: Final = (124, 125, 126, 127, 65534, 65535, 65536, 65537)
#: Sizes where a signed number overflows, or where buffers end.
_BUFFERS: Final = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
_OTHERS: Final = tuple(at + by for at in _BUFFERS for by in (-1, 0, 1))
_EDGES: Final = tuple(sorted({1, 2, *_ENCODED, *_OTHERS}))
#: Sizes of frames whose heads come byte by byte: one for each form of the length.
_IN_PIECES: Final = (9, 300, 66_000)
#: Seconds between two bytes, in which a container has read the first one.
_BETWEEN = 0.003
_HEAD: Final = 14

_ENCODE = (
    "write a length up to 125 in the second byte, up to 65535 as 126 and two bytes, else as 127 "
    "and eight bytes; count bytes, not characters"
)


@checks.add(
    "lengths.text",
    "1.2-1",
    "1.3-1",
    title="a text of 1 to 65537 bytes comes back, at each edge of the length's encoding",
    remedy=_ENCODE,
    requires=("messages.text",),
    needs=(Need.ECHO,),
    limit=60,
)
async def text(trial: Trial) -> None:
    async with trial.stream("texts of all lengths") as peer:
        for size in _EDGES:
            # The second text shows a container that counts characters in place of bytes.
            for message in ("a" * size, long_text(size)):
                async with meanwhile(peer.say(message)):
                    await trial.echoed(peer, message, f"after a text message of {size} bytes")


@checks.add(
    "lengths.binary",
    "1.2-1",
    "1.3-1",
    title="a binary message of 1 to 65537 bytes comes back, at each edge of the length's encoding",
    remedy=_ENCODE,
    requires=("messages.binary",),
    needs=(Need.ECHO,),
    limit=60,
)
async def binary(trial: Trial) -> None:
    async with trial.stream("binary messages of all lengths") as peer:
        for size in _EDGES:
            message = long_bytes(size)
            async with meanwhile(peer.say(message)):
                await trial.echoed(peer, message, f"after a binary message of {size} bytes")


@checks.add(
    "lengths.fragments",
    "1.2-3",
    title="fragments come back at each edge of the length's encoding, at each place of a message",
    remedy="read the length of a continuation like that of any frame, and keep every fragment",
    requires=(
        *("lengths.text", "lengths.binary"),
        *("messages.binary_fragments", "messages.code_point"),
    ),
    needs=(Need.ECHO,),
    limit=60,
)
async def fragments(trial: Trial) -> None:
    async with trial.stream("fragments of all lengths") as peer:
        for size in _ENCODED:
            for message in (long_text(3 * size), long_bytes(3 * size)):
                kind, data = as_frame(message)
                pieces = [data[at : at + size] for at in range(0, len(data), size)]
                what = f"after a {kind.name.lower()} message in three fragments of {size} bytes"
                async with meanwhile(send_fragments(peer, kind, pieces)):
                    await trial.echoed(peer, message, what)


@checks.add(
    "lengths.pieces",
    "1.2-1",
    title="the container reads a frame whose bytes come one by one",
    remedy="read until a frame's head is complete, then until its payload is complete: one read "
    "may return a single byte",
    requires=("lengths.binary",),
    needs=(Need.ECHO,),
    limit=60,
)
async def pieces(trial: Trial) -> None:
    async with trial.stream("a frame byte by byte") as peer:
        for size in _IN_PIECES:
            message = long_bytes(size)
            data = frame_bytes(Opcode.BINARY, message)
            for at in range(_HEAD):
                await peer.send_raw(data[at : at + 1], f"byte {at + 1} of a frame")
                await asyncio.sleep(_BETWEEN)
            async with meanwhile(peer.send_raw(data[_HEAD:], "the rest of the frame")):
                what = f"after a binary frame of {size} bytes whose head came byte by byte"
                await trial.echoed(peer, message, what)
