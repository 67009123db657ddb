"""Event headers: a part's type and state, or a date and a signature (clause 2.3).

An event that breaks these rules is the peer's fault (clause 1.5-10).
"""

from __future__ import annotations

import struct
from typing import Final, TypeVar

from partway.protocol.event_stream.headers import Header, decode_headers
from partway.protocol.parts import (
    INPUT_STREAM_ERROR,
    INVALID_SIGNATURE,
    CompletionState,
    DataType,
)

_T = TypeVar("_T")
Kind = tuple[DataType, CompletionState]

SIGNATURE_BYTES: Final = 32
DATE: Final = b"\x05:date\x08"
SIGNATURE: Final = b"\x10:chunk-signature\x06\x00\x20"
#: The headers of a signed event, in our order and in the other order.
SIGNED: Final = struct.Struct("!7sq20s32s")
_SIGNATURE_FIRST: Final = struct.Struct("!20s32s7sq")

_DATA_TYPES = {member.value: member for member in DataType}
_COMPLETIONS = {member.value: member for member in CompletionState}

#: A part's own headers; headers that begin with ``:`` belong to the encoding and the SDKs.
_MEMBERS = frozenset({"DataType", "CompletionState", "P"})


class EventFault(Exception):
    """The peer's input is not an event, or its signature is invalid (clause 1.5-10).

    Attributes:
        message: the fault; it never quotes the content.
        code: the error that the client gets, ``InputStreamError`` or ``InvalidSignature``.
        oversize: whether a size is over its limit.
    """

    def __init__(
        self, message: str, code: str = INPUT_STREAM_ERROR, *, oversize: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.oversize = oversize


def part_kind(headers: dict[str, Header]) -> Kind:
    """Read a part's headers, except ``:message-type``.

    Raises:
        EventFault: they are not the headers of a part.
    """
    if text(headers, ":event-type") != "PayloadPart":
        raise EventFault(":event-type must be PayloadPart")
    for name in headers:
        if name not in _MEMBERS and not name.startswith(":"):
            raise EventFault(f"the headers of a part must be among [{', '.join(sorted(_MEMBERS))}]")
    text(headers, "P")
    return (
        _member(headers, "DataType", _DATA_TYPES, DataType.BINARY),
        _member(headers, "CompletionState", _COMPLETIONS, CompletionState.COMPLETE),
    )


def signing(block: bytes) -> tuple[int, bytes]:
    """Return the date and the signature in the header block of an outer message.

    Raises:
        EventFault: the block has other headers, or lacks one of these two.
    """
    if len(block) == SIGNED.size:
        # The two headers have two possible orders. Comparing them is twenty times faster than
        # decoding headers.
        date, date_ms, name, signature = SIGNED.unpack(block)
        if date == DATE and name == SIGNATURE:
            return date_ms, signature
        name, signature, date, date_ms = _SIGNATURE_FIRST.unpack(block)
        if date == DATE and name == SIGNATURE:
            return date_ms, signature
    headers = decode_headers(block)
    if headers.keys() > {":date", ":chunk-signature"}:
        # The signature covers :date alone: any other header would be unsigned.
        raise EventFault("a signed event must have no headers but :date and :chunk-signature")
    raise EventFault(
        "a signed event must have a :date of type 8 and a :chunk-signature of type 6 and 32 bytes",
        INVALID_SIGNATURE,
    )


def text(headers: dict[str, Header], name: str) -> str | None:
    """Return a header's text, or None where the header is absent.

    Raises:
        EventFault: the header is not a string.
    """
    header = headers.get(name)
    if header is None:
        return None
    if not isinstance(header.value, str):
        raise EventFault(f"{name} must be a string")
    return header.value


def _member(headers: dict[str, Header], name: str, known: dict[str, _T], absent: _T) -> _T:
    # An absent member has its default (clause 1.2-2).
    value = text(headers, name)
    if value is None:
        return absent
    if value not in known:
        raise EventFault(f"{name} must be one of {', '.join(sorted(known))}, exactly as written")
    return known[value]
