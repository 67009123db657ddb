"""Whether a request's head is within its limits, however it came."""

from __future__ import annotations

from partway.gateway.serving.exchange import Exchange
from partway.protocol.heads import HEADER_OVERHEAD, head_too_large, target_too_long
from partway.protocol.limits import MAX_HEAD_BYTES, MAX_HEADER_LINE, MAX_HEADERS


def check_head(exchange: Exchange) -> None:
    """Refuse a request whose head is over the limits, however it came.

    Raises:
        TargetTooLong: path and query are over MAX_HEADER_LINE.
        HeadTooLarge: there are more than MAX_HEADERS headers, one of them is over MAX_HEADER_LINE,
            or all of the head is over MAX_HEAD_BYTES.
    """
    size = exchange.head_size
    if size is not None and size <= MAX_HEADER_LINE:
        return  # its headers have been counted, and no part of it can be over its limit
    target = _size(exchange.path) + _size(exchange.query) + bool(exchange.query)
    if target > MAX_HEADER_LINE:
        raise target_too_long()
    if len(exchange.raw_headers) > MAX_HEADERS:
        raise head_too_large()
    total = _size(exchange.method) + target
    for name, value in exchange.raw_headers:
        size = len(name) + len(value)
        if not (name.isascii() and value.isascii()) or name == ":authority":
            # HTTP/2's name for it has more bytes.
            size = _size("host" if name == ":authority" else name) + _size(value)
        if size > MAX_HEADER_LINE:
            raise head_too_large()
        total += size + HEADER_OVERHEAD
    if total > MAX_HEAD_BYTES:
        raise head_too_large()


def _size(text: str) -> int:
    """Count a text's bytes as they came."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
