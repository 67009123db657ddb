"""A gateway before containers that are told what to answer, and a client of gRPC made of frames.

Messages are written by hand or by protobuf's own classes, never by the tables under test.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

import pytest

from tests.gateway.apis.prediction.predicting import ENDPOINT, PARENT, Client
from tests.wire.http2_peers import RawHttp2Client
from tests.wire.http2_streams import RawHttp2Stream

NAME = f"{PARENT}/endpoints/{ENDPOINT}"
PREDICTIONS = "/google.cloud.aiplatform.v1.PredictionService"


class Ended(NamedTuple):
    """A call that is over.

    Attributes:
        head: the response's headers, its status first; of a response that is a head alone, too.
        messages: of the response.
        trailers: what ended it.
    """

    head: Mapping[str, str]
    messages: list[bytes]
    trailers: Mapping[str, str]

    @property
    def status(self) -> tuple[str, str]:
        """The call's status, and what is said of it."""
        return self.trailers["grpc-status"], self.trailers.get("grpc-message", "")


def field(number: int, data: bytes | str) -> bytes:
    """A member that has a length: bytes, text or a message."""
    data = data.encode() if isinstance(data, str) else data
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def varint(number: int) -> bytes:
    """A number in protobuf's base of 128."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def fields(message: bytes) -> list[tuple[int, bytes | int]]:
    """A message's members in their order: numbers as they are, what has a length as bytes."""
    found: list[tuple[int, bytes | int]] = []
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            found.append((key >> 3, number()))
        elif key & 7 == 2:
            size = number()
            found.append((key >> 3, message[at : at + size]))
            at += size
        else:
            raise AssertionError(f"wire type {key & 7} at {at}")
    return found


def prefixed(message: bytes, flag: int = 0) -> bytes:
    return struct.pack(">BI", flag, len(message)) + message


def unprefixed(body: bytes) -> list[bytes]:
    found = []
    while body:
        flag, size = struct.unpack_from(">BI", body)
        assert flag == 0
        assert len(body) >= 5 + size, "the body ends in the middle of a message"
        found.append(body[5 : 5 + size])
        body = body[5 + size :]
    return found


class Caller:
    """Calls a gateway's methods.

    Attributes:
        told: what its container says and hears.
        gateway: the gateway.
        http2: the connection.
    """

    def __init__(self, client: Client, http2: RawHttp2Client) -> None:
        self.client = client
        self.told = client.told
        self.gateway = client.gateway
        self.http2 = http2

    def begin(self, path: str, body: bytes | None = None, **headers: str | None) -> RawHttp2Stream:
        """Begin a call, and say its whole body unless it is None."""
        fields: dict[str, str | None] = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "gateway.example",
            "te": "trailers",
            "content-type": "application/grpc",
        }
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = [(name, value) for name, value in fields.items() if value is not None]
        stream = self.http2.request(request)
        if body is not None:
            stream.send(body)
            stream.end()
        return stream

    async def call(self, path: str, *messages: bytes, **headers: str | None) -> Ended:
        return await ended(self.begin(path, b"".join(map(prefixed, messages)), **headers))


async def ended(stream: RawHttp2Stream) -> Ended:
    """Wait for a call's end, which must be in good order."""
    body = await stream.body()
    assert stream.ends[0] == "END_STREAM"
    head, *rest = (dict(each) for each in stream.heads)
    if rest:
        return Ended(head, unprefixed(body), rest[0])
    assert body == b"", "a response that is a head alone has no body"
    return Ended(head, [], head)


@pytest.fixture
async def calling(asking) -> AsyncIterator:
    """Starts a container and a gateway, and connects; see ``asking`` for what it takes."""
    connections = []

    async def start(*args, **settings):
        client = await asking(*args, **settings)
        http2 = await RawHttp2Client.connect(client.gateway.port)
        connections.append(http2)
        return Caller(client, http2)

    yield start
    for each in connections:
        await each.aclose()
