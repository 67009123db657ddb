"""WebSocket frame decoding with every check of RFC 6455, and optional UTF-8 checks. Sans-IO.

``docs/discussion/frame-codec.md`` says why no library is used. Frames become bytes in
:mod:`partway.protocol.websocket.frames`.
"""

from __future__ import annotations

import codecs

from partway.protocol.limits import MAX_CONTROL_BYTES
from partway.protocol.websocket.close_codes import (
    INVALID_DATA,
    PROTOCOL_ERROR,
    TOO_BIG,
    Close,
    is_legal,
)
from partway.protocol.websocket.frames import Frame, Opcode
from partway.protocol.websocket.masking import apply_mask

# The named tuple's constructor, at half its cost.
_new = tuple.__new__
_new_utf8_decoder = codecs.getincrementaldecoder("utf-8")

_CONTINUATION = Opcode.CONTINUATION
_TEXT = Opcode.TEXT
_CLOSE = Opcode.CLOSE

_MASKED = 0x80
_LENGTH_16 = 126
_LENGTH_64 = 127


class FrameError(Exception):
    """The peer broke RFC 6455.

    Attributes:
        code: the close code for the peer.
        reason: the fault, with the section that forbids it.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def _first_bytes() -> list[tuple[Opcode, bool, bool, bool] | None]:
    """Build a table of the valid first bytes of a frame; None for a byte that the RFC forbids.

    An entry has the opcode, FIN, whether it is a control frame, and whether it continues a message.
    """
    table: list[tuple[Opcode, bool, bool, bool] | None] = [None] * 256
    for opcode in Opcode:
        control, continues = opcode >= _CLOSE, opcode is _CONTINUATION
        table[0x80 | opcode] = (opcode, True, control, continues)
        if not control:  # control frames are never fragmented (§5.5)
            table[opcode] = (opcode, False, control, continues)
    return table


_FIRST_BYTES = _first_bytes()


class FrameDecoder:
    """Bytes in, frames out.

    Feed it with :meth:`feed`, then call :meth:`next_frame` until it returns None. A caller that
    stops early leaves the rest in :attr:`buffered_bytes`, so nothing is delivered to a paused
    reader.

    Args:
        masked: whether the peer must mask: clients must, servers must not (§5.1).
        max_payload: largest payload; a larger one is refused from its header, before its bytes.
        check_text: whether text messages must be UTF-8, over all their fragments (§8.1).

    Rules, in the order a frame meets them:
        1. RSV bits are 0, the opcode is known, control frames have FIN (§5.2, §5.5;
           clause 1.5-4).
        2. MASK is set by a client and not by a server (§5.1).
        3. A control payload is at most 125 bytes (§5.5).
        4. A continuation continues a message, and a message ends before the next begins (§5.4;
           control frames may come between its fragments: clause 1.3-2).
        5. A length is written in its shortest form, its top bit is 0 (§5.2).
        6. A payload has at most ``max_payload`` (1009; clauses 1.3-3, 1.5-6).
        7. Close: empty, or a legal code and a UTF-8 reason (§5.5.1, §7.4; 1002, 1007;
           clauses 1.5-4, 1.5-5).
        8. Text is UTF-8, if asked (1007; clause 1.1-8).
        9. Bytes after a Close or after an error are ignored (§1.4, §7.1.7).
    """

    __slots__ = (
        "_at",
        "_buffer",
        "_check_text",
        "_finished",
        "_mask_bit",
        "_max_payload",
        "_mid_message",
        "_need",
        "_utf8",
    )

    def __init__(self, *, masked: bool, max_payload: int, check_text: bool = False) -> None:
        self._mask_bit = _MASKED if masked else 0
        self._max_payload = max_payload
        self._check_text = check_text
        self._utf8: codecs.IncrementalDecoder | None = None
        # Frames are cut straight out of the bytes of one read; only an unfinished frame is gathered
        # in a bytearray, so that a long frame takes linear time.
        self._buffer: bytes | bytearray = b""
        self._at = 0
        self._need = 2
        self._mid_message = False
        self._finished = False

    @property
    def buffered_bytes(self) -> int:
        """Bytes that were fed but not delivered as frames."""
        return len(self._buffer) - self._at

    @property
    def mid_message(self) -> bool:
        return self._mid_message

    def feed(self, data: bytes) -> None:
        """Take in bytes of the connection. The caller must then call :meth:`next_frame`."""
        if self._finished:  # rule 9
            return
        if self._at == len(self._buffer):
            self._buffer = data
        elif isinstance(self._buffer, bytearray):
            del self._buffer[: self._at]
            self._buffer += data
        else:
            gathered = bytearray(self._buffer[self._at :])
            gathered += data
            self._buffer = gathered
        self._at = 0

    def next_frame(self) -> Frame | None:  # noqa: C901 (one frame is one pass, for speed)
        """Return the next whole frame, or None until more bytes come.

        Raises:
            FrameError: the peer broke a rule; the decoder takes nothing more.
        """
        buffer = self._buffer
        at = self._at
        available = len(buffer) - at
        if available < self._need:
            self._wait_for(self._need)
            return None

        kind = _FIRST_BYTES[buffer[at]]
        if kind is None:  # rule 1
            raise self._refuse(_first_byte_fault(buffer[at]))
        opcode, fin, control, continues = kind
        length = buffer[at + 1] ^ self._mask_bit
        if length & _MASKED:  # rule 2
            wanted = "masked" if self._mask_bit else "unmasked"
            raise self._refuse(f"the frame is not {wanted} (§5.1)")
        header = 2
        if control:
            if length > MAX_CONTROL_BYTES:  # rule 3
                raise self._refuse("a control frame must hold at most 125 bytes (§5.5)")
        elif continues is not self._mid_message:  # rule 4
            raise self._refuse(
                "a message began inside another (§5.4)"
                if self._mid_message
                else "a continuation frame continues nothing (§5.4)"
            )
        if length >= _LENGTH_16:
            header = 4 if length == _LENGTH_16 else 10
            if available < header:
                self._wait_for(header)
                return None
            shortest = _LENGTH_16 if length == _LENGTH_16 else 0x10000
            length = int.from_bytes(buffer[at + 2 : at + header], "big")
            if length < shortest or length >> 63:  # rule 5
                raise self._refuse("the length must be in its shortest form (§5.2)")
        if length > self._max_payload and not control:  # rule 6
            raise self._refuse(
                f"a frame has {length} bytes; it must have at most {self._max_payload}", TOO_BIG
            )

        start = at + header
        if self._mask_bit:
            start += 4
        end = start + length
        if len(buffer) < end:
            self._wait_for(end - at)
            return None
        if isinstance(buffer, bytes):
            payload = buffer[start:end]
        else:
            payload = bytes(memoryview(buffer)[start:end])
        if self._mask_bit:
            payload = apply_mask(payload, buffer[start - 4 : start])
        if end == len(buffer):
            # Delivered bytes are not kept: the next read may come an hour later.
            self._buffer = b""
            self._at = 0
        else:
            self._at = end
        self._need = 2

        if control:
            if opcode is _CLOSE:
                self._finish()
                decode_close(payload)  # rule 7
        else:
            self._mid_message = not fin
            if self._check_text:
                self._check_utf8(opcode, payload, fin)
        return _new(Frame, (opcode, payload, fin))

    def _wait_for(self, need: int) -> None:
        """Keep the beginning of a frame; free the frames delivered before it."""
        self._need = need
        if self._at:
            self._buffer = bytearray(memoryview(self._buffer)[self._at :])
            self._at = 0

    def _check_utf8(self, opcode: Opcode, payload: bytes, fin: bool) -> None:
        try:
            if opcode is _TEXT:
                if fin:
                    payload.decode()
                    return
                self._utf8 = _new_utf8_decoder()
            if self._utf8 is not None:
                self._utf8.decode(payload, fin)
                if fin:
                    self._utf8 = None
        except UnicodeDecodeError:  # rule 8
            raise self._refuse("a text message is not UTF-8 (§8.1)", INVALID_DATA) from None

    def _refuse(self, reason: str, code: int = PROTOCOL_ERROR) -> FrameError:
        self._finish()
        return FrameError(code, reason)

    def _finish(self) -> None:
        self._finished = True  # rule 9
        self._buffer = b""
        self._at = 0
        self._need = 2


def _first_byte_fault(first: int) -> str:
    if first & 0x70:
        return "an RSV bit is set, and no extension was agreed on (§5.2)"
    if first & 0x0F in (Opcode.CLOSE, Opcode.PING, Opcode.PONG):
        return "a control frame is fragmented (§5.5)"
    return f"unknown opcode {first & 0x0F:#x} (§5.2)"


def decode_close(payload: bytes) -> Close:
    """Decode the payload of a Close frame (rule 7).

    Raises:
        FrameError: the payload is one byte or has an illegal code (1002), or its reason is not
            UTF-8 (1007).
    """
    if not payload:
        return Close()
    code = int.from_bytes(payload[:2], "big")
    if len(payload) == 1 or not is_legal(code):
        one = len(payload) == 1
        what = (
            "a close code must have two bytes, not one" if one else f"close code {code} is illegal"
        )
        raise FrameError(PROTOCOL_ERROR, f"{what} (§7.4)")
    try:
        return Close(code, payload[2:].decode())
    except UnicodeDecodeError:
        raise FrameError(INVALID_DATA, "a close reason is not UTF-8 (§5.5.1)") from None
