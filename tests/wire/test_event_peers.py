"""Clients of event streams: chunks, signatures, and what their dialects accept as a response."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hyperframe.frame import DataFrame, Frame, HeadersFrame, RstStreamFrame

from tests.event_factory import exception, message, part, part_headers, read, string
from tests.wire.chunked_peers import RawChunkedClient, chunk, chunked_head
from tests.wire.dialects import BIN, CLEAN, PARTIAL, UTF8, End, Error, Part, pattern
from tests.wire.event_dialect import EVENT_STREAMS, Http1Dialect, Http2Dialect
from tests.wire.event_messages import END, part_event
from tests.wire.event_signing import EMPTY_HASH, KEY_ID, SECRET, STREAMING, EventSigning, stamp
from tests.wire.http2_peers import PREFACE
from tests.wire.http2_streams import bidirectional_request
from tests.wire.peers import eventually, soon

REQUEST = bidirectional_request()

# --- Chunks both ways ----------------------------------------------------------------------------


@asynccontextmanager
async def server(serve) -> AsyncIterator[int]:
    """A server for one connection; its port."""
    served: list[asyncio.Task[None]] = []

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    listening = await asyncio.start_server(run, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
        await soon(asyncio.gather(*served), "the server")
    finally:
        listening.close()


OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: a/b\r\n\r\n"
CLOSING = OK.replace(b"Content", b"Connection: close\r\nContent")


async def echo(reader, writer):
    """Echoes each chunk as it comes, extensions and trailers included."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" + CLOSING)
    while (size := await reader.readuntil(b"\r\n")).split(b";")[0].strip() != b"0":
        length = int(size.split(b";")[0], 16)
        writer.write(size + await reader.readexactly(length + 2))
    writer.write(size)
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        writer.write(line)
    writer.write(line)


async def test_chunks_go_both_ways_at_once():
    async with server(echo) as port:
        client = await RawChunkedClient.connect(port)
        client.request(REQUEST)
        assert await client.head() == (
            200,
            {"transfer-encoding": "chunked", "connection": "close", "content-type": "a/b"},
        )
        for data in (b"one", pattern(70_000), b"3"):
            client.send_chunk(data, extension=b";a=b")
            assert await client.data() == data
        client.send_chunk()  # nothing is no last chunk
        client.send_chunk(b"four", b"4")
        assert not client.input_ended
        client.end_input(b"X: y\r\nZ: 1\r\n")
        assert await client.body() == b"four4"
        assert client.trailers == b"X: y\r\nZ: 1\r\n"
        assert client.chunks == [b"one", pattern(70_000), b"3", b"four4"]
        assert await client.ended() == ("LAST_CHUNK", "EOF")
        client.abort()


async def test_events_and_chunks_have_their_own_boundaries():
    sent = b"".join([part(b"Hello", "UTF8"), part(), message()])
    async with server(echo) as port:
        client = await RawChunkedClient.connect(port)
        client.request(REQUEST)
        for at in range(0, len(sent), 9):
            client.send_chunk(sent[at : at + 9])
        client.end_input()
        assert [(await client.event()).payload for _ in range(3)] == [b"Hello", b"", b""]
        assert await client.event() is END
        client.abort()


CHUNKED_ENDS = {
    "last chunk": (OK + chunk(b"a") + b"0\r\n\r\n", "wait", ("LAST_CHUNK",)),
    "and the connection": (CLOSING + b"0\r\n\r\n", "eof", ("LAST_CHUNK", "EOF")),
    "none": (OK + chunk(b"a"), "eof", ("EOF",)),
    "inside a chunk": (OK + chunk(b"a")[:-1], "eof", ("CUT",)),
    "inside a size": (OK + b"1", "eof", ("CUT",)),
    "inside the last": (OK + b"0\r\n", "eof", ("CUT",)),
    "reset": (OK, "reset", ("ABORT",)),
}


@pytest.mark.parametrize(("sent", "then", "expected"), CHUNKED_ENDS.values(), ids=CHUNKED_ENDS)
async def test_ends_of_a_chunked_response(sent, then, expected):
    done = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        if then == "reset":
            writer.get_extra_info("socket").setsockopt(1, 13, struct.pack("ii", 1, 0))
            await writer.drain()
            await asyncio.sleep(0.05)  # what is sent comes before RST
            writer.transport.abort()
        if then == "wait":
            await done.wait()

    async with server(serve) as port:
        client = await RawChunkedClient.connect(port)
        client.request(REQUEST)
        assert await client.ended() == expected
        if expected[0] == "LAST_CHUNK":
            assert await client.event() is END
        else:
            with pytest.raises(EOFError, match=expected[0]):
                await client.event()
        client.abort()
        done.set()


def test_a_head_for_http_1_1_is_made_from_one_for_http_2():
    headers = bidirectional_request([("x-a", "1")], authority="host:1", path="/p?")
    assert chunked_head(headers, "1.0", "gzip, chunked") == (
        b"POST /p? HTTP/1.0\r\nHost: host:1\r\nTransfer-Encoding: gzip, chunked\r\n"
        b"content-type: application/vnd.amazon.eventstream\r\nx-a: 1\r\n\r\n"
    )


# --- Signatures ----------------------------------------------------------------------------------

#: 2026-03-01T23:59:58.250Z, and the next day's 00:00:01.001.
EVENING, MORNING = 1_772_409_598_250, 1_772_409_601_001

#: What AWS's SDK for Python signs (aws-sdk-signers, smithy-aws-event-stream): this request, then
#: an event in the evening, an empty one and the end of input in the morning.
SDK_TOKEN = "token/with=signs"
SDK_REQUEST = bidirectional_request(
    [("x-amzn-sagemaker-target-variant", "")],
    "/endpoints/a%20b/invocations-bidirectional-stream?",
    authority="gateway.example:8443",
)
SDK_SIGNATURE = "f9df981d907894b694ea53197a93519e61c7831d03fa19f7f5a773921dd574b7"
SDK_EVENTS = """
000000ce00000043dcd299f9053a64617465080000019cabd8312a103a6368756e6b2d7369676e617475726506002082
d9b71bd46dd72ac9a8a51abcc43e18a102c776e01b4b622dd6c675a3fcd07a0000007b00000069df4ed74b0d3a6d6573
736167652d747970650700056576656e740b3a6576656e742d7479706507000b5061796c6f6164506172740d3a636f6e
74656e742d747970650700186170706c69636174696f6e2f6f637465742d73747265616d084461746154797065070004
555446386869f116811df15dc6f9

00000093000000431c519283053a64617465080000019cabd83be9103a6368756e6b2d7369676e6174757265060020ce
fcf21b031e94dc144c88aeb64cf7cee7d5c27de7f3fc12eefc4def421a5c3d00000040000000301b08b78c0d3a6d6573
736167652d747970650700056576656e740b3a6576656e742d7479706507000b5061796c6f616450617274874f79ff76
ec93a4

0000005300000043f5447a58053a64617465080000019cabd83be9103a6368756e6b2d7369676e617475726506002025
65bc46725b8a8748cca7138627e21bf7ec53b180898624adfa779821da925bcb41a4e5
"""


def test_the_chain_is_that_of_awss_sdk_for_python():
    times = iter([EVENING, EVENING, MORNING])
    signing = EventSigning(token=SDK_TOKEN, clock=lambda: next(times))
    headers = signing.request(SDK_REQUEST)
    assert dict(headers)["authorization"] == (
        f"AWS4-HMAC-SHA256 Credential={KEY_ID}/20260301/us-east-1/sagemaker/aws4_request, "
        "SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token;"
        f"x-amzn-sagemaker-target-variant, Signature={SDK_SIGNATURE}"
    )
    assert signing.prior == SDK_SIGNATURE
    # As the SDK ordered its headers.
    first = message(
        b"".join(
            string(*pair)
            for pair in [
                (":message-type", "event"),
                (":event-type", "PayloadPart"),
                (":content-type", "application/octet-stream"),
                ("DataType", "UTF8"),
            ]
        ),
        b"hi",
    )
    seen = [signing.event(first), signing.event(part_event()), signing.end(MORNING)]
    assert seen == [bytes.fromhex(each) for each in SDK_EVENTS.split("\n\n")]


@pytest.mark.parametrize(
    "path", ["/endpoints/m/x", "/a%20b/c?", "/a?b=2&a=%20x&a=1&c", "/base/endpoints/m~-._/x"]
)
def test_requests_are_signed_as_botocore_signs_them(path):
    signing = EventSigning(token="a token", region="eu-west-1")
    headers = signing.request(bidirectional_request([("x-a", "b  c ")], path, authority="a.b:8443"))
    assert ("x-amz-content-sha256", STREAMING) in headers
    given = {name: value for name, value in headers if name[0] != ":" and name != "authorization"}
    target, _, query = path.partition("?")
    request = AWSRequest("POST", f"https://a.b:8443{target}", given)
    request.params = [pair.partition("=")[::2] for pair in query.split("&") if pair]
    request.params = [(name, value.replace("%20", " ")) for name, value in request.params]
    request.context["timestamp"] = given["x-amz-date"]
    auth = SigV4Auth(Credentials(KEY_ID, SECRET, "a token"), "sagemaker", "eu-west-1")
    to_sign = auth.string_to_sign(request, auth.canonical_request(request))
    assert auth.signature(to_sign, request) == signing.prior


def test_what_the_other_sdks_sign_differently():
    js = dict(EventSigning(style="js").request(REQUEST))
    names = re.search("SignedHeaders=([^,]*),", js["authorization"])[1].split(";")
    assert names == [":authority", "content-type", "x-amz-content-sha256", "x-amz-date"]
    signing = EventSigning(style="rust", clock=lambda: EVENING)
    rust = signing.request(REQUEST)
    assert [name for name, _ in rust][-2:] == ["x-amz-date", "authorization"]
    canonical = (
        "POST\n/endpoints/model/invocations-bidirectional-stream\n\n"
        "content-type:application/vnd.amazon.eventstream\nhost:gateway.example\n"
        f"x-amz-date:20260301T235958Z\n\ncontent-type;host;x-amz-date\n{EMPTY_HASH}"
    )
    assert signing.prior == verify_key(
        "20260301",
        "AWS4-HMAC-SHA256\n20260301T235958Z\n20260301/us-east-1/sagemaker/aws4_request\n"
        + hashlib.sha256(canonical.encode()).hexdigest(),
    )
    some = EventSigning().request([*REQUEST, ("x-amz-other", "1")], unsigned={"x-amz-other"})
    assert ("x-amz-other", "1") in some
    assert "x-amz-other" not in dict(some)["authorization"]


def verify_key(day: str, text: str) -> str:
    """A signature, once more."""
    key = hmac.new(f"AWS4{SECRET}".encode(), day.encode(), hashlib.sha256).digest()
    for step in (b"us-east-1", b"sagemaker", b"aws4_request"):
        key = hmac.new(key, step, hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def test_each_event_covers_the_one_before_it():
    """Checked from the bytes alone, as clause 2.4-4 has it."""
    times = iter([EVENING, EVENING + 1, MORNING, MORNING - 999, MORNING + 1])
    signing = EventSigning(clock=lambda: next(times))
    prior = dict(signing.request(REQUEST))["authorization"].rpartition("=")[2]
    sent = [
        part_event(b"a", "UTF8", "PARTIAL", signed_by=signing.event),
        part_event(signed_by=signing.event),
        part_event(pattern(70_000), padding="ppp", signed_by=signing.event),
        signing.end(),
    ]
    for each, at in zip(sent, [EVENING, MORNING, MORNING, MORNING], strict=True):
        assert each[12:18] == b"\x05:date"
        date_header, payload = each[12:27], each[12 + 67 : -4]
        (date,) = struct.unpack("!q", date_header[7:])
        assert stamp(date)[:8] == stamp(at)[:8]
        lines = [
            "AWS4-HMAC-SHA256-PAYLOAD",
            stamp(date),
            f"{stamp(date)[:8]}/us-east-1/sagemaker/aws4_request",
            prior,
            hashlib.sha256(date_header).hexdigest(),
            hashlib.sha256(payload).hexdigest(),
        ]
        prior = verify_key(stamp(date)[:8], "\n".join(lines))
        assert each[12 + 67 - 32 : 12 + 67].hex() == prior
    assert sent[3][12 + 67 : -4] == b""


def test_parts_as_a_client_sends_them():
    (full,) = read(part_event(b"x", "UTF8", "PARTIAL", padding="pp"))
    assert (full.headers, full.payload) == (
        {
            ":message-type": "event",
            ":event-type": "PayloadPart",
            ":content-type": "application/octet-stream",
            "DataType": "UTF8",
            "CompletionState": "PARTIAL",
            "P": "pp",
        },
        b"x",
    )
    (least,) = read(part_event())
    assert least.headers == {":message-type": "event", ":event-type": "PayloadPart"}


# --- Dialects ------------------------------------------------------------------------------------

HEAD_1 = OK.replace(b"a/b", b"application/vnd.amazon.eventstream")
HEAD_2 = HeadersFrame(
    1, b"\x88\x5f\x22application/vnd.amazon.eventstream", flags=["END_HEADERS"]
).serialize()


def wrapped(name: str, data: bytes, ends: bool, tail: bytes | None) -> bytes:
    """A response to either client, with another end where there is a ``tail``."""
    if name == "http1":
        head = HEAD_1.replace(b"Content", b"Connection: close\r\nContent")
        return head + (chunk(data) if data else b"") + (b"0\r\n\r\n" if tail is None else tail)
    flags = ["END_STREAM"] if ends else []
    frames: list[Frame] = [DataFrame(1, data, flags=flags)]
    if tail is None and ends:
        frames.append(RstStreamFrame(1, error_code=0))
    return HEAD_2 + b"".join(frame.serialize() for frame in frames) + (tail or b"")


@asynccontextmanager
async def conversation(name: str, data: bytes = b"", ends: bool = True, tail: bytes | None = None):
    """A dialect, its client with a response on its way, and what the server gets of it."""
    got = bytearray()

    async def serve(reader, writer):
        if name == "http1":
            await reader.readuntil(b"\r\n\r\n")
        else:
            await reader.readexactly(len(PREFACE) + 9)
        writer.write(wrapped(name, data, ends, tail))
        if ends:
            writer.write_eof()  # it stands for HTTP/2's pongs
        while some := await reader.read(1 << 16):
            got.extend(some)

    dialect = EVENT_STREAMS[name]()
    async with server(serve) as port:
        client = await dialect.client.open(port)
        try:
            yield dialect, client, got
        finally:
            client.abort()


both = pytest.mark.parametrize("name", EVENT_STREAMS)


@both
async def test_a_response_is_read_part_by_part_to_its_orderly_end(name):
    data = part(b"a", UTF8, PARTIAL) + part(b"", UTF8) + part(pattern(9000), BIN)
    async with conversation(name, data) as (dialect, client, _):
        assert await dialect.read(client) == Part(b"a", UTF8, PARTIAL)
        assert await dialect.read_event(client) == {
            "PayloadPart": {"Bytes": b"", "DataType": UTF8, "CompletionState": "COMPLETE"}
        }
        assert await dialect.read(client) == Part(pattern(9000), BIN)
        assert await dialect.read_end(client) == CLEAN
        await client.leave()


@both
async def test_errors_are_the_last_events(name):
    data = exception("ModelStreamError", b'{"Message": "m", "ErrorCode": "1011"}')
    async with conversation(name, data) as (dialect, client, _):
        assert await dialect.read_end(client) == dialect.model_error("1011", "m")
    async with conversation(name, data) as (dialect, client, _):
        assert await dialect.read_error(client) == Error("ModelStreamError", "1011", "m")
    data = exception("InternalStreamFailure", b'{"Message": "m"}')
    async with conversation(name, data) as (dialect, client, _):
        assert await dialect.read_end(client) == dialect.failure("m")
        assert dialect.failure("m") == End({"InternalStreamFailure": {"Message": "m"}}, 4500)


WRONG = {
    "part behind an error": exception("InternalStreamFailure", b'{"Message": ""}') + part(b"x"),
    "unknown exception": exception("KeyError", b'{"Message": ""}'),
    "members": exception("InternalStreamFailure", b'{"Message": "", "ErrorCode": "1"}'),
    "no content type": part(b"", content_type=None),
    "another content type": part(b"", content_type="text/plain"),
    "one header more": part(b"", more=string("P", "x")),
    "no state": part(b"", UTF8, None),
    "initial response": part(b"", event_type="initial-response"),
    "message type": message(part_headers(message_type="error")),
}


@both
@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
async def test_what_no_client_would_take_is_not_taken(name, data):
    async with conversation(name, data) as (dialect, client, _):
        with pytest.raises((AssertionError, KeyError)):
            await dialect.read(client)


@pytest.mark.parametrize(
    ("name", "tail", "what"),
    [
        ("http2", b"", r"\('END_STREAM',\)"),
        ("http2", RstStreamFrame(1, error_code=2).serialize(), "INTERNAL_ERROR"),
        ("http1", b"", "EOF"),
        ("http1", b"0\r\n", "CUT"),
    ],
)
async def test_an_end_that_is_not_in_order_is_none(name, tail, what):
    async with conversation(name, tail=tail) as (dialect, client, _):
        with pytest.raises((AssertionError, EOFError), match=what):
            await dialect.read(client)


@both
async def test_what_a_test_sends_is_events(name):
    async with conversation(name, ends=False, tail=b"") as (dialect, client, got):
        bare = dialect.parts(Part(b"a", UTF8, PARTIAL), Part(b"", UTF8))
        client.send(bare)
        client.send(dialect.event({"PayloadPart": {"Bytes": b"x", "P": "pp"}}), dialect.end())
        client.end_input()
        await client.flush()
        assert client.input_ended
        client.end()
        expected = part_event(b"x", padding="pp")
        await eventually(lambda: expected in got)
    assert 0 <= got.find(bare) < got.find(expected)
    (end,) = read(dialect.end())
    assert (sorted(end.headers), end.payload) == ([":chunk-signature", ":date"], b"")


def test_a_dialect_may_sign():
    signing, same = (EventSigning(clock=lambda: EVENING) for _ in range(2))
    for each in (signing, same):
        each.request(REQUEST)
    dialect = Http2Dialect(signing.event)
    sent = dialect.parts(Part(b"a", UTF8)) + dialect.end()
    assert sent == same.event(part_event(b"a", UTF8, "COMPLETE")) + same.end()
    assert (Http1Dialect.name, Http2Dialect.name) == ("http1", "http2")
