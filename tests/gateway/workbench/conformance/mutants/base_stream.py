"""A container that keeps the contract: a stream of it, RFC 6455 on asyncio alone.

Every behaviour is a method, for a mutant to do wrong.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from typing import Final

from tests.frame_factory import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, frame, xor

MAX_MESSAGE: Final = 16 << 20
#: Seconds for the other side to end its connection.
LINGER: Final = 2.0


class Violation(Exception):
    """The client has broken RFC 6455.

    Args:
        code: of the Close that says so.
        reason: likewise.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Finished(Exception):
    """Both sides have said Close."""


class Stream:
    """One conversation, in which everything is said again.

    Attributes:
        begun: opcode and bytes of the message that is being received, if one is.
        closing: whether this side has said Close.
        ended: set when nothing more comes of it.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.begun: tuple[int, bytearray] | None = None
        self.closing = False
        self.ended = asyncio.Event()

    async def run(self) -> None:
        """Converse until the end, whoever makes it."""
        try:
            while True:
                await self.take(*await self.read_frame())
        except Finished:
            await self.end()
        except Violation as violation:
            await self.fail(violation)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.lost()
        finally:
            self.ended.set()

    # --- Receiving --------------------------------------------------------------------------------

    async def read_frame(self) -> tuple[bool, int, bytes]:
        """FIN, opcode and payload of the next frame."""
        first, second = await self.reader.readexactly(2)
        fin, rsv, opcode = bool(first & 0x80), first >> 4 & 7, first & 0xF
        masked, length = bool(second & 0x80), second & 0x7F
        self.check_head(fin, rsv, opcode, masked, length)
        if length == 126:
            (length,) = struct.unpack("!H", await self.reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self.reader.readexactly(8))
        if length > MAX_MESSAGE:
            raise Violation(1009, "the frame is too large")
        key = await self.reader.readexactly(4) if masked else b""
        payload = await self.reader.readexactly(length)
        return fin, opcode, xor(payload, key) if masked else payload

    def check_head(self, fin: bool, rsv: int, opcode: int, masked: bool, length: int) -> None:
        self.check_rsv(rsv)
        self.check_opcode(opcode)
        self.check_mask(masked)
        if opcode >= CLOSE:
            self.check_control(fin, length)

    def check_rsv(self, rsv: int) -> None:
        if rsv:
            raise Violation(1002, "an RSV bit is set")

    def check_opcode(self, opcode: int) -> None:
        if opcode not in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
            raise Violation(1002, "the opcode is reserved")

    def check_mask(self, masked: bool) -> None:
        if not masked:
            raise Violation(1002, "the frame is not masked")

    def check_control(self, fin: bool, length: int) -> None:
        self.check_control_fin(fin)
        self.check_control_length(length)

    def check_control_fin(self, fin: bool) -> None:
        if not fin:
            raise Violation(1002, "a control frame is fragmented")

    def check_control_length(self, length: int) -> None:
        if length > 125:
            raise Violation(1002, "a control frame is too long")

    def check_order(self, opcode: int) -> None:
        if opcode == CONTINUATION and self.begun is None:
            raise Violation(1002, "a continuation of nothing")
        if opcode != CONTINUATION and self.begun is not None:
            raise Violation(1002, "a message inside a message")

    def text_of(self, payload: bytes) -> str:
        try:
            return payload.decode()
        except UnicodeDecodeError:
            raise Violation(1007, "the text is not UTF-8") from None

    async def take(self, fin: bool, opcode: int, payload: bytes) -> None:
        match opcode:
            case 0x8:
                await self.on_close(payload)
            case 0x9:
                await self.on_ping(payload)
            case 0xA:
                await self.on_pong(payload)
            case _:
                await self.on_data(fin, opcode, payload)

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        """Add a fragment to its message, and give the message on when it is whole."""
        self.check_order(opcode)
        if self.begun is None:
            self.begun = opcode, bytearray()
        kind, whole = self.begun
        whole += payload
        if len(whole) > MAX_MESSAGE:
            raise Violation(1009, "the message is too large")
        if fin:
            self.begun = None
            if kind == TEXT:
                await self.on_text(self.text_of(bytes(whole)))
            else:
                await self.on_binary(bytes(whole))

    async def on_text(self, text: str) -> None:
        await self.send(TEXT, text.encode())

    async def on_binary(self, data: bytes) -> None:
        await self.send(BINARY, data)

    async def on_ping(self, payload: bytes) -> None:
        await self.send(PONG, payload)

    async def on_pong(self, payload: bytes) -> None:
        """Nobody was asked; RFC 6455 §5.5.3 allows it."""

    async def on_close(self, payload: bytes) -> None:
        """Answer with the same code, unless this is the answer."""
        self.check_close(payload)
        if not self.closing:
            self.closing = True
            await self.send(CLOSE, payload[:2])
        raise Finished

    def check_close(self, payload: bytes) -> None:
        if not payload:
            return
        if len(payload) == 1:
            raise Violation(1002, "half a close code")
        self.check_close_code(*struct.unpack("!H", payload[:2]))
        self.reason_of(payload[2:])

    def reason_of(self, payload: bytes) -> str:
        return self.text_of(payload)

    def check_close_code(self, code: int) -> None:
        if code not in range(3000, 5000) and (
            code not in range(1000, 1015) or code in (1004, 1005, 1006)
        ):
            raise Violation(1002, "no such close code")

    # --- Sending ----------------------------------------------------------------------------------

    def encode(self, opcode: int, payload: bytes, fin: bool = True) -> bytes:
        return frame(opcode, payload, fin=fin)

    async def send(self, opcode: int, payload: bytes, fin: bool = True) -> None:
        self.writer.write(self.encode(opcode, payload, fin))
        await self.writer.drain()

    async def send_close(self, code: int, reason: str) -> None:
        self.closing = True
        with suppress(ConnectionError):
            await self.send(CLOSE, struct.pack("!H", code) + reason.encode())

    # --- Its end ----------------------------------------------------------------------------------

    async def fail(self, violation: Violation) -> None:
        """Say what was wrong, and end (RFC 6455 §7.1.7)."""
        if not self.closing:
            await self.send_close(violation.code, violation.reason)
        await self.end()

    async def end(self) -> None:
        """End this side first; what is unread is read, or the end would be a reset."""
        with suppress(ConnectionError, TimeoutError):
            self.writer.write_eof()
            async with asyncio.timeout(LINGER):
                while await self.reader.read(MAX_MESSAGE):
                    pass

    def lost(self) -> None:
        """The connection has ended without a Close; nothing is left of it."""
