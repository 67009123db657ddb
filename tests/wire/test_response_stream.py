"""InvokeEndpointWithResponseStream over each HTTP, every byte of both ends a test's."""

from __future__ import annotations

import asyncio
import logging

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.protocol.limits import KIB, WRITE_HIGH_WATER
from tests import event_factory as raw
from tests.gateway.streams.fakes import FakeClock
from tests.wire.chunked_peers import chunk
from tests.wire.peers import ENDPOINT, MAX_SOCKET_READ, PATIENCE, eventually, soon
from tests.wire.plain_requests import FORMS, VERSIONS
from tests.wire.response_streams import (
    HEAD,
    LAST_CHUNK,
    PART_HEADERS,
    PATH,
    AnsweringContainer,
    StreamClient,
    body_of,
    chunked,
    left,
    tokens,
)


@pytest.fixture
async def container(anyio_backend):
    """A container that answers invocations as the test says."""
    async with AnsweringContainer() as container:
        yield container


@pytest.fixture(params=VERSIONS.values(), ids=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def clock(monkeypatch):
    """The response streams' clock, which only the test advances."""
    clock = FakeClock()
    for module in ("streams.registry", "containers.connections"):
        monkeypatch.setattr(f"partway.gateway.{module}.LoopClock", lambda: clock)
    return clock


@pytest.fixture
def streaming(gateway_for, container, version):
    """A response stream whose client has its head; the container's invocation, and the gateway."""

    async def start(head=HEAD, body=b"prompt", more=(), options=None, **settings):
        gateway = await gateway_for(**settings)
        client = await StreamClient.ask(version, gateway, body, more, **(options or {}))
        invocation = await container.invocation()
        await body_of(invocation)
        if head is not None:
            invocation.send(head)
            status, headers = await client.head()
            assert (status, headers["content-type"]) == (200, "application/vnd.amazon.eventstream")
        return client, invocation, gateway

    return start


# --- Bytes ---------------------------------------------------------------------------------------


def part(payload):
    """A part's event, by a hand that is not the gateway's."""
    return raw.message(b"".join(raw.string(*pair) for pair in PART_HEADERS.items()), payload)


async def test_the_whole_of_it(streaming, container):
    """Every byte of the body, and where HTTP has them its chunks: one for each event."""
    head = HEAD.replace(
        b"Content-Type", b"X-Amzn-SageMaker-Custom-Attributes: trace=1\r\nX: y\r\nContent-Type"
    )
    client, invocation, _ = await streaming(head)
    _, headers = await client.head()
    assert {name: headers[name] for name in headers if name.startswith(("x-amzn-", "x:"))} == {
        "x-amzn-requestid": headers["x-amzn-requestid"],
        "x-amzn-invoked-production-variant": "AllTraffic",
        "x-amzn-sagemaker-content-type": "text/plain",
        "x-amzn-sagemaker-custom-attributes": "trace=1",
    }
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "sandbox"
    invocation.send(chunked([b"Hello ", b"W\xff\x00rld"]))
    assert await client.parts() == [b"Hello ", b"W\xff\x00rld"]
    assert b"".join(client.raw) == part(b"Hello ") + part(b"W\xff\x00rld")
    if client.client.http2:
        assert client.client.stream.ends == ["END_STREAM"]
    else:
        assert client.raw == [part(b"Hello "), part(b"W\xff\x00rld")]
        assert client.client.wire.ends == ["LAST_CHUNK"]


async def test_what_the_container_is_asked(gateway_for, container, version):
    """The client's Accept stands in a header of its own; only what is named goes along."""
    gateway = await gateway_for()
    named = {
        "X-Amzn-SageMaker-Accept": "text/event-stream",
        "X-Amzn-SageMaker-Custom-Attributes": "trace=1",
        "X-Amzn-SageMaker-Inference-Id": "id-1",
        "X-Amzn-SageMaker-Target-Variant": "AllTraffic",
        "X-Amzn-SageMaker-Target-Model": "not-of-this-operation",
        "X-Amzn-SageMaker-Enable-Explanations": "not-of-this-operation",
        "Accept": "not/asked",
        "Cookie": "secret",
    }
    more = [(name.lower(), value) for name, value in named.items()]
    client = await StreamClient.ask(version, gateway, b"prompt", more)
    invocation = await container.invocation()
    assert invocation.request.startswith(b"POST /invocations HTTP/1.1\r\n")
    assert invocation.header("accept") == "text/event-stream"
    assert invocation.header("content-type") == "application/json"
    assert invocation.header("x-amzn-sagemaker-custom-attributes") == "trace=1"
    assert invocation.header("x-amzn-sagemaker-inference-id") == "id-1"
    for name in ("x-amzn-sagemaker-target-model", "x-amzn-sagemaker-enable-explanations", "cookie"):
        assert invocation.header(name) is None
    assert b"prompt" in (await body_of(invocation)).replace(b"\r\n4\r\n", b"")
    invocation.send(HEAD, LAST_CHUNK)
    assert await client.parts() == []


# --- Chunks --------------------------------------------------------------------------------------


async def test_each_part_comes_before_the_next_is_there(streaming):
    """The container says the next word only when the client has the last one."""
    client, invocation, _ = await streaming()
    for token in tokens():
        invocation.send(chunk(token))
        assert await client.part() == token
    invocation.send(LAST_CHUNK)
    assert await client.parts() == []


async def test_chunks_that_come_together_stay_apart(streaming):
    client, invocation, _ = await streaming()
    invocation.send(chunked(tokens()))
    assert await client.parts() == tokens()


async def test_a_chunk_that_is_cut_by_tcp_is_one_part(streaming):
    client, invocation, _ = await streaming()
    whole = chunk(b"one") + chunk(b"x" * 300_000)
    invocation.send(whole[:200_000])
    assert await client.part() == b"one"  # so the gateway has read some of the other one, or will
    invocation.send(whole[200_000:], LAST_CHUNK)
    assert await client.parts() == [b"x" * 300_000]


async def test_a_chunk_larger_than_a_part_is_several(streaming, monkeypatch):
    monkeypatch.setattr("partway.gateway.containers.invocation.MAX_PART_BYTES", 100_000)
    client, invocation, _ = await streaming()
    invocation.send(chunked([b"x" * 250_000, b"short"]))
    *found, short = await client.parts()
    assert b"".join(found) == b"x" * 250_000
    assert max(map(len, found)) <= 100_000
    assert short == b"short"


async def test_an_answer_of_a_length(streaming):
    """Whatever comes at a time is a part; what comes is all of it."""
    client, invocation, _ = await streaming(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n")
    invocation.send(b"here")
    assert await client.part() == b"here"
    invocation.send(b"more")
    assert await client.parts() == [b"more"]


async def test_an_answer_that_ends_with_its_connection(streaming):
    client, invocation, _ = await streaming(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    invocation.send(b"here")
    assert await client.part() == b"here"
    invocation.writer.close()
    assert await client.parts() == []


# --- Before the head -----------------------------------------------------------------------------


async def test_a_container_that_refuses(streaming):
    client, invocation, _ = await streaming(head=None)
    invocation.send(b"HTTP/1.1 500 Oh\r\nContent-Length: 5\r\n\r\nnope!")
    status, headers = await client.head()
    assert (status, headers["x-amzn-errortype"]) == (424, "ModelError")
    assert b'"OriginalStatusCode": 500' in await client.client.data()


async def test_a_container_that_is_gone_before_its_head(streaming):
    client, invocation, _ = await streaming(head=None)
    invocation.abort()
    status, headers = await client.head()
    assert (status, headers["x-amzn-errortype"]) == (424, "ModelError")


async def test_a_container_that_does_not_answer(streaming, clock):
    client, _, _ = await streaming(head=None)
    clock.advance(60)
    status, headers = await client.head()
    assert (status, headers["x-amzn-errortype"]) == (424, "ModelError")


# --- Inside the answer ---------------------------------------------------------------------------


@pytest.mark.clause("2.3-6")
@pytest.mark.parametrize("fault", ["reset", "end", "bad chunk"])
async def test_an_answer_that_breaks(streaming, fault):
    client, invocation, _ = await streaming()
    invocation.send(chunk(b"one"))
    assert await client.part() == b"one"
    match fault:
        case "reset":
            invocation.reset()
        case "end":
            invocation.writer.close()
        case "bad chunk":
            invocation.send(b"no size\r\n")
    kind, members = await client.exception()
    assert (kind, members["ErrorCode"]) == ("ModelStreamError", "StreamBroken")
    assert "container" in members["Message"]


@pytest.mark.clause("2.3-6")
async def test_an_answer_that_falls_silent(streaming, clock):
    client, invocation, _ = await streaming()
    invocation.send(chunk(b"one"))
    assert await client.part() == b"one"
    await eventually(lambda: any(timer.due == clock.now + 60 for timer in clock.armed))
    clock.advance(60)
    kind, members = await client.exception()
    assert (kind, members["ErrorCode"]) == ("ModelStreamError", "ModelInvocationTimeExceeded")
    await left(invocation)


async def test_an_answer_that_comes_to_no_end(streaming, clock):
    client, invocation, _ = await streaming()
    for _ in range(16):
        clock.advance(29.9)
        invocation.send(chunk(b"on"))
        assert await client.part() == b"on"
    clock.advance(2)
    kind, members = await client.exception()
    assert (kind, members["ErrorCode"]) == ("ModelStreamError", "ModelInvocationTimeExceeded")
    assert "480 s" in members["Message"]
    await left(invocation)


async def test_it_may_take_longer_than_a_request(streaming, clock):
    client, invocation, _ = await streaming(policy=StreamPolicy(request_lifetime=60))
    for _ in range(4):
        clock.advance(29.9)
        invocation.send(chunk(b"on"))
        assert await client.part() == b"on"
    invocation.send(LAST_CHUNK)
    assert await client.parts() == []


async def test_a_connection_of_http_1_1_goes_on_behind_an_exception(gateway_for, container):
    gateway = await gateway_for()
    client = await StreamClient.ask(VERSIONS["chunked"], gateway, b"prompt")
    invocation = await container.invocation()
    invocation.send(HEAD, chunk(b"one"))
    assert await client.part() == b"one"
    invocation.reset()
    await client.exception()
    client.client.answered()
    client.client.ask(PATH, b"again")
    again = await container.invocation()
    again.send(HEAD, chunked([b"two"]))
    assert await StreamClient(client.client).parts() == [b"two"]


# --- The client ----------------------------------------------------------------------------------


async def test_a_client_that_leaves_cancels_the_containers_request(streaming):
    client, invocation, gateway = await streaming()
    invocation.send(chunk(b"one"))
    assert await client.part() == b"one"
    client.client.leave()
    await left(invocation)
    await eventually(lambda: gateway.causes() == {"client_lost": 1})


async def test_a_client_that_leaves_before_the_head(streaming, caplog):
    """The operator's log says whom it had asked."""
    caplog.set_level(logging.INFO, "partway.gateway")
    client, invocation, _ = await streaming(head=None)
    client.client.leave()
    await left(invocation)
    await eventually(lambda: "client left" in caplog.text)
    (line,) = (each.getMessage() for each in caplog.records if "client left" in each.getMessage())
    assert f"endpoint={ENDPOINT} container=http://" in line


async def test_a_client_that_does_not_read_holds_the_container_back(streaming):
    """What is held meanwhile is bounded, and then all of it comes."""
    client, invocation, gateway = await streaming(options={"receive_buffer": 16 * KIB})
    (relay,) = gateway.gateway.streams.sessions
    talking = Talking(invocation)
    await eventually(lambda: relay._answer._paused)
    # Of each side its high-water mark, what went over it, and what a read had brought besides.
    held = 2 * (WRITE_HIGH_WATER + len(PIECE)) + MAX_SOCKET_READ
    assert 0 < relay.buffered_bytes <= held
    talking.enough = True
    parts = await client.parts()
    assert (len(parts), set(parts)) == (await soon(talking.over), {PIECE})
    await eventually(lambda: gateway.causes() == {"completed": 1})


PIECE = bytes(64 * KIB)


class Talking:
    """A container that talks, each word when the one before is taken, until it is enough.

    Attributes:
        enough: to be set.
        over: done when it has said its last; how many words there were.
    """

    def __init__(self, invocation):
        self.enough = False
        self.over = asyncio.create_task(self._talk(invocation))

    async def _talk(self, invocation):
        words = 0
        while not self.enough:
            invocation.send(chunk(PIECE))
            words += 1
            await invocation.flush()
        invocation.send(LAST_CHUNK)
        return words


async def test_one_that_is_not_read_holds_no_other_back(gateway_for, container):
    """Both on one connection of HTTP/2."""
    gateway = await gateway_for()
    stuck = await StreamClient.ask(VERSIONS["http2"], gateway)
    invocation = await container.invocation()
    invocation.send(HEAD)
    await stuck.head()
    (relay,) = gateway.gateway.streams.sessions
    talking = Talking(invocation)
    await eventually(lambda: relay._answer._paused)
    http2 = FORMS["http2"]()
    http2.wire = stuck.client.wire
    http2.ask(PATH, b"prompt")
    other = StreamClient(http2)
    neighbour = await container.invocation()
    neighbour.send(HEAD, chunked(tokens()))
    assert await other.parts() == tokens()
    talking.over.cancel()


# --- The gateway's way down ----------------------------------------------------------------------


@pytest.mark.clause("1.5-9")
async def test_a_drain_ends_it_in_good_order(streaming):
    client, invocation, gateway = await streaming()
    invocation.send(chunk(b"one"))
    assert await client.part() == b"one"
    draining = asyncio.create_task(gateway.gateway.drain())
    kind, members = await client.exception()
    assert (kind, members) == (
        "InternalStreamFailure",
        {"Message": "the gateway is draining; open the stream again"},
    )
    await left(invocation)
    client.client.leave()
    await soon(draining)


async def test_a_drain_lets_it_end_by_itself(streaming):
    client, invocation, gateway = await streaming(shutdown_grace=PATIENCE)
    invocation.send(chunk(b"one"))
    assert await client.part() == b"one"
    draining = asyncio.create_task(gateway.gateway.drain())
    await eventually(lambda: gateway.gateway.streams.draining)
    invocation.send(chunk(b"two"), LAST_CHUNK)
    assert await client.parts() == [b"two"]
    client.client.leave()
    await soon(draining)


async def test_full_or_draining_takes_no_more(streaming, version):
    client, invocation, gateway = await streaming(max_streams=1)
    other = await StreamClient.ask(version, gateway)
    status, headers = await other.head()
    assert (status, headers["x-amzn-errortype"]) == (503, "ServiceUnavailable")
    invocation.send(LAST_CHUNK)
    assert await client.parts() == []


async def test_it_is_counted_and_logged_as_a_stream(streaming, caplog):
    client, invocation, gateway = await streaming()
    with caplog.at_level(logging.INFO, "partway.stream"):
        invocation.send(chunked([b"one", b"three"]))
        await client.parts()
        await eventually(lambda: "stream ended" in caplog.text)
    for field in ("endpoint=model", "parts_out=2", "bytes_out=8", "cause=completed"):
        assert field in caplog.text
    assert gateway.causes() == {"completed": 1}
