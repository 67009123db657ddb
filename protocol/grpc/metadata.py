"""gRPC metadata in heads and trailers: media types, deadlines, statuses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from partway.protocol.errors import InputValidationError
from partway.protocol.grpc.messages import ENCODINGS
from partway.protocol.limits import GRPC_STATUS_BYTES

#: Seconds of each unit (``TimeoutUnit``).
_UNITS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])")
_CONTENT_TYPE: Final = re.compile(r"application/grpc(?:\+proto)?[ \t]*(?:;.*)?", re.IGNORECASE)

CONTENT_TYPE: Final = "application/grpc"

#: Headers of each response.
HEAD: Final[Mapping[str, str]] = {
    "Content-Type": CONTENT_TYPE,
    "grpc-accept-encoding": ",".join(ENCODINGS),
}


class Code(IntEnum):
    """The result of a call (``google.rpc.Code``)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


def is_grpc(content_type: str) -> bool:
    """Whether a request's media type is gRPC with protobuf messages."""
    return _CONTENT_TYPE.fullmatch(content_type.strip()) is not None


def timeout_of(text: str) -> float | None:
    """Parse ``grpc-timeout`` to seconds, None for no limit; raises InputValidationError."""
    if not text:
        return None
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        raise InputValidationError(
            f"grpc-timeout: {text[:16]!r} was given; it must be at most eight digits and one of "
            "H, M, S, m, u, n",
            "MalformedMessage",
        )
    return int(found[1]) * _UNITS[found[2]]


def status(code: Code, message: str = "") -> dict[str, str]:
    """Make the trailers that end a call.

    The message is for the client, and is cut at GRPC_STATUS_BYTES.
    """
    found = {"grpc-status": str(code.value)}
    if message:
        found["grpc-message"] = _percent_encoded(message)
    return found


def _percent_encoded(message: str) -> str:
    """Percent-encode a message: visible ASCII and spaces stay, the rest becomes UTF-8 bytes."""
    pieces = []
    room = GRPC_STATUS_BYTES
    for character in message:
        if " " <= character <= "~" and character != "%":
            piece = character
        else:
            piece = "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "replace"))
        room -= len(piece)
        if room < 0:
            break
        pieces.append(piece)
    return "".join(pieces)
