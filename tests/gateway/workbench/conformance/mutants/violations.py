"""Mutants that let pass what RFC 6455 tells a server to refuse, or refuse it without a word."""

from __future__ import annotations

import codecs
import struct

from tests.frame_factory import CLOSE, CONTINUATION
from tests.gateway.workbench.conformance.mutants.base_stream import Stream, Violation
from tests.gateway.workbench.conformance.mutants.registry import mutant


@mutant("violations.unmasked")
class AcceptsUnmasked(Stream):
    """Takes frames without a mask."""

    def check_mask(self, masked: bool) -> None:
        pass


@mutant("violations.rsv")
class AcceptsRsv(Stream):
    """Takes frames with RSV bits."""

    def check_rsv(self, rsv: int) -> None:
        pass


@mutant("violations.opcode")
class AcceptsReserved(Stream):
    """Passes over frames with reserved opcodes."""

    def check_opcode(self, opcode: int) -> None:
        pass

    async def take(self, fin: bool, opcode: int, payload: bytes) -> None:
        if opcode <= 2 or 8 <= opcode <= 10:
            await super().take(fin, opcode, payload)


@mutant("violations.long_ping")
class AcceptsLongPing(Stream):
    """Answers a Ping of more than 125 bytes."""

    def check_control_length(self, length: int) -> None:
        pass

    async def on_ping(self, payload: bytes) -> None:
        await super().on_ping(payload[:125])


@mutant("violations.fragmented_ping")
class AcceptsFragmentedPing(Stream):
    """Takes control frames in fragments."""

    def check_control_fin(self, fin: bool) -> None:
        pass


@mutant("violations.continuation")
class AcceptsContinuation(Stream):
    """Takes a continuation of nothing for a message."""

    def check_order(self, opcode: int) -> None:
        if opcode != CONTINUATION:
            super().check_order(opcode)


@mutant("violations.inside")
class AcceptsNested(Stream):
    """Takes a message that begins inside another one."""

    def check_order(self, opcode: int) -> None:
        if opcode == CONTINUATION:
            super().check_order(opcode)


@mutant("violations.utf8")
class AcceptsBadText(Stream):
    """Takes text that is not UTF-8."""

    def text_of(self, payload: bytes) -> str:
        return payload.decode(errors="replace")

    def reason_of(self, payload: bytes) -> str:
        return super().text_of(payload)


@mutant("violations.utf8_fragments")
class AcceptsBadFragments(Stream):
    """Takes text that is not UTF-8 if it comes in fragments."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        self.whole = fin and opcode != CONTINUATION
        await super().on_data(fin, opcode, payload)

    def text_of(self, payload: bytes) -> str:
        return super().text_of(payload) if self.whole else payload.decode(errors="replace")

    def reason_of(self, payload: bytes) -> str:
        return super().text_of(payload)


@mutant("violations.utf8")
class BadTextIsProtocolError(Stream):
    """Refuses text that is not UTF-8 with 1002 instead of 1007."""

    def text_of(self, payload: bytes) -> str:
        try:
            return super().text_of(payload)
        except Violation as violation:
            raise Violation(1002, violation.reason) from None

    def reason_of(self, payload: bytes) -> str:
        return super().text_of(payload)


@mutant("violations.close_code")
class AcceptsCloseCode(Stream):
    """Takes a Close with a code that there is not."""

    def check_close_code(self, code: int) -> None:
        pass


@mutant("violations.close_byte")
class AcceptsHalfCode(Stream):
    """Takes a Close with one byte for a normal one."""

    async def on_close(self, payload: bytes) -> None:
        await super().on_close(struct.pack("!H", 1000) if len(payload) == 1 else payload)


@mutant("violations.close_reason")
class AcceptsBadReason(Stream):
    """Takes a Close whose reason is not UTF-8."""

    def reason_of(self, payload: bytes) -> str:
        return payload.decode(errors="replace")


@mutant("violations.code")
class ClosesWithoutCode(Stream):
    """Says a Close without a code where something is wrong."""

    async def fail(self, violation: Violation) -> None:
        self.closing = True
        await self.send(CLOSE, b"")
        await self.end()


@mutant("violations.code")
class EndsWithoutClose(Stream):
    """Cuts the connection, without a Close, where something is wrong."""

    async def fail(self, violation: Violation) -> None:
        await self.end()


@mutant("violations.utf8_cut")
class AcceptsCutText(Stream):
    """Takes text that ends inside a code point, and leaves that out."""

    def text_of(self, payload: bytes) -> str:
        try:
            return codecs.getincrementaldecoder("utf-8")().decode(payload)
        except UnicodeDecodeError:
            raise Violation(1007, "the text is not UTF-8") from None

    def reason_of(self, payload: bytes) -> str:
        return super().text_of(payload)


@mutant("violations.utf8_overlong")
class AcceptsOverlong(Stream):
    """Takes NUL in two bytes, as Java's modified UTF-8 has it."""

    def text_of(self, payload: bytes) -> str:
        return super().text_of(payload.replace(b"\xc0\x80", b"\0"))


@mutant("violations.utf8_late")
class ChecksBeginning(Stream):
    """Looks for UTF-8 in the first 4 KiB of a text."""

    def text_of(self, payload: bytes) -> str:
        super().text_of(payload[:4096].rstrip(b"\xc3"))
        return payload.decode(errors="replace")


@mutant("violations.utf8_last")
class ChecksFragments(AcceptsCutText):
    """Looks for UTF-8 as fragments come, and not at their end."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        self.whole = fin and opcode != CONTINUATION
        await super().on_data(fin, opcode, payload)

    def text_of(self, payload: bytes) -> str:
        return self.reason_of(payload) if self.whole else super().text_of(payload)
