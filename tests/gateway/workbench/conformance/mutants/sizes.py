"""Mutants with a limit below the documented 16 MiB, or with an end to what they keep (1.3-3)."""

from __future__ import annotations

from tests.frame_factory import BINARY, CONTINUATION, TEXT
from tests.gateway.workbench.conformance.mutants.base_stream import Stream, Violation
from tests.gateway.workbench.conformance.mutants.registry import mutant

#: What libraries take of a message unless they are told otherwise: websockets, aiohttp.
WEBSOCKETS, AIOHTTP = 1 << 20, 4 << 20
DOCUMENTED = 16 << 20


@mutant("sizes.text")
class RefusesLargeText(Stream):
    """Closes with 1009 when a text has more than 1 MiB."""

    async def on_text(self, text: str) -> None:
        if len(text.encode()) > WEBSOCKETS:
            raise Violation(1009, "too large")
        await super().on_text(text)


@mutant("sizes.binary", "sizes.text")
class LibrarysLimit(Stream):
    """Closes with 1009 when a message has 4 MiB or more."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        if len(payload) + (len(self.begun[1]) if self.begun else 0) >= AIOHTTP:
            raise Violation(1009, "too large")
        await super().on_data(fin, opcode, payload)


@mutant("sizes.binary")
class OneTooFew(Stream):
    """Closes with 1009 when a binary message has the whole 16 MiB."""

    async def on_binary(self, data: bytes) -> None:
        if len(data) >= DOCUMENTED:
            raise Violation(1009, "too large")
        await super().on_binary(data)


@mutant("sizes.text")
class CutsLargeText(Stream):
    """Cuts a text at 256 KiB."""

    async def on_text(self, text: str) -> None:
        await super().on_text(text[: 256 << 10])


@mutant("sizes.binary")
class MixesUpPieces(Stream):
    """Writes the last of a binary message's pieces of 1 MiB as the second."""

    async def on_binary(self, data: bytes) -> None:
        pieces = [data[at : at + (1 << 20)] for at in range(0, len(data), 1 << 20)]
        await super().on_binary(b"".join([*pieces[:1], *pieces[:0:-1]]))


class _Joins(Stream):
    """Has a limit on what it joins of fragments of one kind."""

    kind, limit = BINARY, 1 << 20

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        kind, joined = self.begun or (0, b"")
        over = len(joined) + len(payload) > self.limit
        if opcode == CONTINUATION and kind == self.kind and over:
            raise Violation(1009, "too much to join")
        await super().on_data(fin, opcode, payload)


@mutant("sizes.binary_fragments")
class JoinsLittle(_Joins):
    """Closes with 1009 when the fragments of a binary message have more than 1 MiB together."""


@mutant("sizes.text_fragments")
class JoinsLittleText(_Joins):
    """Closes with 1009 when the fragments of a text have more than 256 KiB together."""

    kind, limit = TEXT, 256 << 10


@mutant("sizes.taken")
class RefusesLargeFrames(Stream):
    """Closes with 1009 at a frame of more than 8 MiB that is not all of its message."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        if not fin and len(payload) > 8 << 20:
            raise Violation(1009, "too large a fragment")
        await super().on_data(fin, opcode, payload)


@mutant("sizes.binary")
class KeepsTail(Stream):
    """Says the rest of a binary message of more than 1 MiB behind the next one."""

    tail = b""

    async def on_binary(self, data: bytes) -> None:
        await super().on_binary(data + self.tail[len(data) : len(data) + 100])
        self.tail = data if len(data) > WEBSOCKETS else b""
