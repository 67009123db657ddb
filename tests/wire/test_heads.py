"""The limits of a request's head: one answer over both HTTPs, and no neighbour that pays for it."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.http.http2 import late_input
from partway.protocol.limits import (
    HTTP2_MAX_HEADER_BLOCK,
    KIB,
    MAX_HEAD_BYTES,
    MAX_HEADER_LINE,
    MAX_HEADERS,
)
from tests.wire.chunked_peers import RawChunkedClient
from tests.wire.event_messages import part_event
from tests.wire.http2_peers import RawHttp2Client
from tests.wire.http2_streams import bidirectional_request
from tests.wire.peers import PATIENCE, Response, RunningGateway, eventually

Fields = list[tuple[str, str]]

#: What every request here has besides: a method, a host, and a header for each of these.
HOST = "gateway.example"
OVERHEAD = 32  # RFC 9113 §6.5.2


def sized(total: int) -> Fields:
    """Headers that make a head of GET /healthz as large as that."""
    left = total - len("GET") - len("/healthz") - len("host") - len(HOST) - OVERHEAD
    fields = []
    while left > 0:
        size = min(left, 4 * KIB) if left > 4 * KIB + 100 else left
        size = size if left - size == 0 or left - size > 100 else size - 100
        fields.append((f"x-{len(fields):02}", "v" * (size - OVERHEAD - 4)))
        left -= size
    return fields


#: A target and headers, and the status.
HEADS = {
    "the longest target": ("/" + "a" * (MAX_HEADER_LINE - 1), [], 404),
    "the longest target with a query": ("/a?" + "b" * (MAX_HEADER_LINE - 3), [], 404),
    "a longer target": ("/" + "a" * MAX_HEADER_LINE, [], 414),
    "a longer query": ("/a?" + "b" * (MAX_HEADER_LINE - 2), [], 414),
    "a target of 12 KiB": ("/" + "a" * 12 * KIB, [], 414),
    "a target of 40 KiB": ("/" + "a" * 40 * KIB, [], 414),
    "the longest header": ("/healthz", [("x", "v" * (MAX_HEADER_LINE - 1))], 200),
    "a longer header": ("/healthz", [("x", "v" * MAX_HEADER_LINE)], 431),
    "a header of 12 KiB": ("/healthz", [("x", "v" * 12 * KIB)], 431),
    "a header of 40 KiB": ("/healthz", [("x", "v" * 40 * KIB)], 431),
    "a longer name": ("/healthz", [("x" * MAX_HEADER_LINE, "v")], 431),
    "as many as may be": ("/healthz", [(f"x-{n}", "v") for n in range(MAX_HEADERS - 1)], 200),
    "one more": ("/healthz", [(f"x-{n}", "v") for n in range(MAX_HEADERS)], 431),
    "many more": ("/healthz", [(f"x-{n}", "v") for n in range(1000)], 431),
    "the largest head": ("/healthz", sized(MAX_HEAD_BYTES), 200),
    "a byte more": ("/healthz", sized(MAX_HEAD_BYTES + 1), 431),
    "a head of 60 KiB": ("/healthz", sized(60 * KIB), 431),
    "characters of two bytes": ("/healthz", [("x", "ö" * (MAX_HEADER_LINE // 2 + 1))], 431),
}


async def over_http2(client: RawHttp2Client, target: str, fields: Fields) -> Response:
    stream = client.request(
        bidirectional_request(
            fields, target, method="GET", authority=HOST, content_type=None
        ),
        end_stream=True,
    )  # fmt: skip
    return Response(*await stream.head(), await stream.body())


async def over_http1(gateway: RunningGateway, target: str, fields: Fields) -> Response:
    client = await gateway.connect()
    lines = [f"GET {target} HTTP/1.1", f"Host: {HOST}", *(f"{n}: {v}" for n, v in fields), "", ""]
    client.send("\r\n".join(lines).encode())
    return await client.response()


async def connect(gateway: RunningGateway) -> RawHttp2Client:
    client = await RawHttp2Client.connect(gateway.port)
    client.start_reading()
    gateway.clients.append(client)
    return client


@pytest.mark.clause("4-1")
@pytest.mark.parametrize(("target", "fields", "status"), HEADS.values(), ids=HEADS)
async def test_one_limit_and_one_answer(gateway_for, target, fields, status):
    gateway = await gateway_for()
    client = await connect(gateway)
    answers = [
        await over_http1(gateway, target, fields),
        await over_http2(client, target, fields),
    ]
    assert [answer.status for answer in answers] == [status, status]
    said = [
        (each.body, each.headers["content-type"], each.headers.get("x-amzn-errortype"))
        for each in answers
    ]
    assert said[0] == said[1]
    if status > 404:
        limit = f" at most {MAX_HEADER_LINE} bytes" if status == 414 else f" {MAX_HEADERS} headers"
        assert limit in answers[0].json["Message"]
        name = {
            414: "RequestURITooLongException",
            431: "RequestHeaderFieldsTooLargeException",
        }
        assert said[0][2] == name[status]
    assert client.goaway is None


@pytest.mark.parametrize("value", ["v" * 8000, "v" * 800, "ö" * 900])
async def test_a_head_that_is_never_finished_is_answered_once_it_holds_too_much(gateway_for, value):
    """Nobody waits for its end: 64 lines of 8 KiB would hold a megabyte."""
    gateway = await gateway_for()
    client = await gateway.connect()
    sent = f"x: {value}\r\n".encode()
    client.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n", sent * (48 * KIB // len(sent)))
    assert (await client.response()).status == 431


async def test_trailers_that_never_end_cut_their_stream(gateway_for):
    gateway = await gateway_for()
    client = await RawChunkedClient.connect(gateway.port)
    gateway.clients.append(client)
    client.request(bidirectional_request())
    model = await gateway.container.stream()
    client.send_chunk(part_event(b"on"))
    assert (await model.frame()).payload == b"on"
    client.send(b"0\r\n", (b"x: " + b"v" * 800 + b"\r\n") * 60)
    await eventually(lambda: gateway.causes() == {"client_lost": 1})


async def test_a_head_that_is_too_large_costs_nobody_else_anything(gateway_for):
    """Its headers are in HPACK's table all the same, and later heads refer to them."""
    gateway = await gateway_for()
    client = await connect(gateway)
    neighbour = client.request(bidirectional_request())
    model = await gateway.container.stream()
    assert (await neighbour.head())[0] == 200
    fields = [("x-entry", "v" * 3000), *sized(20 * KIB)]
    first = await over_http2(client, "/healthz", fields)
    assert first.status == 431
    assert len(client.encoder.encode([fields[-1]])) < 10, "the client refers to it now"
    again = await over_http2(client, "/healthz", fields)
    assert (again.status, again.body) == (431, first.body)
    assert (await over_http2(client, "/healthz", fields[-1:])).status == 200
    neighbour.send(part_event(b"on"))
    assert (await model.frame()).payload == b"on"
    assert client.goaway is None


async def test_a_body_behind_such_a_head_is_dropped(gateway_for, monkeypatch):
    monkeypatch.setattr(late_input, "HTTP2_LATE_QUIET_UNBEGUN", PATIENCE)
    gateway = await gateway_for()
    client = await connect(gateway)
    stream = client.request(bidirectional_request(sized(20 * KIB)))
    stream.send(bytes(500 * KIB))
    assert (await stream.head())[0] == 431
    assert await stream.body()
    await client.until(lambda: not stream.unsent, "credit for all of the body")
    stream.end()
    assert (await over_http2(client, "/healthz", [])).status == 200
    assert gateway.container.connections == []


async def test_beyond_what_is_decoded_the_connection_ends(gateway_for):
    """Here unpacked: what HPACK did not finish, it cannot go on from (RFC 9113 §4.3)."""
    gateway = await gateway_for()
    client = await connect(gateway)
    fields = [("x-entry", "v" * 3000)] * (HTTP2_MAX_HEADER_BLOCK // 3000 + 1)
    client.request(bidirectional_request(fields), end_stream=True)
    assert await client.gone() == "GOAWAY(ENHANCE_YOUR_CALM)"
    assert await client.eof() in ("EOF", "ABORT")


async def test_beyond_that_on_the_wire_streams_that_run_go_on(gateway_for):
    gateway = await gateway_for()
    client = await connect(gateway)
    stream = client.request(bidirectional_request())
    model = await gateway.container.stream()
    assert (await stream.head())[0] == 200
    client.request(bidirectional_request([("x", "v" * 100 * KIB)]), end_stream=True)
    assert await client.gone() == "GOAWAY(ENHANCE_YOUR_CALM)"
    assert client.goaway.last_stream_id == 1
    stream.send(part_event(b"on"))
    assert (await model.frame()).payload == b"on"
    await asyncio.sleep(0)
    assert client.over is None
