"""HTTP/2 on the port: requests, responses, events and ends in frames (sections 2.1 to 2.3, 4)."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime

import pytest
from hyperframe.frame import (
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.protocol import limits
from tests import event_factory
from tests.event_factory import signed, string
from tests.frame_factory import BINARY, CONTINUATION, TEXT, close, frame
from tests.wire.event_dialect import Http1EventClient, Http2EventClient, as_event
from tests.wire.event_messages import END, part_event
from tests.wire.http2_peers import RawHttp2Client
from tests.wire.http2_streams import EVENT_STREAM, Code, RawHttp2Stream, bidirectional_request
from tests.wire.peers import (
    STREAM_PATH,
    ModelStream,
    RawContainer,
    Response,
    RunningGateway,
    eventually,
    soon,
    switching,
)

NOBODY = 1e9  # an interval that never comes
CLIENTS = {"http2": Http2EventClient, "http1": Http1EventClient}
MAX_CONCURRENT_STREAMS = SettingsFrame.MAX_CONCURRENT_STREAMS


async def connect(gateway: RunningGateway, **options: object) -> RawHttp2Client:
    """A connection without a stream."""
    client = await RawHttp2Client.connect(gateway.port, **options)
    client.start_reading()
    gateway.clients.append(client)
    return client


async def open_on(
    gateway: RunningGateway, client: RawHttp2Client
) -> tuple[RawHttp2Stream, ModelStream]:
    stream = client.request(bidirectional_request())
    model = await gateway.container.stream()
    assert (await stream.head())[0] == 200
    return stream, model


async def ask(client: RawHttp2Client, path: str, method: str = "GET") -> Response:
    """A request without a body, and its whole response."""
    pseudo = {":method": method, ":scheme": "http", ":authority": "a", ":path": path}
    return await whole(client.request(pseudo.items(), end_stream=True))


async def whole(stream: RawHttp2Stream) -> Response:
    """The rest of a response."""
    return Response(*await stream.head(), await stream.body())


async def answered(gateway: RunningGateway, version: str, headers: list[tuple[str, str]]):
    """An event stream's request that is refused, and its response, over either HTTP."""
    if version == "http2":
        client = await connect(gateway)
        stream = client.request(headers)
        response = await whole(stream)
        assert await stream.ended() == ("END_STREAM", "RST_STREAM(NO_ERROR)")
        return response
    client = await gateway.connect()
    pseudo = {name: value for name, value in headers if name[0] == ":"}
    lines = [f"{name}: {value}" for name, value in headers if name[0] != ":"]
    head = f"{pseudo[':method']} {pseudo[':path']} HTTP/1.1\r\nHost: a\r\n"
    client.send(head.encode(), "\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode())
    return await client.response()


@pytest.fixture(params=CLIENTS)
def version(request: pytest.FixtureRequest) -> str:
    return request.param


def frames_of(client: RawHttp2Client, kind: type) -> list:
    return [each for each in client.seen if type(each) is kind]


# --- The connection's first words ----------------------------------------------------------------


@pytest.mark.clause("2.6-2")
async def test_the_settings_of_the_gateway(gateway_for):
    gateway = await gateway_for(max_streams_per_connection=7)
    client = await connect(gateway)
    await client.ready()
    assert client.settings == {
        SettingsFrame.INITIAL_WINDOW_SIZE: 65_535,
        SettingsFrame.MAX_FRAME_SIZE: 16_384,
        SettingsFrame.MAX_HEADER_LIST_SIZE: limits.HTTP2_MAX_HEADER_LIST,
        SettingsFrame.ENABLE_PUSH: 0,
        MAX_CONCURRENT_STREAMS: 7,
    }
    await client.until(lambda: client.settings_acks == 1, "an acknowledgement")
    assert client.credit == 16 << 20


async def test_pings_of_a_client_are_answered(gateway_for):
    gateway = await gateway_for()
    client = await connect(gateway)
    payloads = [b"12345678", bytes(8), b"\xff" * 8]
    client.send_frame(*(PingFrame(0, payload) for payload in payloads))
    await client.until(lambda: len(frames_of(client, PingFrame)) == 3, "pongs")
    pongs = frames_of(client, PingFrame)
    assert [(pong.opaque_data, set(pong.flags)) for pong in pongs] == [
        (payload, {"ACK"}) for payload in payloads
    ]


# --- Requests ------------------------------------------------------------------------------------


@pytest.mark.clause("2.1-4")
@pytest.mark.parametrize(
    "path",
    [f"{STREAM_PATH}?", f"/base/path{STREAM_PATH}", STREAM_PATH.replace("/model/", "/%6dod%65l/")],
    ids=["a bare question mark", "a base path", "a percent-encoded name"],
)
async def test_paths_that_are_tolerated(gateway_for, version, path):
    gateway = await gateway_for()
    client, model = await gateway.open(version, path)
    client.send(part_event(b"hi", "UTF8"))
    assert (await model.frame()).payload == b"hi"
    assert model.target == "/invocations-bidirectional-stream"


@pytest.mark.clause("2.1-3", "1.6-1")
@pytest.mark.parametrize(
    ("path", "query", "variant", "target"),
    [
        ("", "", "", "/invocations-bidirectional-stream"),
        ("v1/listen", "model=a%20b&x=1", "AllTraffic", "/v1/listen?model=a%20b&x=1"),
    ],
    ids=["empty", "given"],
)
async def test_what_a_client_asks_for(gateway_for, version, path, query, variant, target):
    gateway = await gateway_for()
    prefix = "x-amzn-sagemaker-"
    more = [
        (f"{prefix}target-variant", variant),
        (f"{prefix}model-invocation-path", path),
        (f"{prefix}model-query-string", query),
    ]
    client = await CLIENTS[version].open(gateway.port, sign=lambda headers: [*headers, *more])
    gateway.clients.append(client)
    assert (await gateway.container.stream()).target == target


async def test_a_header_block_in_many_frames(gateway_for):
    gateway = await gateway_for()
    client = await connect(gateway)
    padding = [(f"x-{number}", "y" * 30) for number in range(20)]
    stream = client.request(bidirectional_request(padding), fragment=200)
    await gateway.container.stream()
    assert (await stream.head())[0] == 200
    assert len(client.encoder.encode(padding)) < 200  # all of it is in the table now
    await open_on(gateway, client)


# --- The response's head -------------------------------------------------------------------------


@pytest.mark.clause("2.2-1", "2.2-2")
async def test_the_head_follows_the_101_and_no_event(gateway_for, version):
    async with RawContainer(lambda request: None) as container:
        gateway = await gateway_for(container=container)
        opening = asyncio.create_task(CLIENTS[version].open(gateway.port))
        model = await container.stream()
        await asyncio.sleep(0.05)
        assert not opening.done()
        model.send(switching(model.request))
        client = await soon(opening, "the head")
        gateway.clients.append(client)
    status, headers = client.head
    assert status == 200
    assert headers.pop("content-type") == EVENT_STREAM
    assert headers.pop("x-amzn-invoked-production-variant") == "AllTraffic"
    assert headers.pop("x-amzn-requestid") == model.header("x-amzn-sagemaker-request-id")
    assert abs(parsedate_to_datetime(headers.pop("date")).timestamp() - time.time()) < 3
    assert headers.pop("server") == "partway"
    assert headers.pop("x-partway-input-end") == "close"  # the container says that it finishes
    assert headers == (
        {} if version == "http2" else {"transfer-encoding": "chunked", "connection": "close"}
    )


# --- Events --------------------------------------------------------------------------------------


def response_event(payload: bytes, data_type: str, state: str) -> bytes:
    """What the gateway sends for a frame, byte for byte."""
    headers = {
        ":message-type": "event",
        ":event-type": "PayloadPart",
        ":content-type": "application/octet-stream",
        "DataType": data_type,
        "CompletionState": state,
    }
    return event_factory.message(b"".join(string(*pair) for pair in headers.items()), payload)


@pytest.mark.clause("2.3-3", "2.3-4", "2.3-5")
async def test_a_whole_response_byte_for_byte(gateway_for, version):
    """No initial-response in front; the exception last."""
    gateway = await gateway_for()
    client, model = await gateway.open(version)
    model.send(
        frame(TEXT, "wörter".encode(), fin=False),
        frame(CONTINUATION, b""),
        frame(BINARY, b"\x00\xff"),
        close(4001, b"too hot"),
    )
    body = b'{"Message":"too hot","ErrorCode":"4001"}'
    assert await client.stream.body() == b"".join(
        [
            response_event("wörter".encode(), "UTF8", "PARTIAL"),
            response_event(b"", "UTF8", "COMPLETE"),
            response_event(b"\x00\xff", "BINARY", "COMPLETE"),
            event_factory.exception("ModelStreamError", body),
        ]
    )
    last = "RST_STREAM(NO_ERROR)" if version == "http2" else "EOF"
    assert (await client.ended())[-1] == last


@pytest.mark.clause("2.3-1")
async def test_bare_and_signed_events_where_nobody_signs(gateway_for, version):
    gateway = await gateway_for()
    client, model = await gateway.open(version)
    payloads = [b"bare", b"signed", b"bare again", b""]
    bare = [part_event(payload, "UTF8") for payload in payloads]
    client.send(bare[0], signed(bare[1], 0, bytes(32)), bare[2], signed(bare[3]))
    seen = await model.frames(4)
    assert [(each.opcode, each.payload) for each in seen] == [(TEXT, each) for each in payloads]


async def test_events_in_frames_of_one_byte(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open("http2")
    for byte in part_event(b"hi", "UTF8", padding="....") + part_event(b"ho"):
        client.client.send_frame(DataFrame(1, bytes([byte])))
    assert [each.payload for each in await model.frames(2)] == [b"hi", b"ho"]


async def test_padding_and_empty_frames_carry_nothing(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open("http2")
    event = part_event(b"hi", "UTF8")
    client.client.send_frame(
        DataFrame(1, event[:20], pad_length=255, flags=["PADDED"]),
        DataFrame(1, b"", pad_length=9, flags=["PADDED"]),
        DataFrame(1, b""),
        DataFrame(1, event[20:], pad_length=0, flags=["PADDED"]),
    )
    assert (await model.frame()).payload == b"hi"


# --- The end of input ----------------------------------------------------------------------------

EVENT = part_event(b"last", "UTF8")
ENDINGS = {
    "END_STREAM on the last event": [DataFrame(1, EVENT, flags=["END_STREAM"])],
    "END_STREAM on its own": [DataFrame(1, EVENT), DataFrame(1, b"", flags=["END_STREAM"])],
    "END_STREAM on padding": [
        DataFrame(1, EVENT),
        DataFrame(1, b"", pad_length=9, flags=["END_STREAM", "PADDED"]),
    ],
    "a signed empty event": [DataFrame(1, EVENT + signed(b""))],
    "both": [DataFrame(1, EVENT + signed(b"")), DataFrame(1, b"", flags=["END_STREAM"])],
}


@pytest.mark.clause("2.3-2", "1.5-11", "1.5-12")
@pytest.mark.parametrize("frames", ENDINGS.values(), ids=ENDINGS)
async def test_the_end_of_input(gateway_for, frames):
    gateway = await gateway_for()
    client, model = await gateway.open("http2")
    client.client.send_frame(*frames)
    client.stream.input_ended = "END_STREAM" in frames[-1].flags
    assert (await model.frame()).payload == b"last"
    assert (await model.frame()).close_code == 1000
    model.send(frame(TEXT, b"tail"), close(1000))
    assert as_event(await client.event())["PayloadPart"]["Bytes"] == b"tail"
    assert await client.event() is END
    # Clause 2.3-6: the reset is for who has not ended.
    told = () if client.input_ended else ("RST_STREAM(NO_ERROR)",)
    assert await client.ended() == ("END_STREAM", *told)
    assert gateway.causes() == {"completed": 1}


@pytest.mark.clause("2.3-2")
async def test_trailers_end_the_input_and_mean_nothing(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open("http2")
    client.send(EVENT)
    client.client.send_headers(client.stream, [("x-checksum", "1")], end_stream=True)
    assert (await model.frame()).payload == b"last"
    assert (await model.frame()).close_code == 1000
    model.send(close(1000))
    assert await client.ended() == ("END_STREAM",)


@pytest.mark.clause("2.3-2")
async def test_a_request_without_a_body(gateway_for):
    gateway = await gateway_for()
    client = await connect(gateway)
    stream = client.request(bidirectional_request(), end_stream=True)
    model = await gateway.container.stream()
    assert (await model.frame()).close_code == 1000
    model.send(frame(TEXT, b"tail"), close(1000))
    assert as_event(await stream.event())["PayloadPart"]["Bytes"] == b"tail"
    assert await stream.ended() == ("END_STREAM",)


@pytest.mark.clause("2.3-2")
@pytest.mark.parametrize("kept", [1, 11, 12, 40, -1])
async def test_an_end_inside_an_event_is_a_cut(gateway_for, kept):
    """The response is abandoned."""
    gateway = await gateway_for()
    client, model = await gateway.open("http2")
    client.send(EVENT, EVENT[:kept])
    client.end_input()
    assert (await model.frame()).payload == b"last"
    assert (await model.frame()).close_code == 1001
    assert await client.ended() == ("RST_STREAM(CANCEL)",)
    assert gateway.causes() == {"client_lost": 1}


@pytest.mark.clause("2.3-2", "1.5-10")
async def test_an_event_behind_the_end_of_input_is_a_fault(gateway_for, version):
    gateway = await gateway_for()
    client, model = await gateway.open(version)
    client.send(signed(b""), EVENT)
    assert (await model.frame()).close_code == 1000
    error = as_event(await client.event())["ModelStreamError"]
    assert error == {
        "ErrorCode": "InputStreamError",
        "Message": "a part came after the end of input",
    }
    assert await client.event() is END
    assert gateway.causes() == {"client_fault": 1}


# --- Clients that leave --------------------------------------------------------------------------

LEAVING = {
    "RST_STREAM(CANCEL)": (lambda client: client.stream.reset(Code.CANCEL), "client_cancelled"),
    "another code": (lambda client: client.stream.reset(Code.INTERNAL_ERROR), "client_lost"),
    "FIN": (lambda client: client.end(), "client_lost"),
    "RST": (lambda client: client.reset(), "client_lost"),
    "GOAWAY and FIN": (lambda client: (client.client.send_goaway(), client.end()), "client_lost"),
    "no HTTP/2 any more": (lambda client: client.client.send_bytes(b"?" * 20), "client_lost"),
}


@pytest.mark.clause("2.1-4", "2.3-2", "1.5-9")
@pytest.mark.parametrize(("leaves", "cause"), LEAVING.values(), ids=LEAVING)
@pytest.mark.parametrize("ended", [False, True], ids=["input open", "input ended"])
async def test_a_client_that_leaves_in_mid_stream(gateway_for, leaves, cause, ended):
    gateway = await gateway_for(StreamPolicy(input_end="drain"))
    client, model = await gateway.open("http2")
    client.send(EVENT)
    if ended:
        client.end_input()
    assert (await model.frame()).payload == b"last"
    leaves(client)
    assert (await model.frame()).close_code == 1001
    assert gateway.causes() == {cause: 1}
    model.send(close(1001))
    model.abort()
    await eventually(lambda: not gateway.gateway.streams.sessions)


@pytest.mark.clause("2.1-4")
@pytest.mark.parametrize("ended", [False, True], ids=["input open", "input ended"])
async def test_a_client_that_leaves_in_good_order(gateway_for, ended):
    gateway = await gateway_for()
    client, model = await gateway.open("http2")
    client.send(EVENT)
    if ended:
        client.end_input()
    assert (await model.frame()).payload == b"last"
    client.stream.reset(Code.NO_ERROR)
    assert (await model.until_close())[-1].close_code == (1000 if ended else 1001)
    await eventually(lambda: not gateway.gateway.streams.sessions)
    assert gateway.causes() == {"client_finished": 1}


@pytest.mark.clause("2.1-4")
async def test_one_stream_reset_leaves_the_others_alone(gateway_for):
    gateway = await gateway_for()
    client = await connect(gateway)
    streams = [await open_on(gateway, client) for _ in range(3)]
    gone, model = streams[1]
    gone.send(EVENT[:30])
    gone.reset()
    assert (await model.frame()).close_code == 1001
    for stream, model in (streams[0], streams[2]):
        stream.send(part_event(b"on"))
        assert (await model.frame()).payload == b"on"
        model.send(frame(TEXT, b"and on"))
        assert as_event(await stream.event())["PayloadPart"]["Bytes"] == b"and on"
    assert gateway.causes() == {"client_cancelled": 1}


async def test_a_connection_that_is_lost_takes_all_its_streams(gateway_for):
    gateway = await gateway_for()
    client = await connect(gateway)
    streams = [await open_on(gateway, client) for _ in range(3)]
    client.reset()
    for _, model in streams:
        assert (await model.frame()).close_code == 1001
    assert gateway.causes() == {"client_lost": 3}


@pytest.mark.parametrize("how", ["RST_STREAM", "FIN"])
async def test_a_client_that_leaves_before_the_101_frees_its_place_at_once(gateway_for, how):
    async with RawContainer(lambda request: None) as container:
        gateway = await gateway_for(container=container, max_streams=1)
        client = await connect(gateway)
        stream = client.request(bidirectional_request())
        stream.send(EVENT)
        model = await container.stream()
        if how == "FIN":
            client.wire.end()
        else:
            stream.reset()
        assert await model.eof() == b""
        if how == "FIN":
            client = await connect(gateway)
        following = client.request(bidirectional_request())
        model = await container.stream()
        model.send(switching(model.request))
        assert (await following.head())[0] == 200, "there was a place for one stream"


@pytest.mark.clause("2.1-4")
async def test_a_client_that_says_goaway_goes_on_to_the_end(gateway_for):
    """As JavaScript's SDK does right after the head."""
    gateway = await gateway_for()
    client, model = await gateway.open("http2")
    client.client.send_goaway()
    for number in range(3):
        payload = b"%d" % number * 30_000
        client.send(part_event(payload))
        assert (await model.frame()).payload == payload
        model.send(frame(BINARY, payload))
        assert as_event(await client.event())["PayloadPart"]["Bytes"] == payload
    client.end_input()
    assert (await model.frame()).close_code == 1000
    model.send(frame(TEXT, b"tail"), close(1000))
    assert as_event(await client.event())["PayloadPart"]["Bytes"] == b"tail"
    assert await client.event() is END
    await client.client.settled()  # it closes the connection itself, once it has read everything
    assert client.stream.ends == ["END_STREAM"]
    assert gateway.causes() == {"completed": 1}


@pytest.mark.clause("2.1-4")
async def test_goaway_before_the_head(gateway_for):
    gateway = await gateway_for()
    client = await connect(gateway)
    stream = client.request(bidirectional_request())
    client.send_goaway()
    model = await gateway.container.stream()
    assert (await stream.head())[0] == 200
    model.send(close(4000, b"bye"))
    error = as_event(await stream.event())
    assert error == {"ModelStreamError": {"ErrorCode": "4000", "Message": "bye"}}
    assert await stream.ended() == ("END_STREAM",), "no reset: node would drop the error"


# --- Liveness ------------------------------------------------------------------------------------


@pytest.mark.clause("1.4-4")
async def test_each_stream_pings_its_client(gateway_for, clock):
    gateway = await gateway_for(StreamPolicy(ping_interval=NOBODY))
    client = await connect(gateway, auto_ping_ack=False)
    first, second = await open_on(gateway, client), await open_on(gateway, client)

    async def pings() -> list[bytes]:
        await client.settled()
        return [each.opaque_data for each in frames_of(client, PingFrame) if not each.flags]

    clock.advance(59.9)
    assert await pings() == []
    clock.advance(0.1)
    asked = await pings()
    assert len(asked) == len(set(asked)) == 2
    clock.advance(60)
    assert len(set(await pings())) == 4
    # The second stream is answered, its latest ping alone: that answers the earlier one too.
    (stream, model), answer = second, (await pings())[-1]
    client.send_frame(PingFrame(0, answer, flags=["ACK"]))
    await client.settled()
    stream.send(part_event(b"data is no pong"))
    first[0].send(part_event(b"data is no pong"))
    await first[1].frame()
    clock.advance(59.9)
    assert gateway.causes() == {}
    clock.advance(0.1)
    assert gateway.causes() == {"client_unresponsive": 1}
    assert (await first[1].frame()).close_code == 1001
    assert await first[0].ended() == ("RST_STREAM(CANCEL)",)
    assert not stream.answered
    assert (await model.frame()).payload == b"data is no pong"


@pytest.mark.clause("1.4-4")
async def test_pongs_of_a_client_keep_it_alive_while_nobody_reads_it(gateway_for, clock):
    """They do not queue behind data that is held back."""
    policy = StreamPolicy(ping_interval=NOBODY, lifetime=NOBODY, stall_timeout=NOBODY)
    async with RawContainer(receive_buffer=64 << 10) as container:
        gateway = await gateway_for(policy, container=container)
        client, model = await gateway.open("http2")
        client.send(part_event(bytes(15 << 20)))
        (session,) = gateway.gateway.streams.sessions
        await eventually(lambda: session.from_client.parts == 1)
        client.send(part_event(bytes(1 << 20)))
        for _ in range(10):
            clock.advance(60)
            await client.caught_up()
        assert gateway.causes() == {}
        client.client.auto_ping_ack = False
        clock.advance(60)
        clock.advance(120)
        assert gateway.causes() == {"client_unresponsive": 1}
        model.abort()


# --- Limits of a connection ----------------------------------------------------------------------


async def test_one_stream_too_many_is_refused_alone(gateway_for):
    gateway = await gateway_for(max_streams_per_connection=2)
    client = await connect(gateway)
    (first, model), _ = await open_on(gateway, client), await open_on(gateway, client)
    refused = client.request(bidirectional_request())
    refused.overrun(EVENT)
    assert await refused.ended() == ("RST_STREAM(REFUSED_STREAM)",)
    first.send(part_event(b"on"))
    assert (await model.frame()).payload == b"on"
    first.end()
    await model.until_close()
    model.send(close(1000))
    assert await first.ended() == ("END_STREAM",)
    await open_on(gateway, client)
    assert len(gateway.container.connections) == 3


@pytest.fixture
def short_idle(monkeypatch: pytest.MonkeyPatch) -> float:
    """Seconds for a request's head, and those without a stream."""
    seconds = 0.4
    monkeypatch.setattr(limits, "REQUEST_HEAD_TIMEOUT", seconds)
    monkeypatch.setattr("partway.gateway.http.http2.lifetime.HTTP2_IDLE_TIMEOUT", seconds)
    return seconds


async def gone_after(client: RawHttp2Client, seconds: float) -> None:
    """The connection ends in order, and in time."""
    began = asyncio.get_running_loop().time()
    assert await client.eof() == "EOF"
    assert asyncio.get_running_loop().time() - began > seconds * 0.5
    assert client.goaway is not None
    assert client.goaway.error_code == Code.NO_ERROR


async def test_a_connection_without_a_request_is_closed(gateway_for, short_idle):
    gateway = await gateway_for()
    client = await connect(gateway)
    await client.ready()
    await gone_after(client, short_idle)
    assert client.goaway.last_stream_id == 0


async def test_frames_without_a_request_do_not_move_the_deadline(gateway_for, short_idle):
    """Slowloris: neither pings nor the pieces of a head."""
    gateway = await gateway_for()
    client = await connect(gateway)
    await client.settled()  # nothing may come between the pieces of a head
    client.send_frame(HeadersFrame(1, b"", flags=[]))

    async def dribble() -> None:
        while client.over is None:
            client.send_bytes(b"\x00\x00\x00\x09\x00\x00\x00\x00\x01")
            await asyncio.sleep(0.05)

    dribbling = asyncio.create_task(dribble())
    await gone_after(client, short_idle)
    dribbling.cancel()


async def test_a_connection_is_idle_from_its_last_stream_on(gateway_for, short_idle):
    gateway = await gateway_for()
    client = await connect(gateway)
    stream, model = await open_on(gateway, client)
    await asyncio.sleep(short_idle * 3)  # with a stream it is not
    stream.send(EVENT)
    assert (await model.frame()).payload == b"last"
    assert (await ask(client, "/healthz")).status == 200
    model.send(close(4000))
    assert await stream.ended() == ("END_STREAM", "RST_STREAM(NO_ERROR)")
    await gone_after(client, short_idle)
    assert client.goaway.last_stream_id == 3


# --- Draining ------------------------------------------------------------------------------------


@pytest.mark.clause("4-6", "4-4")
async def test_a_drain(gateway_for, short_linger):
    """GOAWAY at once; new streams are answered 503; what runs may run to its end."""
    gateway = await gateway_for(shutdown_grace=30.0)
    client = await connect(gateway)
    stream, model = await open_on(gateway, client)
    draining = asyncio.create_task(gateway.gateway.drain())
    assert await client.gone() == "GOAWAY(NO_ERROR)"
    assert client.goaway.last_stream_id == 2**31 - 1  # what was under way is answered
    refused = await whole(client.request(bidirectional_request()))
    assert (refused.status, refused.headers["x-amzn-errortype"]) == (503, "ServiceUnavailableError")
    assert (await ask(client, "/readyz")).status == 503
    late = await connect(gateway)
    assert (await ask(late, "/readyz")).status == 503
    stream.send(EVENT)
    assert (await model.frame()).payload == b"last"
    stream.end()
    assert (await model.frame()).close_code == 1000
    model.send(close(1000))
    assert await stream.event() is END
    for each, last in ((client, 5), (late, 1)):
        assert await each.eof() == "EOF"
        assert (each.goaway.last_stream_id, each.goaway.error_code) == (last, 0)
        each.abort()
    await soon(draining, "the drain")
    assert gateway.causes() == {"completed": 1}


@pytest.mark.clause("1.5-9", "2.3-6")
async def test_streams_that_a_drain_ends(gateway_for):
    gateway = await gateway_for()
    client = await connect(gateway)
    streams = [await open_on(gateway, client) for _ in range(3)]
    draining = asyncio.create_task(gateway.gateway.drain())
    message = "the gateway is draining; open the stream again"
    for stream, model in streams:
        assert as_event(await stream.event()) == {"InternalStreamFailure": {"Message": message}}
        assert await stream.event() is END
        assert (await model.frame()).close_code == 1001
        model.send(close(1001))
        model.end()
    assert await client.eof() == "EOF"
    client.abort()
    await soon(draining, "the drain")
    ends = [[end for end in stream.ends if "GOAWAY" not in end] for stream, _ in streams]
    assert ends == [["END_STREAM", "RST_STREAM(NO_ERROR)"]] * 3
    assert gateway.causes() == {"gateway_draining": 3}


@pytest.mark.clause("2.3-6")
async def test_the_last_event_is_not_erased_by_what_the_client_still_sends(
    gateway_for, short_linger
):
    """A connection that ends goes on reading for a while: TCP would send RST otherwise."""
    gateway = await gateway_for(shutdown_hard=10.0)
    client = await RawHttp2Client.connect(
        gateway.port,
        receive_buffer=64 << 10,
        settings={SettingsFrame.INITIAL_WINDOW_SIZE: 2**31 - 1},
    )
    gateway.clients.append(client)
    client.give_credit(2**30)
    stream = client.request(bidirectional_request())
    model = await gateway.container.stream()
    assert (await stream.head())[0] == 200
    (session,) = gateway.gateway.streams.sessions
    model.send(*[frame(BINARY, bytes(1 << 20))] * 8)
    await eventually(lambda: session.client.buffered_bytes() > 64 << 10)
    draining = asyncio.create_task(gateway.gateway.drain())
    chattering = asyncio.create_task(chatter(client))
    try:
        events = []
        while (event := await stream.event()) is not END:
            events.append(as_event(event))
            await asyncio.sleep(0.01)
        assert "InternalStreamFailure" in events[-1]
        assert await client.eof() == "EOF"
    finally:
        chattering.cancel()
    client.abort()
    await soon(draining, "the drain")


async def chatter(client: RawHttp2Client) -> None:
    """Give credit in small pieces, without an end."""
    with suppress(ConnectionError):
        while not client.wire.writer.is_closing():
            client.give_credit(1)
            await client.flush()
            await asyncio.sleep(0.0005)


# --- Every operation over either HTTP ------------------------------------------------------------


async def get(gateway: RunningGateway, version: str, path: str, method: str = "GET") -> Response:
    """One of the gateway's own pages."""
    if version == "http2":
        return await ask(await connect(gateway), path, method)
    client = await gateway.connect()
    client.send(f"{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    if method != "HEAD":
        return await client.response()
    head = await client.read_head()
    client.end()
    assert await client.eof() == b""
    status_line, *lines = head.decode().split("\r\n")[:-2]
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Response(int(status_line.split()[1]), headers, b"")


@pytest.mark.parametrize(
    ("path", "body"), [("/healthz", b"ok\n"), ("/readyz", b"ready\n"), ("/healthz?x=1", b"ok\n")]
)
async def test_pages_of_the_gateway(gateway_for, version, path, body):
    gateway = await gateway_for()
    response = await get(gateway, version, path)
    assert (response.status, response.body) == (200, body)
    assert response.headers["content-length"] == str(len(body))
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    head = await get(gateway, version, path, "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(body))


async def test_a_page_larger_than_a_window(gateway_for, version, monkeypatch):
    """It goes on as the client gives credit."""
    page = b"# a metric\n" * 30_000
    monkeypatch.setattr("partway.gateway.status_routes.generate_latest", lambda registry: page)
    gateway = await gateway_for()
    response = await get(gateway, version, "/metrics")
    assert response.body == page
    assert response.headers["content-length"] == str(len(page))
    assert "x-amzn-requestid" in response.headers


async def test_a_page_that_fits_the_window_needs_no_credit(gateway_for, monkeypatch):
    """Nothing is held back for an exception where none can come."""
    page = bytes(65_535)
    monkeypatch.setattr("partway.gateway.status_routes.generate_latest", lambda registry: page)
    gateway = await gateway_for()
    client = await connect(gateway, auto_window=False)
    assert (await ask(client, "/metrics")).body == page


async def test_metrics_are_there_for_either(gateway_for, version):
    gateway = await gateway_for()
    _, model = await gateway.open(version)
    model.send(close(4000))
    await model.until_close()
    body = (await get(gateway, version, "/metrics")).body
    assert b'partway_stream_ends_total{cause="model_error",endpoint="model"} 1.0\n' in body


@pytest.mark.parametrize(
    ("path", "method"), [("/nowhere", "GET"), ("/healthz", "DELETE"), ("/", "OPTIONS")]
)
@pytest.mark.clause("4-1")
async def test_what_no_operation_answers(gateway_for, version, path, method):
    response = await get(await gateway_for(), version, path, method)
    assert_error(response, 404, "UnknownOperationException", {"Message"})


def assert_error(response: Response, status: int, name: str, members: set[str]) -> dict:
    """An error of the API (clause 4-1)."""
    assert (response.status, response.headers["x-amzn-errortype"]) == (status, name)
    assert response.headers["content-type"] == "application/json"
    assert response.headers["content-length"] == str(len(response.body))
    assert response.headers["x-amzn-requestid"]
    assert set(response.json) == members
    return response.json


INVALID = {
    "an unknown endpoint": (
        {"path": STREAM_PATH.replace("/model/", "/nobody/")},
        (400, "EndpointNotFound"),
    ),
    "a name that is none": (
        {"path": STREAM_PATH.replace("/model/", "/a_b/")},
        (400, "InvalidEndpointName"),
    ),
    "another content type": ({"content_type": "application/json"}, (400, "InvalidContentType")),
    "no content type": ({"content_type": None}, (400, "InvalidContentType")),
    "an unknown variant": (
        {"more": [("x-amzn-sagemaker-target-variant", "Other")]},
        (400, "VariantNotFound"),
    ),
    "a path that leads out": (
        {"more": [("x-amzn-sagemaker-model-invocation-path", "v1/../x")]},
        (400, "InvalidModelInvocationPath"),
    ),
    "a query that is none": (
        {"more": [("x-amzn-sagemaker-model-query-string", "a=b&c")]},
        (400, "InvalidModelQueryString"),
    ),
}


@pytest.mark.clause("4-1", "4-2", "4-6", "4-7")
@pytest.mark.parametrize(("changes", "expected"), INVALID.values(), ids=INVALID)
async def test_requests_that_are_refused(gateway_for, version, changes, expected):
    gateway = await gateway_for()
    response = await answered(gateway, version, bidirectional_request(**changes))
    error = assert_error(response, expected[0], "InputValidationError", {"Message", "ErrorCode"})
    assert error["ErrorCode"] == expected[1]
    assert gateway.container.connections == []


@pytest.mark.clause("4-1", "4-3", "4-6")
async def test_a_container_that_refuses(gateway_for, version):
    body = b'{"detail":"who are you?"}'
    refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    async with RawContainer(lambda request: refusal) as container:
        gateway = await gateway_for(container=container)
        response = await answered(gateway, version, bidirectional_request())
    members = {"Message", "OriginalStatusCode", "OriginalMessage", "LogStreamArn", "ErrorCode"}
    error = assert_error(response, 424, "ModelError", members)
    assert (error["OriginalStatusCode"], error["OriginalMessage"]) == (403, body.decode())


@pytest.mark.clause("4-3", "4-6")
async def test_a_container_that_is_not_there(gateway_for, version, container):
    container.stop()
    gateway = await gateway_for()
    response = await answered(gateway, version, bidirectional_request())
    assert (response.status, json.loads(response.body)["OriginalStatusCode"]) == (424, 0)


@pytest.mark.clause("4-4", "4-6")
async def test_a_full_gateway(gateway_for, version):
    gateway = await gateway_for(max_streams=1)
    await gateway.open(version)
    response = await answered(gateway, version, bidirectional_request())
    assert_error(response, 503, "ServiceUnavailableError", {"Message", "ErrorCode"})


@pytest.mark.clause("4-4")
async def test_a_fault_of_the_gateway(gateway_for, version):
    async def fail(*_: object) -> None:
        raise RuntimeError("internal detail")

    response = await answered(await gateway_for(dialler=fail), version, bidirectional_request())
    assert_error(response, 500, "InternalServerError", {"Message"})
    assert b"detail" not in response.body


@pytest.mark.clause("2.3-6")
async def test_a_refused_request_is_told_to_send_no_more(gateway_for):
    """It may be in the middle of sending megabytes, and the connection goes on."""
    gateway = await gateway_for()
    client = await connect(gateway)
    for _ in range(3):
        stream = client.request(bidirectional_request(content_type="text/plain"))
        stream.send(bytes(1 << 20))
        response = await whole(stream)
        assert response.status == 400
        assert await stream.ended() == ("END_STREAM", "RST_STREAM(NO_ERROR)")
    await open_on(gateway, client)
    assert client.goaway is None


# --- What is not HTTP/2 --------------------------------------------------------------------------

BROKEN = {
    "DATA on stream 0": (0, 0, 0, b"x", Code.PROTOCOL_ERROR),
    "DATA on an idle stream": (0, 0, 9, b"x", Code.PROTOCOL_ERROR),
    "a stream of ours": (1, 4, 2, b"\x82", Code.PROTOCOL_ERROR),
    # RFC 9113 §4.3 has COMPRESSION_ERROR; this is h2's word.
    "headers that are none": (1, 4, 3, b"\xff" * 9, Code.PROTOCOL_ERROR),
    "a window over its limit": (8, 0, 0, b"\x7f\xff\xff\xff", Code.FLOW_CONTROL_ERROR),
    "a frame of 16,385 bytes": (0, 0, 1, bytes(16_385), Code.FRAME_SIZE_ERROR),
    "half a PING": (6, 0, 0, b"1234", Code.FRAME_SIZE_ERROR),
}


@pytest.mark.parametrize(("kind", "flags", "stream", "body", "code"), BROKEN.values(), ids=BROKEN)
async def test_a_client_that_breaks_rfc_9113_loses_its_connection(
    gateway_for, kind, flags, stream, body, code
):
    gateway = await gateway_for()
    client, model = await gateway.open("http2")
    head = len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
    client.client.send_bytes(head, body)
    assert await client.client.gone() == f"GOAWAY({code.name})"
    assert await client.client.eof() in ("EOF", "ABORT")
    assert (await model.frame()).close_code == 1001
    assert gateway.causes() == {"client_lost": 1}


async def test_frames_of_a_stream_that_has_ended_are_dropped(gateway_for):
    """They were under way when its reset came; the connection goes on."""
    gateway = await gateway_for()
    client = await connect(gateway)
    stream, model = await open_on(gateway, client)
    model.send(close(4000))
    assert await stream.ended() == ("END_STREAM", "RST_STREAM(NO_ERROR)")
    client.send_frame(
        DataFrame(1, EVENT),
        WindowUpdateFrame(1, window_increment=5),
        RstStreamFrame(1, error_code=Code.CANCEL),
    )
    await open_on(gateway, client)
    assert client.goaway is None
    assert not frames_of(client, GoAwayFrame)


async def test_a_client_that_ends_its_side_and_takes_nothing_is_cut(gateway_for, monkeypatch):
    monkeypatch.setattr(limits, "LINGER_TIMEOUT", 0.1)
    gateway = await gateway_for()
    client = await RawHttp2Client.connect(gateway.port, receive_buffer=4096)
    gateway.clients.append(client)
    head = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/metrics")]
    for _ in range(400):
        client.request(head, end_stream=True)
    await client.flush()
    client.wire.end()
    await eventually(lambda: gateway.gateway.ports.http2.open_connections == 0)


async def test_a_drain_says_nothing_to_a_connection_that_is_closed_to_new_streams(gateway_for):
    """GOAWAY's last stream never goes up (RFC 9113 §6.8)."""
    gateway = await gateway_for()
    client, _ = await gateway.open("http2")
    (lifetime,) = gateway.gateway.ports.http2._connections.open
    lifetime._close_to_new(Code.ENHANCE_YOUR_CALM)
    gateway.gateway.ports.http2.announce_end()
    await client.client.settled()
    goaways = [frame for frame in client.client.seen if isinstance(frame, GoAwayFrame)]
    assert [frame.last_stream_id for frame in goaways] == [1]


async def test_a_retired_server_tells_a_connection_that_comes_later(gateway_for):
    """One that was accepted before, and whose first bytes come now; its streams are answered."""
    gateway = await gateway_for()
    gateway.gateway.ports.http2.retire()
    client, _ = await gateway.open("http2")
    assert client.client.goaway.last_stream_id == 2**31 - 1
    assert isinstance(client.client.seen[0], SettingsFrame)
