"""Raw WebSocket frames for tests, made and read with ``struct`` alone.

Nothing here comes from the code under test, nor from a library: a frame is what RFC 6455 §5.2
draws, and every field can be made wrong.

>>> frame(TEXT, b"hi").hex()
'81026869'
>>> frame(TEXT, b"hi", mask=b"\\0\\0\\0\\0").hex()
'8182000000006869'
>>> read_frames(frame(PING, b"1") + b"\\x8a")
([RawFrame(fin=True, opcode=9, masked=False, key=b'', payload=b'1')], b'\\x8a')
"""

from __future__ import annotations

import struct
from itertools import cycle
from typing import NamedTuple

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA

#: A masking key for tests that do not care which.
KEY = b"\x37\xfa\x21\x3d"  # RFC 6455 §5.7's example


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    rsv: int = 0,
    mask: bytes | None = None,
    length_form: int | None = None,
    announced: int | None = None,
) -> bytes:
    """One frame as bytes.

    Args:
        opcode: 0 to 15.
        payload: unmasked.
        fin: the FIN bit.
        rsv: the three RSV bits as a number, RSV1 being 4.
        mask: the masking key; None leaves the frame unmasked.
        length_form: 7, 16 or 64 bits for the length, the shortest that fits by default.
        announced: the length in the header, that of ``payload`` by default.
    """
    length = len(payload) if announced is None else announced
    if length_form is None:
        length_form = 7 if length < 126 else 16 if length < 1 << 16 else 64
    first = fin << 7 | rsv << 4 | opcode
    bit = 0 if mask is None else 0x80
    if length_form == 7:
        if length > 125:
            raise ValueError("125 at most in seven bits")
        header = struct.pack("!BB", first, bit | length)
    elif length_form == 16:
        header = struct.pack("!BBH", first, bit | 126, length)
    elif length_form == 64:
        header = struct.pack("!BBQ", first, bit | 127, length)
    else:
        raise ValueError("a length has 7, 16 or 64 bits")
    if mask is None:
        return header + payload
    return header + mask + xor(payload, mask)


def close(code: int | None = None, reason: bytes = b"", **fields: object) -> bytes:
    """A Close frame; any code at all, or none."""
    payload = b"" if code is None else struct.pack("!H", code) + reason
    return frame(CLOSE, payload, **fields)  # type: ignore[arg-type]


def xor(payload: bytes, key: bytes) -> bytes:
    """Masked from unmasked and back (RFC 6455 §5.3)."""
    if len(key) != 4:
        raise ValueError("a masking key is four bytes")
    if len(payload) < 64:
        return bytes(byte ^ k for byte, k in zip(payload, cycle(key)))
    repeated = (key * (len(payload) // 4 + 1))[: len(payload)]
    mixed = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
    return mixed.to_bytes(len(payload), "big")


class RawFrame(NamedTuple):
    """One frame as it was on the wire, its payload unmasked."""

    fin: bool
    opcode: int
    masked: bool
    key: bytes
    payload: bytes

    @property
    def close_code(self) -> int | None:
        """The code of a Close, or None where it has none."""
        return struct.unpack("!H", self.payload[:2])[0] if self.payload else None

    @property
    def close_reason(self) -> str:
        return self.payload[2:].decode()


def read_frame(data: bytes) -> tuple[RawFrame, bytes] | None:
    """The first frame of ``data`` and what is behind it, or None while it is not whole.

    Raises:
        ValueError: an RSV bit, an unknown opcode, a fragmented or overlong control frame, or a
            length that is not in its shortest form. The order of frames is the caller's to check.
    """
    if len(data) < 2:
        return None
    first, second = data[0], data[1]
    fin, opcode, masked, length = bool(first >> 7), first & 0xF, bool(second >> 7), second & 0x7F
    if first & 0x70:
        raise ValueError(f"RSV bits in {first:#04x}")
    if opcode not in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
        raise ValueError(f"opcode {opcode}")
    if opcode >= CLOSE and (not fin or length > 125):
        raise ValueError("a control frame that is fragmented or too long")
    at = 2
    if length >= 126:
        form, size, least = ("!H", 2, 126) if length == 126 else ("!Q", 8, 1 << 16)
        if len(data) < at + size:
            return None
        (length,) = struct.unpack_from(form, data, at)
        if not least <= length < 1 << 63:
            raise ValueError(f"length {length} in {size} bytes")
        at += size
    key = bytes(data[at : at + 4]) if masked else b""
    at += 4 if masked else 0
    if len(data) < at + length:
        return None
    payload = bytes(data[at : at + length])
    whole = RawFrame(fin, opcode, masked, key, xor(payload, key) if masked else payload)
    return whole, bytes(data[at + length :])


def read_frames(data: bytes) -> tuple[list[RawFrame], bytes]:
    """All whole frames of ``data``, and the bytes of the unfinished one behind them."""
    frames = []
    while (found := read_frame(data)) is not None:
        whole, data = found
        frames.append(whole)
    return frames, data
