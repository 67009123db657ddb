"""WebSocket close codes: validity, names, and the errors they become.

RFC 6455 §7.4 and IANA's registry of WebSocket close codes.
"""

from __future__ import annotations

from typing import NamedTuple

from partway.protocol.limits import MAX_CLOSE_REASON_BYTES
from partway.protocol.parts import InternalStreamFailure, ModelStreamError, StreamError

NORMAL = 1000
GOING_AWAY = 1001
PROTOCOL_ERROR = 1002
UNSUPPORTED_DATA = 1003
NO_STATUS = 1005
ABNORMAL = 1006
INVALID_DATA = 1007
POLICY_VIOLATION = 1008
TOO_BIG = 1009
INTERNAL_ERROR = 1011
TRY_AGAIN_LATER = 1013

#: From here on, libraries and applications define their own codes (RFC 6455 §7.4.2).
FIRST_PRIVATE = 3000

#: To a WebSocket client, after an error event (clause 3-1): the HTTP statuses AWS uses, plus 4000.
MODEL_FAILED = 4424
GATEWAY_FAILED = 4500

#: Codes that mean "done", not "failed" (clauses 1.5-1, 1.5-2).
NORMAL_CODES = frozenset({NORMAL, GOING_AWAY, NO_STATUS})

#: IANA's names; 1005, 1006 and 1015 are reported but never sent.
NAMES = {
    1000: "Normal Closure",
    1001: "Going Away",
    1002: "Protocol error",
    1003: "Unsupported Data",
    1005: "No Status Rcvd",
    1006: "Abnormal Closure",
    1007: "Invalid frame payload data",
    1008: "Policy Violation",
    1009: "Message Too Big",
    1010: "Mandatory Ext.",
    1011: "Internal Error",
    1012: "Service Restart",
    1013: "Try Again Later",
    1014: "Bad Gateway",
    1015: "TLS handshake",
}

_RESERVED = frozenset({1004, 1005, 1006})


class Close(NamedTuple):
    """A Close frame's content. ``code`` is None for an empty Close (clause 1.5-2)."""

    code: int | None = None
    reason: str = ""


def only_ends_input(close: Close) -> bool:
    """Whether a client's Close only ends its input (clause 1.5-11); otherwise it has left.

    The meaning of codes from 3000 on is private to the two ends.
    """
    return close.code in (None, NORMAL) or close.code >= FIRST_PRIVATE


def is_legal(code: int) -> bool:
    """Whether a code may be in a Close frame on the wire (clause 1.5-4; RFC 6455 §7.4.2)."""
    return (1000 <= code <= 1014 and code not in _RESERVED) or FIRST_PRIVATE <= code <= 4999


def name_of(code: int) -> str:
    """Return the registered name of a code, or the name of its range in the RFC."""
    if code in NAMES:
        return NAMES[code]
    if FIRST_PRIVATE <= code <= 3999:
        return "Registered code"
    if 4000 <= code <= 4999:
        return "Private use code"
    return "Unknown code"


def encode_close(close: Close) -> bytes:
    """Encode the payload of a Close frame; a reason that is too long is cut at a code point.

    Raises:
        ValueError: the code must not be sent, or a reason comes without a code.
    """
    if close.code is None:
        if close.reason:
            raise ValueError("a Close without a code carries no reason (RFC 6455 §5.5.1)")
        return b""
    if not is_legal(close.code):
        raise ValueError(f"close code {close.code} must not be sent (RFC 6455 §7.4)")
    return close.code.to_bytes(2, "big") + clip(close.reason).encode()


def clip(text: str, size: int = MAX_CLOSE_REASON_BYTES) -> str:
    """Return the longest prefix of ``text`` that fits ``size`` bytes of UTF-8."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= size:
        return encoded.decode()
    return encoded[:size].decode("utf-8", "ignore")


def error_of(close: Close) -> ModelStreamError:
    """Return the error that a client sees for a container's Close (clause 1.5)."""
    code = NO_STATUS if close.code is None else close.code
    return ModelStreamError(code=str(code), message=close.reason or name_of(code))


def close_for(error: StreamError) -> Close:
    """Return the Close that tells a raw client of an error, without events (clause 3-2)."""
    match error:
        case ModelStreamError(code, message):
            return Close(MODEL_FAILED, clip(f"{code} {message}"))
        case InternalStreamFailure(message):
            return Close(GATEWAY_FAILED, clip(f"InternalStreamFailure {message}"))
