"""A whole conversation of AWS's JavaScript SDK, replayed step by step in its own order.

``tests/interop/record_js_transcript.py`` made it, over HTTP/2 in clear. What it has in common with
the Python SDK's is in :mod:`tests.transcripts.test_transcripts`; here is what only JavaScript does:
GOAWAY in the middle, and ``:authority`` signed in place of ``host``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.network.dialling import Address
from partway.gateway.settings.settings import Settings
from partway.protocol.errors import InvalidSignature
from partway.protocol.signatures.payload_hashes import payload_hash_of_stream
from partway.protocol.signatures.verification import read_claim, verify
from tests.event_factory import read
from tests.frame_factory import CLOSE, CONTINUATION, TEXT, close, frame
from tests.transcripts.test_transcripts import Transcript, frames_of, load
from tests.wire.http2_peers import PREFACE
from tests.wire.peers import RawClient, RawContainer, eventually, soon

(PATH,) = Path(__file__).parent.glob("aws-sdk-js-*.json")


@pytest.fixture(scope="module")
def transcript() -> Transcript:
    return load(PATH)


def steps(transcript: Transcript) -> list[tuple[bytes, bytes]]:
    """What the client said at once, and what the gateway said then."""
    said = [bytes.fromhex("".join(each["hex"])) for each in transcript.told["bytes"]]
    if len(said) % 2:
        said.append(b"")
    return list(zip(said[::2], said[1::2], strict=True))


def of_kind(frames: list[Frame], kind: type[Frame]) -> list[Any]:
    return [each for each in frames if isinstance(each, kind)]


# --- The recording -------------------------------------------------------------------------------


@pytest.mark.clause("2.1-4", "2.4-3")
def test_authority_is_signed_and_there_is_no_host(transcript: Transcript) -> None:
    headers = dict(transcript.headers)
    signed = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert ":authority" in signed
    assert "host" not in signed
    assert "host" not in headers
    assert "content-length" not in headers


@pytest.mark.clause("2.4-3", "2.4-6")
def test_another_authority_is_not_what_was_signed(transcript: Transcript) -> None:
    headers = tuple(
        (name, "gateway.example" if name == ":authority" else value)
        for name, value in transcript.request.headers
    )
    request = transcript.request.but(headers=headers)
    with pytest.raises(InvalidSignature):
        verify(
            request,
            read_claim(request),
            transcript.credentials,
            payload_hash=payload_hash_of_stream(headers),
            region=transcript.told["region"],
            now=transcript.time,
        )


@pytest.mark.clause("2.1-4")
def test_goaway_comes_between_the_head_and_the_last_events(transcript: Transcript) -> None:
    told = steps(transcript)
    client = [of_kind(frames_of(c.removeprefix(PREFACE)), GoAwayFrame) for c, _ in told]
    first = next(number for number, found in enumerate(client) if found)
    heads = [of_kind(frames_of(gateway), HeadersFrame) for _, gateway in told]
    assert any(heads[:first])
    assert not any(heads[first:])
    later = told[first + 1 :]
    assert any(of_kind(frames_of(c), DataFrame) for c, _ in later)
    assert any(of_kind(frames_of(g), DataFrame) for _, g in later)


# --- Through a gateway ---------------------------------------------------------------------------


@pytest.fixture
async def container(anyio_backend: object, no_leaks: None) -> AsyncIterator[RawContainer]:
    async with RawContainer() as container:
        yield container


@pytest.fixture
async def port(
    container: RawContainer, transcript: Transcript, tmp_path: Path
) -> AsyncIterator[int]:
    """Of a gateway whose clock stands where the recording's stood."""
    members = "\n".join(f'{name} = "{value}"' for name, value in transcript.told["key"].items())
    principals = tmp_path / "principals.toml"
    principals.write_text(f'[[principals]]\nname = "js"\n[[principals.keys]]\n{members}\n', "utf-8")
    principals.chmod(0o600)
    settings = Settings(
        port=0,
        auth="sigv4",
        principals=principals,
        region=transcript.told["region"],
        endpoints=(
            Endpoint.attached("model", Address("127.0.0.1", container.port), StreamPolicy()),
        ),
        shutdown_hard=1.0,
    )
    gateway = Gateway(settings, wall_clock=lambda: transcript.time)
    yield (await gateway.start()).port
    container.stop()
    gateway.hasten()
    await gateway.drain()
    await eventually(lambda: not gateway.streams.sessions)


class Reader:
    """What the gateway sends, as HTTP/2 frames."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self.frames: list[Frame] = []

    async def until(self, heads: int, data: int) -> None:
        """Read until so many heads and bytes of DATA have come."""
        while len(of_kind(self.frames, HeadersFrame)) < heads or len(self.body) < data:
            header = await soon(self._client.reader.readexactly(9), f"DATA, {len(self.body)} B")
            each, length = Frame.parse_frame_header(memoryview(header))
            each.parse_body(memoryview(await soon(self._client.reader.readexactly(length))))
            self.frames.append(each)

    @property
    def body(self) -> bytes:
        return b"".join(each.data for each in of_kind(self.frames, DataFrame))


@pytest.mark.clause("2.1-4", "2.3-1", "2.3-3", "2.4-3", "2.4-4", "2.4-5", "2.5-2")
async def test_it_goes_on_after_goaway(
    transcript: Transcript, container: RawContainer, port: int
) -> None:
    """Each side says what it said, once it has heard what it had heard."""
    client = await RawClient.connect(port)
    gateway = Reader(client)
    frames = transcript.told["container"]["frames"]
    answers = [
        (1, frame(TEXT, b"Wie ", fin=False)),
        (len(frames) - 1, frame(CONTINUATION, b"geht's?") + frame(2, b"\0")),
        (len(frames), frame(TEXT, b"the tail") + close(1000)),
    ]
    model = None
    heads = data = 0
    for said, answered in steps(transcript):
        client.send(said)
        if model is None and HeadersFrame in {type(f) for f in frames_of(said[len(PREFACE) :])}:
            model = await container.stream()
            assert model.target == transcript.told["container"]["target"]
        expected = frames_of(answered)
        heads += len(of_kind(expected, HeadersFrame))
        data += sum(len(each.data) for each in of_kind(expected, DataFrame))
        while model is not None and len(gateway.body) < data and answers:
            count, answer = answers.pop(0)
            await model.frames(count - len(model.seen))
            model.send(answer)
            if len(model.seen) < len(frames):
                break
        await gateway.until(heads, data)
    assert model is not None
    assert model.seen[-1].opcode == CLOSE
    assert [[each.opcode, each.fin, each.payload.hex()] for each in model.seen] == frames
    received = [
        [event.payload.hex(), event.headers["DataType"], event.headers["CompletionState"]]
        for event in read(gateway.body)
    ]
    assert received == transcript.told["received"]
    client.abort()
