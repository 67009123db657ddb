"""Size limits of a request's head, in every version of HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from partway.protocol.errors import HeadTooLarge, TargetTooLong
from partway.protocol.limits import MAX_HEAD_BYTES, MAX_HEADER_LINE, MAX_HEADERS

#: Bytes counted for a header beside its own (RFC 9113 §6.5.2).
HEADER_OVERHEAD: Final = 32


def target_too_long() -> TargetTooLong:
    return TargetTooLong(
        f"the request's target is too long; it must have at most {MAX_HEADER_LINE} bytes"
    )


def head_too_large() -> HeadTooLarge:
    """Make the error for a head over any other limit."""
    return HeadTooLarge(
        f"the request's head is too large; it must have at most {MAX_HEADERS} headers, each of at "
        f"most {MAX_HEADER_LINE} bytes with its name, and at most {MAX_HEAD_BYTES} bytes in all; "
        f"each header counts as {HEADER_OVERHEAD} bytes more than its name and value"
    )


class HasHead(Protocol):
    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def query(self) -> str:
        """The text after the path's question mark."""

    @property
    def head_size(self) -> int | None:
        """Bytes of its target and headers, as RFC 9113 §6.5.2 counts them; None if not counted."""

    @property
    def raw_headers(self) -> Sequence[tuple[str, str]]: ...


def check_head(head: HasHead) -> None:
    """Refuse a request whose head is over the limits, in any version of HTTP.

    Raises:
        TargetTooLong: path and query are over MAX_HEADER_LINE.
        HeadTooLarge: there are more than MAX_HEADERS headers, one of them is over MAX_HEADER_LINE,
            or the whole head is over MAX_HEAD_BYTES.
    """
    size = head.head_size
    if size is not None and size <= MAX_HEADER_LINE:
        return  # its headers were counted, and with this total no part can be over its limit
    target = _size(head.path) + _size(head.query) + bool(head.query)
    if target > MAX_HEADER_LINE:
        raise target_too_long()
    if len(head.raw_headers) > MAX_HEADERS:
        raise head_too_large()
    total = _size(head.method) + target
    for name, value in head.raw_headers:
        size = len(name) + len(value)
        if not (name.isascii() and value.isascii()) or name == ":authority":
            # HTTP/2's name for host is longer.
            size = _size("host" if name == ":authority" else name) + _size(value)
        if size > MAX_HEADER_LINE:
            raise head_too_large()
        total += size + HEADER_OVERHEAD
    if total > MAX_HEAD_BYTES:
        raise head_too_large()


def _size(text: str) -> int:
    """Count a text's bytes as they came."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
