"""Events of ``InvokeEndpointWithBidirectionalStream`` as event stream messages (clause 2.3).

A client's event is two messages, one in the other: the inner holds the part, the outer signs it.
A response event is one message, unsigned. Their encoding: :mod:`partway.protocol.eventstream`.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from partway.protocol.eventstream import (
    Decoder,
    EventStreamError,
    Header,
    HeaderType,
    decode_headers,
    decode_raw,
    encode_headers,
    encode_raw,
)
from partway.protocol.limits import (
    ERROR_BODY_BYTES,
    EVENT_FRAMING_BYTES,
    EXCEPTION_EVENT_BYTES,
    signed_event_bytes,
)
from partway.protocol.parts import (
    CompletionState,
    DataType,
    InputEnd,
    InternalStreamFailure,
    ModelStreamError,
    PayloadPart,
    StreamError,
)

INPUT_STREAM_ERROR: Final = "InputStreamError"
INVALID_SIGNATURE: Final = "InvalidSignature"

#: What says whether a signed event is genuine: its ``:date`` in ms since 1970 (any 64-bit number),
#: its ``:chunk-signature`` (32 bytes) and its payload → why it is refused, or None.
Check = Callable[[int, bytes, bytes], str | None]

_T = TypeVar("_T")
_E = TypeVar("_E")
_Kind = tuple[DataType, CompletionState]

_SIGNATURE_BYTES: Final = 32
_DATE = b"\x05:date\x08"
_SIGNATURE = b"\x10:chunk-signature\x06\x00\x20"
_DATE_FIRST = struct.Struct("!7sq20s32s")
_SIGNATURE_FIRST = struct.Struct("!20s32s7sq")

_DATA_TYPES = {member.value: member for member in DataType}
_COMPLETIONS = {member.value: member for member in CompletionState}

#: Of a part; ``:`` headers are the encoding's and the SDKs' own.
_MEMBERS = frozenset({"DataType", "CompletionState", "P"})

#: Header blocks of parts that one reader remembers, and how long they may be: a peer uses four
#: over and over, unless it pads.
_REMEMBERED: Final = 8
_REMEMBERED_BYTES: Final = 256


class EventFault(Exception):
    """What the peer sent is not an event, or is not signed as it must be (clause 1.5-10).

    Attributes:
        message: what is wrong; never the content.
        code: which error the client gets, ``InputStreamError`` or ``InvalidSignature``.
        oversize: whether a size is over its limit.
    """

    def __init__(
        self, message: str, code: str = INPUT_STREAM_ERROR, *, oversize: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.oversize = oversize


# --- Encoding ------------------------------------------------------------------------------------


def _string(value: str) -> Header:
    return Header(HeaderType.STRING, value)


def part_headers(**members: str) -> bytes:
    """The header block of a ``PayloadPart``, in either operation whose response is an event stream.

    Args:
        members: those that the operation's parts have beside their bytes.
    """
    return encode_headers(
        {
            ":message-type": _string("event"),
            ":event-type": _string("PayloadPart"),
            # On empty parts too: the Rust SDK refuses an event without it (clause 2.3-3).
            ":content-type": _string("application/octet-stream"),
            **{name: _string(value) for name, value in members.items()},
        }
    )


#: By type, then by state: looking up two enum members costs less than hashing a pair of them.
_PART_HEADERS = {
    data_type: {
        completion: part_headers(DataType=data_type.value, CompletionState=completion.value)
        for completion in CompletionState
    }
    for data_type in DataType
}


def encode_part(part: PayloadPart) -> bytes:
    """A part as an event: of a response, or the inner message of a request (clause 2.3-1, -3).

    Both have the same headers: our own client sends what the gateway sends, in :func:`wrap`.
    """
    payload, data_type, completion = part
    return encode_raw(_PART_HEADERS[data_type][completion], payload)


def wrap(inner: bytes, date_ms: int, signature: bytes) -> bytes:
    """A client's signed event (clause 2.3-1).

    Args:
        inner: one encoded message, or nothing: that ends the input (clause 2.3-2).
        date_ms: when it was signed, in ms since 1970.
        signature: 32 bytes, by the key that signed the request.

    Raises:
        ValueError: the signature is not 32 bytes long.
    """
    if len(signature) != _SIGNATURE_BYTES:
        raise ValueError(f"a signature must have {_SIGNATURE_BYTES} bytes, not {len(signature)}")
    return encode_raw(_DATE_FIRST.pack(_DATE, date_ms, _SIGNATURE, signature), inner)


def encode_error(error: StreamError) -> bytes:
    """The end of a response as an exception event, of 1,024 bytes at most (clauses 2.3-4 to 2.3-6).

    A message too long for that is clipped between two characters and ends in ``…``. Compact JSON
    in UTF-8: a letter that is not ASCII takes two to four bytes so, and six or twelve as an escape.
    """
    match error:
        case ModelStreamError(code, message):
            members = {"ErrorCode": code}
        case InternalStreamFailure(message):
            members = {}
    headers = encode_headers(
        {
            ":message-type": _string("exception"),
            ":exception-type": _string(type(error).__name__),
            ":content-type": _string("application/json"),
        }
    )

    def body(text: str) -> bytes:
        value = {"Message": text, **members}
        # A lone surrogate is in no UTF-8; it could come from a header that is no text.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")

    room = EXCEPTION_EVENT_BYTES - EVENT_FRAMING_BYTES - len(headers)
    whole = body(message)
    if len(whole) > room:
        # Bodies grow with the characters kept, and each of those takes a byte at least.
        fitting = bisect_right(range(room), room, key=lambda kept: len(body(message[:kept] + "…")))
        whole = body(message[: max(fitting - 1, 0)] + "…")
    return encode_raw(headers, whole)


# --- Reading -------------------------------------------------------------------------------------


class _Events(Generic[_E]):
    """Bytes in, events out: what both sides share.

    Args:
        max_payload: largest payload of a message.
        max_part: largest payload of a part.
    """

    def __init__(self, max_payload: int, max_part: int) -> None:
        self._decoder = Decoder(max_payload)
        self._max_part = max_part
        #: What header blocks of parts mean. Looking one up takes a tenth of reading it.
        self._kinds: dict[bytes, _Kind] = {}
        # Its words and not the exception, whose traceback would keep payloads alive.
        self._fault: tuple[str, str, bool] | None = None

    @property
    def buffered_bytes(self) -> int:
        """Bytes fed and not yet delivered as events."""
        return self._decoder.buffered_bytes

    @property
    def mid_event(self) -> bool:
        """Whether the bytes fed so far end inside an event: an end of stream is a cut (2.3-2).

        Taking whole events does not change this. False after a fault, which has ended the stream by
        itself.
        """
        return self._decoder.mid_message

    def feed(self, data: bytes) -> None:
        """Take in bytes of the stream. The caller owes calls of :meth:`next_event`."""
        if self._fault is None:
            self._decoder.feed(data)

    def next_event(self) -> _E | None:
        """The next whole event, or None until more bytes come.

        Raises:
            EventFault: what came is not an event; every later call raises the same again.
        """
        if self._fault is None:
            try:
                return self._next()
            except EventStreamError as error:
                self._fault = (error.reason, INPUT_STREAM_ERROR, error.oversize)
            except EventFault as fault:
                self._fault = (fault.message, fault.code, fault.oversize)
            self._decoder.drop()
        message, code, oversize = self._fault
        raise EventFault(message, code, oversize=oversize)

    def _next(self) -> _E | None:
        raw = self._decoder.next_raw()
        return None if raw is None else self._read(*raw)

    def _read(self, block: bytes, payload: bytes) -> _E:
        raise NotImplementedError

    def _kind(self, block: bytes, headers: dict[str, Header]) -> _Kind:
        """What a part's headers say, its ``:message-type`` aside; remembered for its block."""
        if _text(headers, ":event-type") != "PayloadPart":
            raise EventFault(":event-type must be PayloadPart")
        for name in headers:
            if name not in _MEMBERS and not name.startswith(":"):
                raise EventFault(
                    f"the headers of a part must be among [{', '.join(sorted(_MEMBERS))}]"
                )
        _text(headers, "P")
        kind = (
            _member(headers, "DataType", _DATA_TYPES, DataType.BINARY),
            _member(headers, "CompletionState", _COMPLETIONS, CompletionState.COMPLETE),
        )
        if len(self._kinds) < _REMEMBERED and len(block) <= _REMEMBERED_BYTES:
            self._kinds[block] = kind
        return kind

    def _sized(self, kind: _Kind, payload: bytes) -> PayloadPart:
        if len(payload) > self._max_part:
            raise EventFault(
                f"a part has {len(payload)} bytes; it must have at most {self._max_part}",
                oversize=True,
            )
        return PayloadPart(payload, *kind)


class RequestEvents(_Events[PayloadPart | InputEnd]):
    """A client's events, unwrapped and checked (clauses 2.3-1, 2.3-2).

    Feed it with :meth:`feed`, then call :meth:`next_event` until it returns None. What may follow
    an :class:`~partway.protocol.parts.InputEnd` is the session's to know.

    Args:
        max_part: largest payload of a part.
        check: what says whether an event is genuine. It is called once for each event, in order,
            before anything of the inner message is looked at. None where authentication is off:
            then events may come unsigned too, and signatures are not read.

    Rules, in the order an event meets them:
        1. The event is a message: :class:`partway.protocol.eventstream.Decoder`.
        2. Its headers are ``:date`` and ``:chunk-signature`` alone, or, with authentication off,
           those of an inner message.
        3. ``check`` has nothing against it.
        4. Its payload is exactly one message, or empty: the end of the input.
        5. That message has ``:message-type`` ``event`` and ``:event-type`` ``PayloadPart``.
        6. ``DataType`` and ``CompletionState`` are strings that are known, or absent; ``P`` is any
           string. Headers that begin with ``:`` may be there and are not read; others are refused:
           a misspelt ``CompletionState`` would pass for ``COMPLETE``.
        7. The payload is at most ``max_part`` long.
    """

    def __init__(self, max_part: int, check: Check | None) -> None:
        super().__init__(signed_event_bytes(max_part), max_part)
        self._check = check

    def _read(self, block: bytes, payload: bytes) -> PayloadPart | InputEnd:
        if self._check is None and self._is_bare(block):
            return self._part(block, payload)
        date_ms, signature = _signing(block)
        if self._check is not None:
            refusal = self._check(date_ms, signature, payload)
            if refusal is not None:
                raise EventFault(refusal, INVALID_SIGNATURE)
        if not payload:
            return InputEnd()
        return self._part(*decode_raw(payload))

    def _is_bare(self, block: bytes) -> bool:
        if block in self._kinds:
            return True
        headers = decode_headers(block)
        if (":message-type" in headers) is (":chunk-signature" in headers):
            raise EventFault("an event must have either :message-type or :chunk-signature")
        return ":message-type" in headers

    def _part(self, block: bytes, payload: bytes) -> PayloadPart:
        kind = self._kinds.get(block)
        if kind is None:
            headers = decode_headers(block)
            if _text(headers, ":message-type") != "event":
                raise EventFault(":message-type must be event in what a client sends")
            kind = self._kind(block, headers)
        return self._sized(kind, payload)


class ResponseEvents(_Events[PayloadPart | ModelStreamError | InternalStreamFailure]):
    """A gateway's events, as a client reads them (clauses 2.3-3, 2.3-5).

    Args:
        max_part: largest payload of a part.
    """

    def __init__(self, max_part: int) -> None:
        super().__init__(max(max_part, ERROR_BODY_BYTES), max_part)

    def _read(
        self, block: bytes, payload: bytes
    ) -> PayloadPart | ModelStreamError | InternalStreamFailure:
        kind = self._kinds.get(block)
        if kind is None:
            headers = decode_headers(block)
            match _text(headers, ":message-type"):
                case "event":
                    kind = self._kind(block, headers)
                case "exception":
                    return _exception(_text(headers, ":exception-type"), payload)
                case _:
                    raise EventFault(":message-type must be event or exception in a response")
        return self._sized(kind, payload)


def _signing(block: bytes) -> tuple[int, bytes]:
    """The date and the signature in the header block of an outer message (rule 2)."""
    if len(block) == _DATE_FIRST.size:
        # The two orders in which these two can stand: twenty times faster than reading headers.
        date, date_ms, name, signature = _DATE_FIRST.unpack(block)
        if date == _DATE and name == _SIGNATURE:
            return date_ms, signature
        name, signature, date, date_ms = _SIGNATURE_FIRST.unpack(block)
        if date == _DATE and name == _SIGNATURE:
            return date_ms, signature
    headers = decode_headers(block)
    if headers.keys() > {":date", ":chunk-signature"}:
        # The signature covers :date alone: any other would be unsigned.
        raise EventFault("a signed event must have no headers but :date and :chunk-signature")
    raise EventFault(
        "a signed event must have a :date of type 8 and a :chunk-signature of type 6 and 32 bytes",
        INVALID_SIGNATURE,
    )


def _text(headers: dict[str, Header], name: str) -> str | None:
    header = headers.get(name)
    if header is None:
        return None
    if not isinstance(header.value, str):
        raise EventFault(f"{name} must be a string")
    return header.value


def _member(headers: dict[str, Header], name: str, known: dict[str, _T], absent: _T) -> _T:
    # Absent members mean their defaults (clause 1.2-2).
    value = _text(headers, name)
    if value is None:
        return absent
    if value not in known:
        raise EventFault(f"{name} must be one of {', '.join(sorted(known))}, exactly as written")
    return known[value]


def _exception(name: str | None, payload: bytes) -> StreamError:
    if len(payload) > ERROR_BODY_BYTES:
        raise EventFault(
            f"an exception has {len(payload)} bytes; it must have at most {ERROR_BODY_BYTES}",
            oversize=True,
        )
    try:
        body = json.loads(payload.decode())
    except (ValueError, RecursionError):
        raise EventFault("the body of an exception must be JSON") from None
    if not isinstance(body, dict):
        raise EventFault("the body of an exception must be a JSON object")
    message, code = body.get("Message", ""), body.get("ErrorCode", "")
    if not isinstance(message, str) or not isinstance(code, str):
        raise EventFault("Message and ErrorCode of an exception must be strings")
    match name:
        case "ModelStreamError":
            return ModelStreamError(code, message)
        case "InternalStreamFailure":
            return InternalStreamFailure(message)
        case _:
            raise EventFault(":exception-type must be ModelStreamError or InternalStreamFailure")
