"""Event streams over HTTP/1.1: both bodies in chunks, open at once (section 2.7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import pairwise

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.protocol.connections.http1_reading import RequestReader
from partway.protocol.limits import HTTP1_BYTES_PER_TURN, KIB, LINGER_TIMEOUT, MIB
from tests.event_factory import signed
from tests.frame_factory import BINARY, CONTINUATION, TEXT, close, frame
from tests.wire.chunked_peers import RawChunkedClient, chunk, chunked_head
from tests.wire.event_dialect import Http1EventClient, as_event
from tests.wire.event_messages import END, part_event
from tests.wire.http2_streams import bidirectional_request
from tests.wire.peers import ModelStream, RawContainer, RunningGateway, eventually, switching

NOBODY = 1e9  # an interval that never comes
SMALL = 64 * KIB
HI, HO = part_event(b"hi", "UTF8"), part_event(b"ho", "UTF8")


async def connect(gateway: RunningGateway, **options: object) -> RawChunkedClient:
    """A connection that has said nothing yet."""
    client = await RawChunkedClient.connect(gateway.port, **options)
    gateway.clients.append(client)
    return client


async def sent_whole(
    gateway: RunningGateway, body: bytes, *headers: str
) -> tuple[RawChunkedClient, ModelStream]:
    """A request with its body, all in one write."""
    client = await connect(gateway)
    head = chunked_head(bidirectional_request()).decode()
    if headers:
        head = head.replace("Transfer-Encoding: chunked", "\r\n".join(headers))
    client.send(head.encode() + body)
    model = await gateway.container.stream()
    assert (await client.head())[0] == 200
    return client, model


@pytest.fixture
async def slow_container(anyio_backend: object) -> AsyncIterator[RawContainer]:
    """One whose sockets take little, and that reads only when the test does."""
    async with RawContainer(receive_buffer=SMALL) as container:
        yield container


# --- Chunks of the request -----------------------------------------------------------------------


def cut(data: bytes, *at: int) -> bytes:
    """Chunks that are cut at these places."""
    edges = [0, *at, len(data)]
    return b"".join(chunk(data[a:b]) for a, b in pairwise(edges))


CHUNKS = {
    "one for each event": chunk(HI) + chunk(HO),
    "one for both": chunk(HI + HO),
    "of one byte": cut(HI + HO, *range(1, len(HI + HO))),
    "cut in the prelude, the headers, the payload": cut(HI + HO, 3, 11, 30, len(HI) - 5),
    "cut behind an event and in the next": cut(HI + HO, len(HI) + 1),
    "with extensions": chunk(HI, b";a=b") + chunk(HO, b';c="d\\"e;f"'),
    "sizes in capitals and with zeros": (
        b"%04X\r\n%b\r\n" % (len(HI), HI) + b"000%x\r\n%b\r\n" % (len(HO), HO)
    ),
}


@pytest.mark.clause("2.7-1")
@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
async def test_chunks_carry_no_meaning(gateway_for, chunks):
    gateway = await gateway_for()
    client, model = await sent_whole(gateway, chunks)
    seen = await model.frames(2)
    assert [(each.fin, each.opcode, each.payload) for each in seen] == [
        (True, TEXT, b"hi"),
        (True, TEXT, b"ho"),
    ]
    assert not client.input_ended


@pytest.mark.clause("2.7-1", "2.3-2")
@pytest.mark.parametrize(
    "trailers",
    [b"", b"x-checksum: 1\r\n", b"CompletionState: PARTIAL\r\nDate: 0\r\n"],
    ids=["none", "one", "some that mean something elsewhere"],
)
async def test_the_last_chunk_ends_the_input_and_trailers_mean_nothing(gateway_for, trailers):
    gateway = await gateway_for()
    client, model = await gateway.open("http1")
    client.send(HI)
    client.stream.end_input(trailers)
    assert (await model.frame()).payload == b"hi"
    assert (await model.frame()).close_code == 1000
    model.send(frame(TEXT, b"tail"), close(1000))
    assert as_event(await client.event())["PayloadPart"]["Bytes"] == b"tail"
    assert await client.event() is END
    assert await client.ended() == ("LAST_CHUNK", "EOF")
    assert gateway.causes() == {"completed": 1}


@pytest.mark.clause("2.3-2")
async def test_a_signed_empty_event_ends_the_input_too(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open("http1")
    client.send(HI, signed(b""))
    assert (await model.frame()).payload == b"hi"
    assert (await model.frame()).close_code == 1000
    model.send(close(1000))
    assert await client.ended() == ("LAST_CHUNK", "EOF")
    assert gateway.causes() == {"completed": 1}


@pytest.mark.clause("2.7-1")
@pytest.mark.parametrize("framing", ["Content-Length: {}", "content-length: {}"])
async def test_a_body_of_known_length(gateway_for, framing):
    gateway = await gateway_for()
    client, model = await sent_whole(gateway, HI + HO, framing.format(len(HI + HO)))
    assert [each.payload for each in await model.frames(2)] == [b"hi", b"ho"]
    assert (await model.frame()).close_code == 1000
    model.send(frame(TEXT, b"tail"), close(1000))
    assert as_event(await client.event())["PayloadPart"]["Bytes"] == b"tail"
    assert await client.ended() == ("LAST_CHUNK", "EOF")


@pytest.mark.clause("2.3-2")
@pytest.mark.parametrize("framing", ["Content-Length: 0", "X-None: 0"])
async def test_no_body_is_the_end_of_input(gateway_for, framing):
    gateway = await gateway_for()
    client, model = await sent_whole(gateway, b"", framing)
    assert (await model.frame()).close_code == 1000
    model.send(frame(TEXT, b"tail"), close(1000))
    assert as_event(await client.event())["PayloadPart"]["Bytes"] == b"tail"
    assert await client.ended() == ("LAST_CHUNK", "EOF")


async def test_a_client_that_expects_100_continue_gets_it(gateway_for):
    """One that waits for it before it sends its body would wait in vain (RFC 9110 §10.1.1)."""
    gateway = await gateway_for()
    client = await connect(gateway)
    client.request(bidirectional_request([("expect", "100-continue")]))
    model = await gateway.container.stream()
    assert await client.read_head() == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert (await client.head())[0] == 200
    client.send_chunk(HI)
    assert (await model.frame()).payload == b"hi"


async def test_a_refused_client_that_expects_100_continue_does_not_get_it(gateway_for):
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(
        chunked_head(bidirectional_request([("expect", "100-continue")], content_type="text/x"))
    )
    assert (await client.response()).status == 400


@pytest.mark.clause("2.7-1", "4-2")
@pytest.mark.parametrize("framing", ["Content-Length: 0", "Transfer-Encoding: chunked"])
async def test_http_1_0_is_refused(gateway_for, framing):
    gateway = await gateway_for()
    client = await gateway.connect()
    head = chunked_head(bidirectional_request(), version="1.0").decode()
    client.send(head.replace("Transfer-Encoding: chunked", framing).encode())
    client.send(b"0\r\n\r\n" if framing.startswith("Transfer") else b"")
    response = await client.response()
    assert response.status == 400
    if framing.startswith("Content"):
        assert response.json["ErrorCode"] == "InvalidHttpVersion"
    assert await client.eof() == b""
    assert gateway.container.connections == []


# --- Cuts ----------------------------------------------------------------------------------------

CUTS = {
    "FIN instead of the last chunk": (lambda client: client.end(), True),
    "FIN inside a chunk": (lambda client: (client.wire.send(b"20\r\nabc"), client.end()), True),
    "FIN inside a chunk's size": (lambda client: (client.wire.send(b"2"), client.end()), True),
    "FIN inside the last chunk": (lambda client: (client.wire.send(b"0\r\n"), client.end()), True),
    "RST": (lambda client: client.reset(), False),
    "a size that is none": (lambda client: client.wire.send(b"xyz\r\n"), True),
    "a negative size": (lambda client: client.wire.send(b"-1\r\n"), True),
    "a chunk that is longer": (lambda client: client.wire.send(b"1\r\nabc\r\n"), True),
    "the last chunk inside an event": (
        lambda client: (client.send(HO[:30]), client.end_input()),
        True,
    ),
}


@pytest.mark.clause("2.7-1", "2.3-2", "1.5-9")
@pytest.mark.parametrize(("cuts", "stays"), CUTS.values(), ids=CUTS)
async def test_input_that_is_cut(gateway_for, cuts, stays):
    """The response is abandoned: it has no last chunk."""
    gateway = await gateway_for()
    client, model = await gateway.open("http1")
    client.send(HI)
    assert (await model.frame()).payload == b"hi"
    cuts(client)
    assert (await model.frame()).close_code == 1001
    if stays:
        assert await client.ended() in (("EOF",), ("ABORT",))
    assert gateway.causes() == {"client_lost": 1}


@pytest.mark.clause("2.7-1")
async def test_a_body_that_is_none_before_the_101_is_a_bad_request(gateway_for):
    async with RawContainer(lambda request: None) as container:
        gateway = await gateway_for(container=container)
        client = await connect(gateway)
        client.request(bidirectional_request())
        model = await container.stream()
        client.send(b"xyz\r\n")
        await asyncio.sleep(0.05)  # it is read
        model.send(switching(model.request))
        response = await client.response()
        assert (response.status, response.json["ErrorCode"]) == (400, "MalformedBody")
        assert await model.eof() == b""


async def test_a_client_that_leaves_before_the_101_frees_its_place_at_once(gateway_for):
    async with RawContainer(lambda request: None) as container:
        gateway = await gateway_for(container=container, max_streams=1)
        client = await connect(gateway)
        client.request(bidirectional_request())
        client.send_chunk(HI)
        model = await container.stream()
        client.reset()
        assert await model.eof() == b""
    await eventually(lambda: gateway.gateway.streams.idle)


# --- A client that half-closes -------------------------------------------------------------------


@pytest.mark.clause("2.7-1", "1.5-12")
@pytest.mark.parametrize("framing", ["chunked", "Content-Length: {}"])
async def test_after_its_whole_body_a_client_may_close_its_side(gateway_for, framing):
    """Last event, last chunk and FIN at once: the response goes on to its end."""
    gateway = await gateway_for()
    if framing == "chunked":
        client, model = await sent_whole(gateway, b"")
        client.send_chunk(HI)
        client.end_input()
    else:
        client, model = await sent_whole(gateway, b"", framing.format(len(HI)))
        client.send(HI)
    client.end()
    assert (await model.frame()).payload == b"hi"
    assert (await model.frame()).close_code == 1000
    for number in range(3):
        model.send(frame(BINARY, bytes(MIB)))
        assert len(as_event(await client.event())["PayloadPart"]["Bytes"]) == MIB, number
    model.send(close(1000))
    assert await client.event() is END
    assert await client.ended() == ("LAST_CHUNK", "EOF")
    assert gateway.causes() == {"completed": 1}


@pytest.mark.clause("2.7-1")
async def test_a_client_may_close_its_side_while_it_is_not_read(gateway_for, slow_container):
    """Its last chunk waits here, behind events that the container does not take yet."""
    gateway = await gateway_for(container=slow_container)
    client, model = await gateway.open("http1")
    client.send(part_event(bytes(8 * MIB)))
    (session,) = gateway.gateway.streams.sessions
    await eventually(lambda: session.from_client.parts == 1)
    client.send(HI)
    client.end_input()
    client.end()
    await asyncio.sleep(0.05)
    assert gateway.causes() == {}
    assert len((await model.frame()).payload) == 8 * MIB
    assert (await model.frame()).payload == b"hi"
    assert (await model.frame()).close_code == 1000
    model.send(frame(TEXT, b"tail"), close(1000))
    assert as_event(await client.event())["PayloadPart"]["Bytes"] == b"tail"
    assert await client.ended() == ("LAST_CHUNK", "EOF")


# --- Chunks of the response ----------------------------------------------------------------------


@pytest.mark.clause("2.7-1")
async def test_each_event_is_a_chunk_and_leaves_at_once(gateway_for):
    """Both ways at the same time."""
    gateway = await gateway_for()
    client, model = await gateway.open("http1")
    for number in range(5):
        client.send(part_event(b"%d" % number, "UTF8"))
        assert (await model.frame()).payload == b"%d" % number
        model.send(frame(TEXT, b"%d" % number))
        assert as_event(await client.event())["PayloadPart"]["Bytes"] == b"%d" % number
        assert len(client.stream.chunks) == number + 1
    model.send(frame(TEXT, b"a", fin=False), frame(CONTINUATION, b""), frame(BINARY, bytes(SMALL)))
    model.send(close(4000, b"bye"))
    assert [as_event(await client.event()) is not None for _ in range(4)]
    assert await client.event() is END
    assert len(client.stream.chunks) == 5 + 3 + 1  # the exception has its own
    assert client.stream.trailers == b""


# --- Ending early --------------------------------------------------------------------------------


async def chatter(client: Http1EventClient) -> None:
    """Send megabytes, whatever comes."""
    piece = part_event(bytes(SMALL))
    with suppress(ConnectionError):
        while not client.wire.writer.is_closing():
            client.send(piece)
            await client.flush()
            await asyncio.sleep(0)


@pytest.mark.clause("2.7-1", "1.5-13")
async def test_the_exception_is_not_erased_by_what_the_client_still_sends(
    gateway_for, short_linger
):
    """It is in the middle of sending megabytes, and slow to read the response."""
    gateway = await gateway_for()
    client, model = await gateway.open("http1", receive_buffer=SMALL)
    (session,) = gateway.gateway.streams.sessions
    chattering = asyncio.create_task(chatter(client))
    try:
        model.send(*[frame(BINARY, bytes(MIB))] * 8)
        await eventually(lambda: session.client.buffered_bytes() > 256 * KIB)
        model.abort()
        got = 0
        while "PayloadPart" in (event := as_event(await client.event())):
            got += len(event["PayloadPart"]["Bytes"])
        assert event["ModelStreamError"]["ErrorCode"] == "1006"
        assert got <= 8 * MIB
        assert await client.event() is END
        assert client.head[1]["connection"] == "close"
        assert await client.ended() == ("LAST_CHUNK", "EOF")
        assert not chattering.done()  # what it sends is still read, and dropped
    finally:
        chattering.cancel()
    assert gateway.causes() == {"container_lost": 1}


@pytest.mark.clause("2.7-1")
async def test_only_the_write_side_is_shut_and_the_rest_is_read(gateway_for, clock):
    gateway = await gateway_for(StreamPolicy(ping_interval=NOBODY))
    client, model = await gateway.open("http1")
    model.send(close(4000, b"bye"))
    assert as_event(await client.event())["ModelStreamError"]["Message"] == "bye"
    assert await client.ended() == ("LAST_CHUNK", "EOF")
    for _ in range(64):  # far more than the sockets hold
        client.send(part_event(bytes(SMALL * 4)))
        await client.flush()
        await asyncio.sleep(0)
    clock.advance(LINGER_TIMEOUT - 0.1)
    await asyncio.sleep(0.02)
    client.send(HI)
    await asyncio.sleep(0.02)
    client.send(HI)
    assert not client.wire.writer.is_closing()
    clock.advance(0.2)
    await eventually(lambda: is_refused(client))
    assert [each.opcode for each in model.seen] == []


def is_refused(client: Http1EventClient) -> bool:
    """The other side has closed its socket: what is sent is answered by RST."""
    closing = client.wire.writer.is_closing()
    if not closing:  # uvloop raises what asyncio's own loop lets pass
        client.send(HI)
    return closing


LAST_WORDS = {
    "the last chunk": lambda client: client.end_input(),
    "FIN": lambda client: client.end(),
    "FIN inside a chunk": lambda client: (client.wire.send(b"20\r\nabc"), client.end()),
    "a chunk that is none": lambda client: client.wire.send(b"xyz\r\n"),
    "RST": lambda client: client.reset(),
}


@pytest.mark.clause("2.7-1")
@pytest.mark.parametrize("words", LAST_WORDS.values(), ids=LAST_WORDS)
async def test_who_has_said_the_rest_is_not_waited_for(gateway_for, clock, words):
    """The clock stands still."""
    gateway = await gateway_for(StreamPolicy(ping_interval=NOBODY))
    client, model = await gateway.open("http1")
    model.send(close(4000, b"bye"))
    assert await client.ended() == ("LAST_CHUNK", "EOF")
    words(client)
    model.end()
    await eventually(lambda: gateway.gateway.ports.http1.open_connections == 0)
    assert gateway.causes() == {"model_error": 1}


@pytest.mark.clause("2.7-1", "1.5-13")
@pytest.mark.parametrize("ended", [False, True], ids=["input open", "input ended"])
async def test_no_last_chunk_where_the_exception_cannot_be_written(gateway_for, clock, ended):
    gateway = await gateway_for(StreamPolicy(ping_interval=NOBODY, input_end="drain"))
    client, model = await gateway.open("http1", receive_buffer=SMALL)
    (session,) = gateway.gateway.streams.sessions
    if ended:
        client.end_input()
        await client.caught_up()
    model.send(*[frame(BINARY, bytes(MIB))] * 8)
    await eventually(lambda: session.client.buffered_bytes() > 256 * KIB)
    clock.advance(330.0)
    assert gateway.causes() == {"client_stalled": 1}
    assert (await model.frame()).close_code == 1011
    clock.advance(LINGER_TIMEOUT + 0.1)
    assert (await client.ended())[0] in ("CUT", "ABORT", "EOF")
    assert len(client.stream.chunks) < 8
    await eventually(lambda: gateway.gateway.ports.http1.open_connections == 0)


@pytest.mark.clause("1.5-13")
async def test_who_goes_on_taking_bytes_has_them_all(gateway_for, clock):
    """The client takes some of the unsent bytes before each look at them."""
    gateway = await gateway_for(StreamPolicy(ping_interval=NOBODY, high_water=16 * MIB))
    client, model = await gateway.open("http1", receive_buffer=SMALL)
    (session,) = gateway.gateway.streams.sessions
    model.send(*[frame(BINARY, bytes(MIB))] * 12, close(4000, b"bye"))
    await eventually(lambda: gateway.causes() == {"model_error": 1})
    unsent = [session.client.buffered_bytes()]
    parts = 0
    while "PayloadPart" in (event := as_event(await client.event())):
        parts += 1
        if session.client.buffered_bytes() < unsent[-1]:
            unsent.append(session.client.buffered_bytes())
            clock.advance(LINGER_TIMEOUT)
    assert event["ModelStreamError"]["ErrorCode"] == "4000"
    assert parts == 12
    assert len(unsent) > 2, "the clock passed no look at the unsent bytes"
    assert await client.ended() == ("LAST_CHUNK", "EOF")


async def test_no_second_request_is_answered_on_the_connection(gateway_for):
    """The head has said that it closes."""
    gateway = await gateway_for()
    body = chunk(HI) + b"0\r\n\r\n" + b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    client, model = await sent_whole(gateway, body)
    assert (await model.frame()).payload == b"hi"
    assert (await model.frame()).close_code == 1000
    model.send(frame(TEXT, b"tail"), close(1000))
    assert as_event(await client.event())["PayloadPart"]["Bytes"] == b"tail"
    assert await client.event() is END
    assert await client.ended() == ("LAST_CHUNK", "EOF")


async def test_tiny_chunks_let_others_have_their_turn(gateway_for, monkeypatch):
    """A read brings forty thousand of them."""
    gateway = await gateway_for()
    turns = []
    parse_turn = RequestReader._parse_turn
    monkeypatch.setattr(
        RequestReader,
        "_parse_turn",
        lambda self: (turns.append(1), parse_turn(self)),
    )
    client = await gateway.connect()
    head = b"POST /nothing HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    client.send(head + b"1\r\nx\r\n" * 40_000 + b"0\r\n\r\n")
    assert (await client.response()).status == 404
    client.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await client.response()).status == 200
    assert len(turns) > 240_000 / HTTP1_BYTES_PER_TURN
