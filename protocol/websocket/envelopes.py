"""Events as WebSocket messages: ``payloadpart.v1.msgpack`` and ``.json`` (clause 3-1).

An envelope is a map with one entry, the event's name, whose value holds its members::

    {"PayloadPart": {"Bytes": b"Hello ", "DataType": "UTF8", "CompletionState": "PARTIAL"}}

msgpack carries ``Bytes`` as bin, JSON as base64. Both sides of the stream use both directions. A
large part takes long in JSON, so a shared event loop codes it step by step.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Generator, Iterator
from typing import Any, NoReturn, TypeVar

import msgpack

from partway.protocol.limits import JSON_PIECE, MAX_ENVELOPE_FRAGMENTS, MAX_EVENT_MEMBERS
from partway.protocol.parts import (
    CompletionState,
    DataType,
    InputEnd,
    InternalStreamFailure,
    ModelStreamError,
    PayloadPart,
    StreamEvent,
)

_T = TypeVar("_T")

#: Most commas in a JSON envelope, and most brackets: enough for the members and padding of the
#: largest event, with room.
_MAX_COMMAS = 4 * MAX_EVENT_MEMBERS
_MARKS = (b",", b"[")

_DATA_TYPES = {member.value: member for member in DataType}
_COMPLETIONS = {member.value: member for member in CompletionState}


class EnvelopeError(ValueError):
    """A message that is not an event; the text says what is wrong and never quotes the content."""


class MessageTooBig(Exception):
    """A message with too many bytes or fragments; the text names the limit."""


class MessageAssembler:
    """Fragments in, whole messages out, in bounded memory."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._fragments: list[bytes] = []
        #: Bytes of the incomplete message.
        self.held_bytes = 0

    def add(self, payload: bytes, fin: bool) -> bytes | None:
        """Add a data frame; return the message that it ends, or None while more must come.

        Raises:
            MessageTooBig: the message has too many bytes, or fragments; its bytes are dropped.
        """
        if fin and not self._fragments:
            return payload
        self._fragments.append(payload)
        self.held_bytes += len(payload)
        if self.held_bytes > self._max_bytes:
            self.drop()
            raise MessageTooBig(f"a message must have at most {self._max_bytes} bytes")
        if len(self._fragments) > MAX_ENVELOPE_FRAGMENTS:
            self.drop()
            raise MessageTooBig(f"a message must have at most {MAX_ENVELOPE_FRAGMENTS} fragments")
        if not fin:
            return None
        message = b"".join(self._fragments)
        self.drop()
        return message

    def drop(self) -> None:
        self._fragments.clear()
        self.held_bytes = 0


class MsgpackEnvelope:
    """``payloadpart.v1.msgpack``: each binary message is one event."""

    text = False

    @staticmethod
    def encode(event: StreamEvent) -> bytes:
        packed: bytes = msgpack.packb(_to_map(event, bytes))
        return packed

    @staticmethod
    def decode(message: bytes) -> StreamEvent:
        """Decode one message as one event.

        Raises:
            EnvelopeError: the message is not an event.
        """
        try:
            value = msgpack.unpackb(
                message,
                object_pairs_hook=_MapsOfAnEvent(),
                max_array_len=0,
                max_map_len=MAX_EVENT_MEMBERS,
                max_ext_len=0,
            )
        except EnvelopeError:
            raise
        except (ValueError, msgpack.UnpackException) as error:
            raise EnvelopeError(f"the message is not msgpack: {type(error).__name__}") from None
        return _from_map(value, _msgpack_bytes)


class JsonEnvelope:
    """``payloadpart.v1.json``: each text message is one event, ``Bytes`` in base64."""

    text = True

    @staticmethod
    def encode(event: StreamEvent) -> bytes:
        """Encode one event in UTF-8."""
        return json.dumps(_to_map(event, lambda raw: base64.b64encode(raw).decode())).encode()

    @staticmethod
    def decode(message: bytes) -> StreamEvent:
        """Decode one message as one event.

        Raises:
            EnvelopeError: the message is not an event.
        """
        for mark in _MARKS:
            _count(message, mark)
        return _from_map(_parsed(message), _base64_bytes)

    @staticmethod
    def pieces(part: PayloadPart) -> Iterator[tuple[bytes, bool]]:
        """Yield the message of a part in pieces; each with whether it is the last."""
        before, after = JsonEnvelope.encode(part._replace(payload=b"")).split(b'""', 1)
        yield before + b'"', False
        for at in range(0, len(part.payload), JSON_PIECE):
            yield binascii.b2a_base64(part.payload[at : at + JSON_PIECE], newline=False), False
        yield b'"' + after, True

    @staticmethod
    def decoding(message: bytes) -> Generator[None, None, StreamEvent]:
        """Decode one message in steps, each of some milliseconds; the generator returns the event.

        Raises:
            EnvelopeError: the message is not an event.
        """
        for mark in _MARKS:
            _count(message, mark)
            yield
        value = _parsed(message)
        yield
        part = value.get("PayloadPart") if isinstance(value, dict) else None
        if isinstance(part, dict) and isinstance(encoded := part.get("Bytes"), str):
            part["Bytes"] = yield from _base64_in_steps(encoded)
        return _from_map(value, _decoded_bytes)


Envelope = type[MsgpackEnvelope] | type[JsonEnvelope]


def _count(message: bytes, mark: bytes) -> None:
    # JSON's parser has no limits of its own, and 20 MiB of "[]," would take seconds and half a
    # gigabyte. Base64 holds no comma. A value without commas can only be nested, and brackets are
    # counted too.
    if message.count(mark) > _MAX_COMMAS:
        raise EnvelopeError("the message has more members than any event")


def _parsed(message: bytes) -> Any:
    try:
        return json.loads(message.decode(), object_pairs_hook=_no_duplicates)
    except UnicodeDecodeError:
        raise EnvelopeError("the message must be UTF-8") from None
    except json.JSONDecodeError as error:
        raise EnvelopeError(
            f"the message is not JSON: {error.msg} at character {error.pos}"
        ) from None
    except EnvelopeError:
        raise
    except (RecursionError, ValueError) as error:
        raise EnvelopeError(f"the message is not an event: {error}") from None


def _to_map(event: StreamEvent, encode_bytes: Callable[[bytes], object]) -> dict[str, Any]:
    match event:
        case PayloadPart(payload, data_type, completion):
            members = {
                "Bytes": encode_bytes(payload),
                "DataType": data_type.value,
                "CompletionState": completion.value,
            }
            return {"PayloadPart": members}
        case InputEnd():
            return {"InputEnd": {}}
        case ModelStreamError(code, message):
            return {"ModelStreamError": {"ErrorCode": code, "Message": message}}
        case InternalStreamFailure(message):
            return {"InternalStreamFailure": {"Message": message}}


def _from_map(value: object, decode_bytes: Callable[[object], bytes]) -> StreamEvent:
    if not isinstance(value, dict) or len(value) != 1:
        _refuse("an event must be a map with one entry: its name and its members")
    ((name, members),) = value.items()
    if not isinstance(members, dict):
        _refuse("the value of an event must be a map of its members")
    match name:
        case "PayloadPart":
            _only(members, "PayloadPart", {"Bytes", "DataType", "CompletionState", "P"})
            # Absent members mean their defaults; P is padding (clause 1.2-2).
            return PayloadPart(
                decode_bytes(members["Bytes"]) if "Bytes" in members else b"",
                _member(members, "DataType", _DATA_TYPES, DataType.BINARY),
                _member(members, "CompletionState", _COMPLETIONS, CompletionState.COMPLETE),
            )
        case "InputEnd":
            _only(members, "InputEnd", set())
            return InputEnd()
        case "ModelStreamError":
            return ModelStreamError(_text(members, "ErrorCode"), _text(members, "Message"))
        case "InternalStreamFailure":
            return InternalStreamFailure(_text(members, "Message"))
        case _:
            raise EnvelopeError("unknown event; an event must be PayloadPart or InputEnd")


def _only(members: dict[object, object], event: str, known: set[str]) -> None:
    # A misspelt CompletionState would otherwise default to COMPLETE.
    if not members.keys() <= known:
        _refuse(f"unknown member; {event} may only have [{', '.join(sorted(known))}]")


def _member(members: dict[object, object], name: str, known: dict[str, _T], absent: _T) -> _T:
    if name not in members:
        return absent
    value = members[name]
    if not isinstance(value, str) or value not in known:
        _refuse(f"{name} must be one of {', '.join(sorted(known))}, exactly as written")
    return known[value]


def _text(members: dict[object, object], name: str) -> str:
    value = members.get(name, "")
    if not isinstance(value, str):
        _refuse(f"{name} must be a string")
    return value


def _msgpack_bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        _refuse("Bytes must be msgpack bin, not str")
    return value


def _base64_bytes(value: object) -> bytes:
    if not isinstance(value, str):
        _refuse("Bytes must be a base64 string")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        _refuse("Bytes must be base64")


def _base64_in_steps(encoded: str) -> Generator[None, None, bytes]:
    size = JSON_PIECE * 4 // 3
    decoded = []
    for at in range(0, len(encoded), size):
        piece = encoded[at : at + size]
        if piece.endswith("=") and at + size < len(encoded):  # only the last piece is padded
            _refuse("Bytes must be base64")
        decoded.append(_base64_bytes(piece))
        yield
    return b"".join(decoded)


def _decoded_bytes(value: object) -> bytes:
    """Return bytes that were decoded before; JSON itself has no bytes."""
    return value if isinstance(value, bytes) else _base64_bytes(value)


class _MapsOfAnEvent:
    """Counts the maps of a message: an event is a map in a map, and a third map is refused."""

    def __init__(self) -> None:
        self._left = 2

    def __call__(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        self._left -= 1
        if self._left < 0:
            raise EnvelopeError("the message has more maps than any event")
        return _no_duplicates(pairs)


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise EnvelopeError("a name appears twice in one map")
    return members


def _refuse(reason: str) -> NoReturn:
    raise EnvelopeError(reason)
