"""One listener for all: TLS with ALPN or without, and clear text beside it (clause 2.5-6)."""

from __future__ import annotations

import asyncio
import logging
import ssl

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.protocol import limits
from partway.protocol.limits import KIB, MIB
from tests.frame_factory import BINARY, KEY, TEXT, close, frame
from tests.wire.chunked_peers import RawChunkedClient
from tests.wire.event_dialect import Http1EventClient, Http2EventClient, as_event
from tests.wire.event_messages import END, part_event
from tests.wire.http2_peers import PREFACE, RawHttp2Client, start_tls
from tests.wire.http2_streams import EVENT_STREAM, bidirectional_request
from tests.wire.peers import (
    MAX_SOCKET_READ,
    RAW,
    ModelStream,
    RawClient,
    RunningGateway,
    eventually,
    soon,
    upgrade_request,
)

NOBODY = 1e9  # an interval that never comes
HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def connect(
    gateway: RunningGateway, kind: type[RawClient] = RawClient, alpn: list[str] | None = None
) -> RawClient:
    """A client that has done its handshake, and said nothing yet."""
    client = await kind.connect(gateway.tls_port)
    gateway.clients.append(client)
    await start_tls(client, gateway.client_context(), alpn)
    return client


async def connect_http2(gateway: RunningGateway, alpn: list[str] | None) -> RawHttp2Client:
    client = await RawHttp2Client.connect(gateway.tls_port, tls=gateway.client_context(), alpn=alpn)
    gateway.clients.append(client)
    return client


async def open_stream(
    gateway: RunningGateway, version: str
) -> tuple[Http2EventClient | Http1EventClient, ModelStream]:
    client: Http2EventClient | Http1EventClient
    if version == "http2":
        client = Http2EventClient(await connect_http2(gateway, ["h2"]), bidirectional_request())
    else:
        wire = await connect(gateway, RawChunkedClient, ["http/1.1"])
        client = Http1EventClient(wire, bidirectional_request())
    status, headers = client.head = await client.stream.head()
    assert (status, headers["content-type"]) == (200, EVENT_STREAM)
    return client, await gateway.container.stream()


@pytest.fixture(params=["http2", "http1"])
def version(request: pytest.FixtureRequest) -> str:
    return request.param


# --- What is agreed on, and what is spoken -------------------------------------------------------

ALPN = {
    "h2": (["h2"], "h2"),
    "h2 first": (["h2", "http/1.1"], "h2"),
    "h2 last": (["http/1.1", "h2"], "h2"),
    "no ALPN at all": (None, None),
    "something else": (["spdy/3"], None),
    "HTTP/1.1, and then h2 all the same": (["http/1.1"], "http/1.1"),
}


@pytest.mark.clause("2.5-6", "2.5-3")
@pytest.mark.parametrize(("offered", "agreed"), ALPN.values(), ids=ALPN)
async def test_http2_over_tls(gateway_for, offered, agreed):
    """The preface says what is spoken: older clients of Java have no ALPN."""
    gateway = await gateway_for(tls=True)
    client = await connect_http2(gateway, offered)
    assert client.alpn == agreed
    stream = client.request(bidirectional_request(scheme="https"))
    model = await gateway.container.stream()
    assert (await stream.head())[0] == 200
    stream.send(part_event(b"hi", "UTF8"))
    assert (await model.frame()).payload == b"hi"
    model.send(frame(TEXT, b"ho"), close(4000, b"bye"))
    assert as_event(await stream.event())["PayloadPart"]["Bytes"] == b"ho"
    assert as_event(await stream.event())["ModelStreamError"]["Message"] == "bye"
    assert await stream.ended() == ("END_STREAM", "RST_STREAM(NO_ERROR)")


@pytest.mark.clause("2.5-6")
@pytest.mark.parametrize("offered", [["http/1.1"], None], ids=["ALPN", "no ALPN"])
async def test_http_1_1_over_tls(gateway_for, offered):
    gateway = await gateway_for(tls=True)
    client = await connect(gateway, RawClient, offered)
    for _ in range(2):
        client.send(HEALTHZ)
        assert (await client.response()).body == b"ok\n"


@pytest.mark.clause("2.5-6")
async def test_a_websocket_over_tls(gateway_for):
    gateway = await gateway_for(tls=True)
    client = await connect(gateway, RawClient, ["http/1.1"])
    await client.upgrade(upgrade_request(subprotocols=RAW))
    model = await gateway.container.stream()
    payload = bytes(range(256)) * 4 * KIB
    client.send(frame(BINARY, payload, mask=KEY))
    assert (await model.frame()).payload == payload
    model.send(frame(BINARY, payload), close(1000, b"bye"))
    assert (await client.frame()).payload == payload
    seen = await client.frame()
    assert (seen.close_code, seen.close_reason) == (1000, "bye")
    await client.leave()


@pytest.mark.clause("2.5-6")
@pytest.mark.parametrize("port", ["clear", "TLS"])
async def test_a_preface_in_pieces(gateway_for, port):
    gateway = await gateway_for(tls=True)
    if port == "TLS":
        client = await RawHttp2Client.connect(
            gateway.tls_port, tls=gateway.client_context(), alpn=None, preface=False
        )
    else:
        client = await RawHttp2Client.connect(gateway.port, preface=False)
    gateway.clients.append(client)
    for byte in PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00":
        client.send_bytes(bytes([byte]))
        await client.flush()
        await asyncio.sleep(0.001)
    await client.ready()
    await client.ping()


@pytest.mark.clause("2.5-6", "2.5-2")
async def test_all_of_them_in_clear_on_the_other_port(gateway_for):
    """Beside TLS: h2c by its preface, chunks, a WebSocket, a page."""
    gateway = await gateway_for(tls=True)
    for name in ("http2", "http1", RAW):
        await gateway.open(name)
    assert (await gateway.request(HEALTHZ)).body == b"ok\n"
    assert gateway.port != gateway.tls_port


@pytest.mark.clause("2.5-6")
@pytest.mark.parametrize("said", [HEALTHZ, PREFACE, b"\x00", bytes(60_000)])
async def test_clear_text_on_the_port_for_tls_hears_that_it_is_one(gateway_for, said, caplog):
    """A fatal alert, as of any server of TLS, and the connection ends without a reset."""
    caplog.set_level(logging.INFO)
    gateway = await gateway_for(tls=True)
    client = await RawClient.connect(gateway.tls_port)
    gateway.clients.append(client)
    client.send(said)
    assert await client.eof() == bytes.fromhex("15 0303 0002 02 0a")
    assert 'no TLS handshake peer=127.0.0.1 reason="the client does not speak TLS"' in caplog.text
    assert (await gateway.request(HEALTHZ)).status == 200


async def test_a_client_that_leaves_before_its_first_byte(gateway_for):
    gateway = await gateway_for(tls=True)
    client = await RawClient.connect(gateway.tls_port)
    gateway.clients.append(client)
    client.end()
    assert await client.eof() == b""
    await eventually(lambda: not gateway.gateway.ports.listener._tls_ports[0].handshakes)


async def test_a_client_that_does_not_trust_the_ca_gets_nowhere(gateway_for):
    gateway = await gateway_for(tls=True)
    client = await RawClient.connect(gateway.tls_port)
    gateway.clients.append(client)
    with pytest.raises(ssl.SSLCertVerificationError):
        await start_tls(client, ssl.create_default_context(), ["h2"])
    assert gateway.gateway.ports.http2.open_connections == 0


async def test_a_client_that_never_begins_its_handshake(gateway_for, monkeypatch):
    """It is cut off, as one is that has done it and says nothing (below)."""
    monkeypatch.setattr("partway.gateway.http.tls_port.TLS_HANDSHAKE_TIMEOUT", 0.1)
    gateway = await gateway_for(tls=True)
    client = await RawClient.connect(gateway.tls_port)
    gateway.clients.append(client)
    assert await client.eof() == b""


async def test_handshakes_count_as_connections(gateway_for, caplog):
    gateway = await gateway_for(tls=True, max_connections=3, max_connections_per_address=3)
    crowd = gateway.gateway.ports.listener.crowd
    silent = []
    for _ in range(3):
        silent.append(await RawClient.connect(gateway.tls_port))
        await eventually(lambda: len(crowd) == len(silent))
    gateway.clients += silent
    client = await connect_http2(gateway, ["h2"])
    await client.settled()
    assert await silent[0].eof() == b"", "the oldest goes"
    assert len(crowd) == 3
    assert "connections are closed to make room" in caplog.text
    for each in silent[1:]:
        each.abort()
    await eventually(lambda: len(crowd) == 1)


async def test_a_drain_gives_up_handshakes(gateway_for):
    gateway = await gateway_for(tls=True)
    silent = await RawClient.connect(gateway.tls_port)
    gateway.clients.append(silent)
    await eventually(lambda: gateway.gateway.ports.listener._tls_ports[0].handshakes == 1)
    await soon(gateway.gateway.drain(), "the drain")
    assert await silent.eof() == b""


async def test_a_client_that_says_nothing_behind_its_handshake(gateway_for, monkeypatch):
    monkeypatch.setattr("partway.gateway.http.listener.OPENING_TIMEOUT", 0.1)
    gateway = await gateway_for(tls=True)
    client = await connect(gateway)
    assert await client.eof() == b""
    assert not gateway.gateway.ports.listener.opening


async def test_an_idle_connection_of_http2_over_tls_is_closed(gateway_for, monkeypatch):
    monkeypatch.setattr(limits, "REQUEST_HEAD_TIMEOUT", 0.1)
    gateway = await gateway_for(tls=True)
    client = await connect_http2(gateway, ["h2"])
    assert await client.eof() == "EOF"
    assert client.goaway is not None
    assert client.goaway.error_code == 0


# --- Streams over TLS ----------------------------------------------------------------------------


@pytest.mark.clause("2.3-2", "1.5-12")
async def test_a_stream_to_its_end(gateway_for, version):
    gateway = await gateway_for(tls=True)
    client, model = await open_stream(gateway, version)
    for size in (0, 1, 100, 16 * KIB, MIB):
        payload = bytes([size % 251]) * size
        client.send(part_event(payload))
        assert (await model.frame()).payload == payload
        model.send(frame(BINARY, payload))
        assert as_event(await client.event())["PayloadPart"]["Bytes"] == payload
    client.end_input()
    assert (await model.frame()).close_code == 1000
    model.send(frame(TEXT, b"tail"), close(1000))
    assert as_event(await client.event())["PayloadPart"]["Bytes"] == b"tail"
    assert await client.event() is END
    assert await client.ended() == (
        ("END_STREAM",) if version == "http2" else ("LAST_CHUNK", "EOF")
    )
    assert gateway.causes() == {"completed": 1}


@pytest.mark.clause("2.7-1", "2.3-6")
async def test_the_exception_arrives_while_the_client_still_sends(gateway_for, version):
    """TLS cannot shut one side alone: the rest is read all the same."""
    gateway = await gateway_for(tls=True)
    client, model = await open_stream(gateway, version)
    piece = part_event(bytes(16 * KIB))

    async def chatter() -> None:
        while not client.wire.writer.is_closing():
            client.send(piece)
            await asyncio.sleep(0.001)

    chattering = asyncio.create_task(chatter())
    try:
        await eventually(lambda: any(each.from_client.parts > 5 for each in sessions(gateway)))
        model.send(frame(BINARY, bytes(4 * MIB)), close(4000, b"bye"))
        assert len((await client.event()).payload) == 4 * MIB
        assert as_event(await client.event())["ModelStreamError"]["Message"] == "bye"
        assert await client.event() is END
    finally:
        chattering.cancel()
        await asyncio.gather(chattering, return_exceptions=True)
    assert gateway.causes() == {"model_error": 1}


def sessions(gateway: RunningGateway) -> set:
    return gateway.gateway.streams.sessions


@pytest.mark.clause("2.3-2", "1.5-9")
@pytest.mark.parametrize("leaves", ["abort", "reset"])
async def test_a_client_that_leaves(gateway_for, version, leaves):
    gateway = await gateway_for(tls=True)
    client, model = await open_stream(gateway, version)
    client.send(part_event(b"hi"))
    assert (await model.frame()).payload == b"hi"
    getattr(client, leaves)()
    assert (await model.frame()).close_code == 1001
    assert gateway.causes() == {"client_lost": 1}


@pytest.mark.clause("1.4-2", "1.5-8", "2.6-1")
async def test_a_client_that_takes_nothing_is_named(gateway_for, version, clock):
    policy = StreamPolicy(ping_interval=NOBODY, http2_ping_interval=NOBODY)
    gateway = await gateway_for(policy, tls=True)
    _, model = await open_stream(gateway, version)
    (session,) = sessions(gateway)
    model.send(*[frame(BINARY, bytes(MIB))] * 16)
    await eventually(lambda: not session.container._connection.reading)
    held = session.buffered_bytes
    assert held <= limits.WRITE_HIGH_WATER + 2 * MIB + MAX_SOCKET_READ
    clock.advance(330.0)
    assert gateway.causes() == {"client_stalled": 1}
    assert (await model.frame()).close_code == 1011
    model.abort()
    clock.advance(limits.FINISH_TIMEOUT)


@pytest.mark.clause("1.5-9")
async def test_a_drain(gateway_for):
    gateway = await gateway_for(tls=True)
    streams = [await open_stream(gateway, version) for version in ("http2", "http1")]
    draining = asyncio.create_task(gateway.gateway.drain())
    for client, model in streams:
        assert "draining" in as_event(await client.event())["InternalStreamFailure"]["Message"]
        assert await client.event() is END
        assert (await model.frame()).close_code == 1001
        model.abort()
        client.abort()
    await asyncio.wait_for(draining, 5)
    with pytest.raises(ConnectionRefusedError):
        await RawClient.connect(gateway.tls_port)
