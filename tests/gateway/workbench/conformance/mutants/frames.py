"""Mutants whose own frames break RFC 6455 (§5.1 and §5.2)."""

from __future__ import annotations

from tests.frame_factory import BINARY, CONTINUATION, KEY, PONG, TEXT, frame
from tests.gateway.workbench.conformance.mutants.base_stream import Stream
from tests.gateway.workbench.conformance.mutants.registry import mutant


@mutant("messages.answer")
class Masks(Stream):
    """Masks its messages, as only a client does."""

    def encode(self, opcode: int, payload: bytes, fin: bool = True) -> bytes:
        return frame(opcode, payload, fin=fin, mask=KEY if opcode == TEXT else None)


@mutant("messages.answer")
class SetsRsv(Stream):
    """Sets RSV1 without an extension that would mean something by it."""

    def encode(self, opcode: int, payload: bytes, fin: bool = True) -> bytes:
        return frame(opcode, payload, fin=fin, rsv=4 if opcode == TEXT else 0)


@mutant("messages.answer")
class ReservedOpcode(Stream):
    """Sends text with the reserved opcode 3."""

    def encode(self, opcode: int, payload: bytes, fin: bool = True) -> bytes:
        return frame(3 if opcode == TEXT else opcode, payload, fin=fin)


@mutant("messages.binary")
class LongLength(Stream):
    """Writes the length of binary in eight bytes, however short it is."""

    def encode(self, opcode: int, payload: bytes, fin: bool = True) -> bytes:
        return frame(opcode, payload, fin=fin, length_form=64 if opcode == BINARY else None)


@mutant("messages.answer")
class UnsolicitedContinuation(Stream):
    """Sends a continuation of nothing before each text."""

    async def on_text(self, text: str) -> None:
        await self.send(CONTINUATION, b"")
        await super().on_text(text)


@mutant("messages.answer")
class NeverFinishes(Stream):
    """Leaves each text without its FIN."""

    async def on_text(self, text: str) -> None:
        await self.send(TEXT, text.encode(), fin=False)


@mutant("control.pong_sizes")
class LongPong(Stream):
    """Answers a Ping of 125 bytes with a Pong of 126."""

    async def on_ping(self, payload: bytes) -> None:
        await self.send(PONG, payload + b"!" if len(payload) == 125 else payload)


@mutant("messages.answer")
class BadText(Stream):
    """Sends text that is not UTF-8."""

    async def on_text(self, text: str) -> None:
        await self.send(TEXT, text.encode("utf-16"))
