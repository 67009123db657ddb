"""Mutants that go wrong at an edge of how lengths are encoded (RFC 6455 §5.2)."""

from __future__ import annotations

import struct

from tests.frame_factory import BINARY, CONTINUATION, PING, PONG, TEXT, frame
from tests.gateway.workbench.conformance.mutants.base_stream import Stream, Violation
from tests.gateway.workbench.conformance.mutants.registry import mutant


@mutant("lengths.text")
class LongLengthAtEdge(Stream):
    """Writes the length of a text of 125 bytes in two bytes more than it needs."""

    def encode(self, opcode: int, payload: bytes, fin: bool = True) -> bytes:
        long = opcode == TEXT and len(payload) == 125
        return frame(opcode, payload, fin=fin, length_form=16 if long else None)


@mutant("lengths.binary")
class LongestLengthAtEdge(Stream):
    """Writes the length of 65535 bytes in eight bytes, where two are enough."""

    def encode(self, opcode: int, payload: bytes, fin: bool = True) -> bytes:
        long = opcode == BINARY and len(payload) == 65535
        return frame(opcode, payload, fin=fin, length_form=64 if long else None)


@mutant("lengths.text")
class WrapsLength(Stream):
    """Writes the length of a text of 64 KiB in two bytes, where it is 0."""

    def encode(self, opcode: int, payload: bytes, fin: bool = True) -> bytes:
        if opcode == TEXT and len(payload) == 1 << 16:
            return struct.pack("!BBH", fin << 7 | opcode, 126, 0) + payload
        return super().encode(opcode, payload, fin)


@mutant("lengths.text", "lengths.binary")
class DropsMark(Stream):
    """Loses a message of 126 bytes: it takes the length for the mark of a longer one."""

    async def on_text(self, text: str) -> None:
        if len(text.encode()) != 126:
            await super().on_text(text)

    async def on_binary(self, data: bytes) -> None:
        if len(data) != 126:
            await super().on_binary(data)


@mutant("lengths.text")
class RefusesLongestShort(Stream):
    """Closes with 1009 at a text of exactly 65535 bytes."""

    async def on_text(self, text: str) -> None:
        if len(text.encode()) == 65535:
            raise Violation(1009, "too large")
        await super().on_text(text)


@mutant("lengths.binary")
class SignedLength(Stream):
    """Takes a binary message's length of two bytes for a number with a sign."""

    async def on_binary(self, data: bytes) -> None:
        if 1 << 15 <= len(data) < 1 << 16:
            raise ConnectionResetError("a negative length")
        await super().on_binary(data)


@mutant("lengths.text")
class CountsCharacters(Stream):
    """Cuts a text's bytes at its number of characters where that has two bytes."""

    async def on_text(self, text: str) -> None:
        data = text.encode()
        await self.send(TEXT, data[: len(text)] if len(text) > 125 else data)


@mutant("lengths.text")
class TextBuffer(Stream):
    """Closes with 1009 when a text has more than 8 KiB, as Tomcat does by default."""

    async def on_text(self, text: str) -> None:
        if len(text) > 8 << 10:
            raise Violation(1009, "no async message support and buffer too small")
        await super().on_text(text)


@mutant("lengths.fragments")
class DropsMarkedContinuation(Stream):
    """Loses a continuation of 127 bytes."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        lost = opcode == CONTINUATION and len(payload) == 127
        await super().on_data(fin, opcode, b"" if lost else payload)


@mutant("lengths.fragments")
class RefusesLongFirst(Stream):
    """Ends the stream where a message's first fragment has a length of eight bytes."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        if not fin and opcode == BINARY and len(payload) >= 1 << 16:
            raise ConnectionResetError("it expects 126")
        await super().on_data(fin, opcode, payload)


@mutant("lengths.pieces")
class WholeHeads(Stream):
    """Ends the stream where a frame's head does not come in one piece."""

    async def read_frame(self) -> tuple[bool, int, bytes]:
        first = await self.reader.readexactly(1)
        if not self.reader._buffer:  # type: ignore[attr-defined]  (what has come with it)
            raise Violation(1002, "half a head")
        self.reader._buffer[:0] = first  # type: ignore[attr-defined]
        return await super().read_frame()


@mutant("control.pong_sizes")
class CutsPongAtEdge(Stream):
    """Cuts the last byte of a Pong of 124 bytes."""

    async def on_ping(self, payload: bytes) -> None:
        await self.send(PONG, payload[:-1] if len(payload) == 124 else payload)


@mutant("control.pong_sizes")
class RefusesShortPing(Stream):
    """Ends the stream at a Ping of one byte."""

    async def take(self, fin: bool, opcode: int, payload: bytes) -> None:
        if opcode == PING and len(payload) == 1:
            raise Violation(1002, "half a counter")
        await super().take(fin, opcode, payload)


@mutant("lengths.binary")
class FullBuffer(Stream):
    """Says a binary message twice that fills its buffer of 2 KiB."""

    async def on_binary(self, data: bytes) -> None:
        await super().on_binary(2 * data if len(data) == 2048 else data)
