"""HTTP/2 frames as bytes (RFC 9113 §4.1, §6): reading their heads, and writing some of them."""

from __future__ import annotations

import struct
from typing import Final

# Types.
DATA: Final = 0x0
HEADERS: Final = 0x1
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

# Flags.
ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY: Final = 0x20

#: A frame's head: its size, and the mask for the stream's number in its last four bytes.
HEAD_BYTES: Final = 9
#: A head's numbers: its length's upper 16 bits and lower 8, type, flags, and the stream's number.
HEAD: Final = struct.Struct("!HBBBI")
STREAM_ID: Final = 0x7FFF_FFFF

#: A GOAWAY's payload has at least two numbers of four bytes, the last stream's and an error code.
GOAWAY_BYTES: Final = 8


#: Size of the priority in a HEADERS frame: the stream that it depends on, and a weight (§6.2).
_PRIORITY_BYTES: Final = 5


def header_fragment(whole: bytes) -> bytes:
    """Return the part of a header block that a frame holds.

    HEADERS and CONTINUATION frames hold one (RFC 9113 §6.2, §6.10).
    """
    start, end = HEAD_BYTES, len(whole)
    if whole[3] == HEADERS:
        if whole[4] & PADDED and start < end:
            end -= whole[start]
            start += 1
        if whole[4] & PRIORITY:
            start += _PRIORITY_BYTES
    return whole[start:end]


def size_updates(block: bytes, most: int) -> int:
    """Count the changes of HPACK's table size at the beginning of a header block (RFC 7541 §6.3).

    The count stops at ``most``.
    """
    count = at = 0
    while count < most and at < len(block) and block[at] & 0xE0 == 0x20:
        count += 1
        is_long = block[at] & 0x1F == 0x1F  # the number continues in the next bytes (§5.1)
        at += 1
        while is_long and at < len(block):
            is_long = block[at] & 0x80 != 0
            at += 1
    return count


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Encode a frame (RFC 9113 §4.1)."""
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags))
    return head + stream_id.to_bytes(4, "big") + payload


def window_update(increment: int, stream_id: int = 0) -> bytes:
    """Encode a WINDOW_UPDATE frame (RFC 9113 §6.9)."""
    return frame(WINDOW_UPDATE, 0, stream_id, increment.to_bytes(4, "big"))


def rst_stream(stream_id: int, error_code: int) -> bytes:
    """Encode a RST_STREAM frame (RFC 9113 §6.4)."""
    return frame(RST_STREAM, 0, stream_id, error_code.to_bytes(4, "big"))


def goaway(last_stream_id: int, error_code: int) -> bytes:
    """Encode a GOAWAY frame (RFC 9113 §6.8)."""
    payload = last_stream_id.to_bytes(4, "big") + error_code.to_bytes(4, "big")
    return frame(GOAWAY, 0, 0, payload)
