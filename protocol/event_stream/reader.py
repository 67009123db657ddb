"""Event stream decoding: bytes → messages, checked, → parts (clause 2.3).

::

    total u32 | headers u32 | crc32 of those 8 | headers | payload | crc32 of all before

Numbers are big-endian. A client's event is two messages, one in the other: the inner holds the
part, the outer signs it. A response event is one message, unsigned
(:mod:`partway.protocol.event_stream.response_events`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar
from zlib import crc32

from partway.protocol.event_stream.headers import EventStreamError, Header, decode_headers
from partway.protocol.event_stream.part_headers import (
    EventFault,
    Kind,
    part_kind,
    signing,
    text,
)
from partway.protocol.limits import (
    EVENT_FRAMING_BYTES,
    MAX_EVENT_HEADERS_BYTES,
    signed_event_bytes,
)
from partway.protocol.parts import INPUT_STREAM_ERROR, INVALID_SIGNATURE, InputEnd, PayloadPart

#: Verifies a signed event: its ``:date`` in ms since 1970 (any 64-bit number), its
#: ``:chunk-signature`` (32 bytes) and its payload. Returns the reason to refuse it, or None.
Check = Callable[[int, bytes, bytes], str | None]

_E = TypeVar("_E")

_PRELUDE = struct.Struct("!III").unpack_from
_PRELUDE_BYTES: Final = 12
_CRC_BYTES: Final = 4

#: Most header blocks of parts that one reader caches, and the longest one: without padding, a peer
#: uses the same four over and over.
_REMEMBERED: Final = 8
_REMEMBERED_BYTES: Final = 256


class Message(NamedTuple):
    """One message; its headers in wire order."""

    headers: dict[str, Header]
    payload: bytes


# --- Messages ------------------------------------------------------------------------------------


def decode(data: bytes) -> Message:
    """Decode bytes that are exactly one whole message.

    Raises:
        EventStreamError: the bytes are not a message, end inside it, or continue after it.
    """
    headers, payload = decode_raw(data)
    return Message(decode_headers(headers), payload)


def decode_raw(data: bytes) -> tuple[bytes, bytes]:
    """Cut exactly one whole message into its header block, still encoded, and its payload.

    Raises:
        EventStreamError: the bytes are not a message, end inside it, or continue after it. The
            caller checks the message's size.
    """
    if len(data) < EVENT_FRAMING_BYTES:
        raise EventStreamError(
            f"{len(data)} bytes came; a message must have at least {EVENT_FRAMING_BYTES}"
        )
    total, headers_length = _read_prelude(data, 0)
    if total != len(data):
        what = "bytes follow the message" if total < len(data) else "the message is cut"
        raise EventStreamError(f"{what}: its prelude says {total} bytes, {len(data)} came")
    return _cut(data, 0, total, headers_length)


def _read_prelude(buffer: bytes | bytearray, at: int) -> tuple[int, int]:
    """Read the prelude at ``at``; return the lengths of the message and of its headers."""
    total, headers_length, crc = _PRELUDE(buffer, at)
    # The lengths are valid only if their checksum is.
    if crc32(buffer[at : at + 8]) != crc:
        raise EventStreamError("the prelude's checksum is wrong")
    if total < headers_length + EVENT_FRAMING_BYTES:
        raise EventStreamError(
            f"{headers_length} bytes of headers cannot be in a message of {total}"
        )
    return total, headers_length


def _cut(
    buffer: bytes | bytearray, at: int, total: int, headers_length: int
) -> tuple[bytes, bytes]:
    payload_at = at + _PRELUDE_BYTES + headers_length
    crc_at = at + total - _CRC_BYTES
    head = bytes(buffer[at:payload_at])
    if isinstance(buffer, bytes):
        payload = buffer[payload_at:crc_at]
    else:
        payload = bytes(memoryview(buffer)[payload_at:crc_at])
    if crc32(payload, crc32(head)) != int.from_bytes(buffer[crc_at : at + total], "big"):
        raise EventStreamError("the message's checksum is wrong")
    return head[_PRELUDE_BYTES:], payload


class Decoder:
    """Bytes in, messages out, in linear time however the bytes are cut.

    Feed it with :meth:`feed`, then call :meth:`next_message` until it returns None. A caller that
    stops early leaves the rest in :attr:`buffered_bytes`.

    Args:
        max_payload: largest payload; a larger one is refused from its prelude, before its bytes.
        max_headers: largest header block; a larger one is refused in the same way.

    Rules, in the order a message meets them:
        1. The checksum of the two lengths is right.
        2. Headers and framing fit into the message; headers and payload are within their limits.
        3. The checksum of the message is right.
        4. The headers are well formed: :func:`decode_headers`.
        5. After an error, later calls raise it again.
    """

    __slots__ = (
        "_at",
        "_buffer",
        "_error",
        "_headers_length",
        "_max_headers",
        "_max_payload",
        "_total",
    )

    def __init__(self, max_payload: int, max_headers: int = MAX_EVENT_HEADERS_BYTES) -> None:
        self._max_payload = max_payload
        self._max_headers = max_headers
        # Messages are cut straight out of the bytes of one read; only an unfinished one is
        # gathered in a bytearray, so that a long one costs linear time.
        self._buffer: bytes | bytearray = b""
        self._at = 0
        # Lengths of the message at ``_at``, from its prelude; 0 until the prelude has been read.
        self._total = 0
        self._headers_length = 0
        # Not the exception itself: its traceback would keep payloads alive.
        self._error: tuple[str, bool] | None = None

    @property
    def buffered_bytes(self) -> int:
        """Bytes that were fed but not delivered as messages."""
        return len(self._buffer) - self._at

    @property
    def mid_message(self) -> bool:
        """Whether the bytes fed so far end inside a message.

        Whole messages that wait for :meth:`next_message` are skipped by their lengths, so taking
        them does not change the result. False after an error.
        """
        at = self._at
        while at < len(self._buffer):
            total = int.from_bytes(self._buffer[at : at + 4], "big")
            if at + 4 > len(self._buffer) or total < EVENT_FRAMING_BYTES:
                return True
            at += total
        return at > len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take in bytes of the stream. The caller must then call :meth:`next_message`."""
        if self._error is not None:  # rule 5
            return
        if self._at == len(self._buffer):
            self._buffer = data
        elif isinstance(self._buffer, bytearray):
            del self._buffer[: self._at]
            self._buffer += data
        else:
            gathered = bytearray(memoryview(self._buffer)[self._at :])
            gathered += data
            self._buffer = gathered
        self._at = 0

    def next_message(self) -> Message | None:
        """Return the next whole message, or None until more bytes come.

        Raises:
            EventStreamError: a rule is broken; later calls raise the same error.
        """
        raw = self.next_raw()
        if raw is None:
            return None
        try:
            return Message(decode_headers(raw[0]), raw[1])  # rule 4
        except EventStreamError as error:
            self._fail(error)
            raise

    def next_raw(self) -> tuple[bytes, bytes] | None:
        """Return the next whole message as header block and payload, or None until more bytes come.

        The block is still encoded: the caller checks rule 4.

        Raises:
            EventStreamError: another rule is broken; later calls raise the same error.
        """
        if self._error is not None:  # rule 5
            reason, oversize = self._error
            raise EventStreamError(reason, oversize=oversize)
        buffer = self._buffer
        at = self._at
        available = len(buffer) - at
        if available < (self._total or _PRELUDE_BYTES):
            self._wait()
            return None
        try:
            if not self._total:
                self._total, self._headers_length = self._checked_prelude(buffer, at)
                if available < self._total:
                    self._wait()
                    return None
            raw = _cut(buffer, at, self._total, self._headers_length)  # rule 3
        except EventStreamError as error:
            self._fail(error)
            raise
        at += self._total
        if at == len(buffer):
            # Delivered bytes are not kept: the next read may come an hour later.
            self._buffer = b""
            at = 0
        self._at = at
        self._total = 0
        return raw

    def drop(self) -> None:
        self._buffer = b""
        self._at = 0
        self._total = 0

    def _checked_prelude(self, buffer: bytes | bytearray, at: int) -> tuple[int, int]:
        total, headers_length = _read_prelude(buffer, at)  # rule 1
        payload_length = total - headers_length - EVENT_FRAMING_BYTES
        if headers_length > self._max_headers:  # rule 2
            raise EventStreamError(
                f"the headers have {headers_length} bytes; "
                f"they must have at most {self._max_headers}",
                oversize=True,
            )
        if payload_length > self._max_payload:
            raise EventStreamError(
                f"the payload has {payload_length} bytes; it must have at most {self._max_payload}",
                oversize=True,
            )
        return total, headers_length

    def _wait(self) -> None:
        """Keep the beginning of a message; free the messages delivered before it."""
        if self._at:
            self._buffer = bytearray(memoryview(self._buffer)[self._at :])
            self._at = 0

    def _fail(self, error: EventStreamError) -> None:
        self._error = (error.reason, error.oversize)
        self.drop()


# --- Events --------------------------------------------------------------------------------------


class EventReader(Generic[_E]):
    """Base of the event readers of both sides: bytes in, events out."""

    def __init__(self, max_payload: int, max_part: int) -> None:
        self._decoder = Decoder(max_payload)
        self._max_part = max_part
        #: Cached meanings of header blocks. A look-up takes a tenth of the time of decoding.
        self._kinds: dict[bytes, Kind] = {}
        # Not the exception itself: its traceback would keep payloads alive.
        self._fault: tuple[str, str, bool] | None = None

    @property
    def buffered_bytes(self) -> int:
        return self._decoder.buffered_bytes

    @property
    def mid_event(self) -> bool:
        """Whether the bytes fed so far end inside an event: then the stream was cut (2.3-2).

        Taking whole events does not change this. False after a fault, because the fault has ended
        the stream.
        """
        return self._decoder.mid_message

    def feed(self, data: bytes) -> None:
        """Take in bytes of the stream. The caller must then call :meth:`next_event`."""
        if self._fault is None:
            self._decoder.feed(data)

    def next_event(self) -> _E | None:
        """Return the next whole event, or None until more bytes come.

        Raises:
            EventFault: the input is not an event; later calls raise the same fault.
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

    def _kind(self, block: bytes, headers: dict[str, Header]) -> Kind:
        kind = part_kind(headers)
        if len(self._kinds) < _REMEMBERED and len(block) <= _REMEMBERED_BYTES:
            self._kinds[block] = kind
        return kind

    def _sized(self, kind: Kind, payload: bytes) -> PayloadPart:
        if len(payload) > self._max_part:
            raise EventFault(
                f"a part has {len(payload)} bytes; it must have at most {self._max_part}",
                oversize=True,
            )
        return PayloadPart(payload, *kind)


class RequestEvents(EventReader[PayloadPart | InputEnd]):
    """A client's events, unwrapped and checked (clauses 2.3-1, 2.3-2).

    Feed it with :meth:`feed`, then call :meth:`next_event` until it returns None. The session
    decides whether anything may follow an :class:`~partway.protocol.parts.InputEnd`.

    Args:
        check: verifies an event. It is called once for each event, in order, before the inner
            message is read. None if authentication is off: then events may be unsigned, and
            signatures are ignored.

    Rules, in the order an event meets them:
        1. The event is a message: :class:`Decoder`.
        2. Its headers are ``:date`` and ``:chunk-signature`` alone, or, with authentication off,
           those of an inner message.
        3. ``check`` accepts it.
        4. Its payload is exactly one message, or empty: the end of the input.
        5. That message has ``:message-type`` ``event`` and ``:event-type`` ``PayloadPart``.
        6. ``DataType`` and ``CompletionState`` are known strings, or absent; ``P`` is any string.
           Headers that begin with ``:`` are ignored. Others are refused: a misspelt
           ``CompletionState`` would default to ``COMPLETE``.
        7. The payload is at most ``max_part`` long.
    """

    def __init__(self, max_part: int, check: Check | None) -> None:
        super().__init__(signed_event_bytes(max_part), max_part)
        self._check = check

    def _read(self, block: bytes, payload: bytes) -> PayloadPart | InputEnd:
        if self._check is None and self._is_bare(block):
            return self._part(block, payload)
        date_ms, signature = signing(block)
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
            count = "both" if ":message-type" in headers else "neither"
            raise EventFault(
                f"the event has {count} of the headers :message-type and :chunk-signature; it must "
                "have exactly one of them"
            )
        return ":message-type" in headers

    def _part(self, block: bytes, payload: bytes) -> PayloadPart:
        kind = self._kinds.get(block)
        if kind is None:
            headers = decode_headers(block)
            if text(headers, ":message-type") != "event":
                raise EventFault(":message-type must be event in a client's message")
            kind = self._kind(block, headers)
        return self._sized(kind, payload)
