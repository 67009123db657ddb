"""The three subprotocols as a client speaks them, written with json and msgpack alone."""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

import msgpack

from partway.protocol.limits import JSON_AT_ONCE
from tests.frame_factory import (
    BINARY,
    CLOSE,
    CONTINUATION,
    KEY,
    PONG,
    TEXT,
    RawFrame,
    close,
    frame,
)
from tests.wire.peers import JSON, MSGPACK, RAW, RawClient

#: Where a frame's length changes its form, and the largest ones.
SIZES = [0, 1, 125, 126, 65_535, 65_536, 15 << 20, 16 << 20]

UTF8, BIN = "UTF8", "BINARY"
PARTIAL, COMPLETE = "PARTIAL", "COMPLETE"


class Part(NamedTuple):
    """A part, its members as AWS writes them."""

    payload: bytes = b""
    data_type: str = BIN
    state: str = COMPLETE


def pattern(size: int) -> bytes:
    """Bytes that show it when they are shifted, cut or joined."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


class Error(NamedTuple):
    """An error as a client learns of it, however its subprotocol says it."""

    name: str
    code: str | None
    message: str


class End(NamedTuple):
    """What a client sees last: the error event, where there is one, and the Close."""

    event: dict[str, Any] | None
    code: int | None
    reason: str = ""


class RawDialect:
    """``payloadpart.v1.raw``: frames are parts."""

    name = RAW

    def __init__(self) -> None:
        self._sent_partial = False
        self._seen_type = BIN

    def part(self, part: Part) -> bytes:
        opcode = TEXT if part.data_type == UTF8 else BINARY
        if self._sent_partial:
            opcode = CONTINUATION
        self._sent_partial = part.state == PARTIAL
        return frame(opcode, part.payload, fin=not self._sent_partial, mask=KEY)

    def parts(self, *parts: Part) -> bytes:
        return b"".join(map(self.part, parts))

    async def read(self, client: RawClient) -> Part | End:
        """The next part that the client sees, or the end."""
        fin, opcode, _, _, payload = seen = await client.frame()
        if opcode == CLOSE:
            return End(None, seen.close_code, seen.close_reason)
        if opcode != CONTINUATION:
            self._seen_type = UTF8 if opcode == TEXT else BIN
        return Part(payload, self._seen_type, COMPLETE if fin else PARTIAL)

    async def read_end(self, client: RawClient) -> End:
        """The end, which has to come next."""
        end = await self.read(client)
        assert isinstance(end, End), end
        return end

    async def read_error(self, client: RawClient) -> Error:
        """The error at the end, which has to come next."""
        end = await self.read_end(client)
        code, _, message = end.reason.partition(" ")
        if end.code == 4424:
            return Error("ModelStreamError", code, message)
        assert (end.code, code) == (4500, "InternalStreamFailure"), end
        return Error(code, None, message)

    def model_error(self, code: str, message: str) -> End:
        """How a ModelStreamError looks."""
        return End(None, 4424, f"{code} {message}")

    def failure(self, message: str) -> End:
        """How an InternalStreamFailure looks."""
        return End(None, 4500, f"InternalStreamFailure {message}")


class EnvelopeDialect(RawDialect):
    """Messages are events; which codec is the subclass's."""

    opcode: int

    @staticmethod
    def encode(event: dict[str, Any]) -> bytes:
        raise NotImplementedError

    @staticmethod
    def decode(message: bytes) -> dict[str, Any]:
        raise NotImplementedError

    def bytes_member(self, payload: bytes) -> Any:
        return payload

    def event(self, event: dict[str, Any]) -> bytes:
        return frame(self.opcode, self.encode(event), mask=KEY)

    def part(self, part: Part) -> bytes:
        return self.event(
            {
                "PayloadPart": {
                    "Bytes": self.bytes_member(part.payload),
                    "DataType": part.data_type,
                    "CompletionState": part.state,
                }
            }
        )

    def end(self) -> bytes:
        """The end of the client's input."""
        return self.event({"InputEnd": {}})

    async def read_event(self, client: RawClient) -> dict[str, Any]:
        return self.decode(await self._rest(client, await client.frame()))

    async def _rest(self, client: RawClient, seen: RawFrame) -> bytes:
        """The message that a frame begins: of one frame, but for large parts in JSON."""
        assert seen.opcode == self.opcode, seen
        message = bytearray(seen.payload)
        while not seen.fin:
            seen = await client.frame()
            assert (seen.opcode, self.opcode) == (CONTINUATION, TEXT), seen
            message += seen.payload
        assert len(message) > JSON_AT_ONCE or len(message) == len(seen.payload), "one frame"
        return bytes(message)

    async def read(self, client: RawClient) -> Part | End:
        seen = await client.frame()
        if seen.opcode == CLOSE:
            return End(None, seen.close_code, seen.close_reason)
        event = self.decode(await self._rest(client, seen))
        if "PayloadPart" not in event:
            last = await client.frame()
            assert last.opcode == CLOSE, last
            return End(event, last.close_code, last.close_reason)
        members = event["PayloadPart"]
        assert sorted(members) == ["Bytes", "CompletionState", "DataType"], members
        payload = members["Bytes"]
        if isinstance(payload, str):
            payload = base64.b64decode(payload, validate=True)
        return Part(payload, members["DataType"], members["CompletionState"])

    async def read_error(self, client: RawClient) -> Error:
        end = await self.read_end(client)
        assert end.event is not None, end
        ((name, members),) = end.event.items()
        assert (name, end.code, end.reason) in (
            ("ModelStreamError", 4424, ""),
            ("InternalStreamFailure", 4500, ""),
        ), end
        return Error(name, members.get("ErrorCode"), members["Message"])

    def model_error(self, code: str, message: str) -> End:
        return End({"ModelStreamError": {"ErrorCode": code, "Message": message}}, 4424)

    def failure(self, message: str) -> End:
        return End({"InternalStreamFailure": {"Message": message}}, 4500)


class MsgpackDialect(EnvelopeDialect):
    """``payloadpart.v1.msgpack``."""

    name = MSGPACK
    opcode = BINARY

    @staticmethod
    def encode(event: dict[str, Any]) -> bytes:
        return msgpack.packb(event)

    @staticmethod
    def decode(message: bytes) -> dict[str, Any]:
        return msgpack.unpackb(message)


class JsonDialect(EnvelopeDialect):
    """``payloadpart.v1.json``."""

    name = JSON
    opcode = TEXT

    @staticmethod
    def encode(event: dict[str, Any]) -> bytes:
        return json.dumps(event).encode()

    @staticmethod
    def decode(message: bytes) -> dict[str, Any]:
        return json.loads(message.decode())

    def bytes_member(self, payload: bytes) -> Any:
        return base64.b64encode(payload).decode()


DIALECTS = {dialect.name: dialect for dialect in (RawDialect, MsgpackDialect, JsonDialect)}
ENVELOPES = {name: dialect for name, dialect in DIALECTS.items() if name != RAW}
CLEAN = End(None, 1000)


def masked_close(code: int | None = None, reason: bytes = b"") -> bytes:
    return close(code, reason, mask=KEY)


def masked_pong(payload: bytes) -> bytes:
    """A peer's Pong that the gateway, as a server, accepts."""
    return frame(PONG, payload, mask=KEY)
