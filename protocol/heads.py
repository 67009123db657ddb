"""How large a request's head may be: the same over every HTTP."""

from __future__ import annotations

from typing import Final

from partway.protocol.errors import HeadTooLarge, TargetTooLong
from partway.protocol.limits import MAX_HEAD_BYTES, MAX_HEADER_LINE, MAX_HEADERS

#: What a header costs beside its bytes (RFC 9113 §6.5.2).
HEADER_OVERHEAD: Final = 32


def target_too_long() -> TargetTooLong:
    """The error of a target over MAX_HEADER_LINE."""
    return TargetTooLong(
        f"the request's target is too long; it must have at most {MAX_HEADER_LINE} bytes"
    )


def head_too_large() -> HeadTooLarge:
    """The error of a head over any of the other limits."""
    return HeadTooLarge(
        f"the request's head is too large; it must have at most {MAX_HEADERS} headers, each with "
        f"its name at most {MAX_HEADER_LINE} bytes, and at most {MAX_HEAD_BYTES} bytes in all, of "
        f"which each header counts {HEADER_OVERHEAD} more than it has"
    )
