"""Whole conversations of AWS's own SDK, replayed: an oracle for signatures, events and frames.

The recorders in ``tests/interop`` made them: every byte that the SDK sent and got, the key that it
signed with, what its user and the container saw. HTTP/2 is read with hyperframe and
hpack, messages with botocore.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hpack import Decoder
from hyperframe.frame import DataFrame, Frame, HeadersFrame

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.network.dialling import Address
from partway.gateway.settings.settings import Settings
from partway.protocol.event_stream.part_headers import EventFault
from partway.protocol.event_stream.reader import RequestEvents
from partway.protocol.parts import InputEnd, PayloadPart
from partway.protocol.signatures.canonical_form import Credentials
from partway.protocol.signatures.event_chain import EventChain
from partway.protocol.signatures.payload_hashes import payload_hash_of_stream
from partway.protocol.signatures.verification import SignableRequest, read_claim, verify
from tests.event_factory import read
from tests.frame_factory import close
from tests.wire.http2_peers import PREFACE
from tests.wire.peers import RawClient, RawContainer, eventually

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.json"))
MAX_PART = 16_777_216


# --- Reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Transcript:
    """One conversation.

    Attributes:
        told: the file.
        sent: the client's bytes.
        headers: of its request.
        messages: the outer messages of its body, as bytes.
    """

    told: dict[str, Any]
    sent: bytes
    headers: list[tuple[str, str]]
    messages: list[bytes]

    @property
    def request(self) -> SignableRequest:
        """The request as signatures see it."""
        pseudo = dict(self.headers[:4])
        path, _, query = pseudo[":path"].partition("?")
        fields = [pair for pair in self.headers if pair[0] == ":authority" or pair[0][0] != ":"]
        return SignableRequest(pseudo[":method"], path, query, tuple(fields))

    @property
    def by_python(self) -> bool:
        """Whether it was the SDK for Python."""
        return self.told["sdk"].startswith("aws-sdk-sagemaker-runtime-http2 ")

    @property
    def credentials(self) -> Credentials:
        """The key that it was signed with."""
        return Credentials(**self.told["key"])

    @property
    def time(self) -> float:
        """When the request was made, epoch seconds."""
        return read_claim(self.request).timestamp

    def parts(self, messages: list[bytes]) -> list[PayloadPart | InputEnd]:
        """What the gateway's reader makes of outer messages.

        Raises:
            EventFault: of the first that is none of the client's.
        """
        claim = read_claim(self.request)
        chain = EventChain(
            [self.credentials.secret_access_key], self.told["region"], self.time, claim.signature
        )
        events = RequestEvents(MAX_PART, chain.checked_by(lambda: self.time))
        found = []
        for message in messages:
            events.feed(message)
            while (event := events.next_event()) is not None:
                found.append(event)
        return found


def frames_of(data: bytes) -> list[Frame]:
    """HTTP/2 frames, by hyperframe."""
    frames = []
    while data:
        frame, length = Frame.parse_frame_header(memoryview(data[:9]))
        frame.parse_body(memoryview(data[9 : 9 + length]))
        frames.append(frame)
        data = data[9 + length :]
    return frames


def load(path: Path) -> Transcript:
    told = json.loads(path.read_text("utf-8"))
    sent = b"".join(
        bytes.fromhex("".join(entry["hex"])) for entry in told["bytes"] if entry["from"] == "client"
    )
    assert sent.startswith(PREFACE)
    frames = frames_of(sent[len(PREFACE) :])
    (head,) = (frame for frame in frames if isinstance(frame, HeadersFrame))
    headers = [(str(name), str(value)) for name, value in Decoder().decode(head.data)]
    body = b"".join(frame.data for frame in frames if isinstance(frame, DataFrame))
    messages = []
    while body:
        length = int.from_bytes(body[:4], "big")
        messages.append(body[:length])
        body = body[length:]
    return Transcript(told, sent, headers, messages)


@pytest.fixture(params=TRANSCRIPTS, ids=lambda path: path.stem)
def transcript(request: pytest.FixtureRequest) -> Transcript:
    return load(request.param)


def test_there_are_transcripts() -> None:
    stems = {path.stem for path in TRANSCRIPTS}
    assert stems >= {"aws-sdk-python-0.12-signed", "aws-sdk-python-0.4-signed"}


# --- The request ---------------------------------------------------------------------------------


@pytest.mark.clause("2.1-1", "2.4-1", "2.4-2", "2.4-3")
def test_the_request_is_verified(transcript: Transcript) -> None:
    if transcript.by_python:
        assert dict(transcript.headers)[":path"].endswith("?")
    request = transcript.request
    verify(
        request,
        read_claim(request),
        transcript.credentials,
        payload_hash=payload_hash_of_stream(request.headers),
        region=transcript.told["region"],
        now=transcript.time,
    )


# --- Events --------------------------------------------------------------------------------------


def seen_by_botocore(message: bytes) -> tuple[bytes, dict[str, Any]]:
    """The inner message's payload and members; both empty where there is no inner message."""
    (outer,) = read(message)
    if not outer.payload:
        return b"", {}
    (inner,) = read(outer.payload)
    return inner.payload, inner.headers


@pytest.mark.clause("2.3-1", "2.3-2", "2.4-4")
def test_every_event_is_verified_and_read(transcript: Transcript) -> None:
    parts = transcript.parts(transcript.messages)
    assert len(parts) == len(transcript.messages)
    ended = [isinstance(part, InputEnd) for part in parts]
    # A signed empty message ends the input, but for Python's 0.4, which has END_STREAM alone.
    says_so = transcript.told["sdk"] != "aws-sdk-sagemaker-runtime-http2 0.4.0"
    assert ended == [False] * (len(parts) - 1) + [says_so]
    for message, part in zip(transcript.messages, parts, strict=True):
        payload, members = seen_by_botocore(message)
        if isinstance(part, PayloadPart):
            assert bytes(part.payload) == payload
            assert part.data_type.value == members.get("DataType", "BINARY")
            assert part.completion.value == members.get("CompletionState", "COMPLETE")
            if transcript.by_python:
                assert (":content-type" in members) is bool(payload)
        else:
            assert (payload, members) == (b"", {})


@pytest.mark.clause("2.3-1", "2.4-4")
def test_no_byte_of_an_event_can_be_changed(transcript: Transcript) -> None:
    """Not even with checksums that fit again: the signature covers the whole of it."""
    refused = 0
    for number, message in enumerate(transcript.messages):
        before = transcript.messages[:number]
        for at in range(12, len(message) - 4):
            changed = bytearray(message)
            changed[at] ^= 0x01
            with pytest.raises(EventFault):
                transcript.parts([*before, checksummed(changed)])
            refused += 1
    assert refused > 1000


@pytest.mark.clause("2.3-1")
def test_no_byte_of_a_checksum_can_be_changed(transcript: Transcript) -> None:
    message = transcript.messages[0]
    for at in [*range(12), *range(len(message) - 4, len(message))]:
        changed = bytearray(message)
        changed[at] ^= 0x80
        with pytest.raises(EventFault):
            transcript.parts([bytes(changed)])


@pytest.mark.clause("2.4-4")
@pytest.mark.parametrize(
    "change",
    [
        lambda messages: messages[1:],
        lambda messages: [messages[0], messages[0]],
        lambda messages: [messages[1], messages[0]],
        lambda messages: [messages[0], *messages[2:]],
    ],
    ids=["without-the-first", "repeated", "swapped", "one-dropped"],
)
def test_no_event_can_be_moved(
    transcript: Transcript, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    with pytest.raises(EventFault):
        transcript.parts(change(transcript.messages))


def checksummed(message: bytearray) -> bytes:
    """The same message with the checksum that its bytes have now."""
    return bytes(message[:-4]) + zlib.crc32(message[:-4]).to_bytes(4, "big")


# --- Through a gateway ---------------------------------------------------------------------------


@pytest.fixture
async def container(anyio_backend: object) -> AsyncIterator[RawContainer]:
    async with RawContainer() as container:
        yield container


@pytest.mark.clause("1.2-3", "1.2-4", "1.2-5", "1.6-1", "2.3-1", "2.3-2", "2.4-4", "2.5-1")
async def test_the_container_gets_the_same_frames(
    transcript: Transcript, container: RawContainer, tmp_path: Path
) -> None:
    principals = tmp_path / "principals.toml"
    members = "\n".join(f'{name} = "{value}"' for name, value in transcript.told["key"].items())
    principals.write_text(
        f'[[principals]]\nname = "sdk"\n[[principals.keys]]\n{members}\n', "utf-8"
    )
    principals.chmod(0o600)
    # It was said over TLS, where version 0.4 for Python need not sign its end (clause 2.3-2).
    policy = StreamPolicy(signed_end="optional")
    endpoint = Endpoint.attached("model", Address("127.0.0.1", container.port), policy)
    settings = Settings(
        port=0,
        auth="sigv4",
        principals=principals,
        region=transcript.told["region"],
        endpoints=(endpoint,),
        shutdown_hard=1.0,
    )
    gateway = Gateway(settings, wall_clock=lambda: transcript.time)
    async with AsyncExitStack() as running:
        port = (await gateway.start()).port
        running.push_async_callback(gateway.drain)
        running.callback(gateway.hasten)
        client = await RawClient.connect(port)
        running.callback(client.abort)
        client.send(transcript.sent)
        model = await container.stream()
        assert model.target == transcript.told["container"]["target"]
        expected = transcript.told["container"]["frames"]
        frames = await model.frames(len(expected))
        assert [[each.opcode, each.fin, each.payload.hex()] for each in frames] == expected
        model.send(close(1000))
        await eventually(lambda: not gateway.streams.sessions)
