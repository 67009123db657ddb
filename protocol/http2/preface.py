"""Recognition of a connection's HTTP version by its first bytes (clause 2.5-6)."""

from __future__ import annotations

import enum

#: The client connection preface (RFC 9113 §3.4). By design, "PRI" is not an HTTP/1.1 method.
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class FirstBytes(enum.Enum):
    """Which version of HTTP a connection's first bytes belong to."""

    UNDECIDED = "undecided"
    HTTP1 = "HTTP/1.1"
    HTTP2 = "HTTP/2"


def opening_of(received: bytes) -> FirstBytes:
    """Classify a connection by everything received so far.

    The result is ``UNDECIDED`` as long as the bytes are a beginning of the preface, 23 bytes at
    most. All other bytes go to the HTTP/1.1 parser, garbage included: one parser decides.
    """
    if received.startswith(HTTP2_PREFACE):
        return FirstBytes.HTTP2
    if HTTP2_PREFACE.startswith(received):
        return FirstBytes.UNDECIDED
    return FirstBytes.HTTP1
