"""Crowds at the gateway's door: one address, one principal, and what is kept for a prober."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.http import connection_admission as crowd_module
from partway.gateway.limits import RESERVED_CONNECTIONS
from tests.frame_factory import TEXT, close
from tests.wire.event_messages import part_event
from tests.wire.event_signing import KEY_ID, SECRET, EventSigning
from tests.wire.http2_peers import RawHttp2Client
from tests.wire.http2_streams import bidirectional_request
from tests.wire.peers import RAW, STREAM_PATH, RawClient, eventually, upgrade_request

HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

#: What somebody says who then waits for nothing.
SILENCES = {
    "nothing": b"",
    "half a head": HEALTHZ[:-2],
    "a whole request": HEALTHZ,
    "HTTP/2": PREFACE,
    "half a block": PREFACE + b"\x00\x00\x02\x01\x00\x00\x00\x00\x01\x82\x86",
}


async def connect_from(gateway, address: str) -> RawClient:
    """A connection from another address of this machine."""
    client = RawClient(
        *await asyncio.open_connection("127.0.0.1", gateway.port, local_addr=(address, 0))
    )
    gateway.clients.append(client)
    return client


async def silent(gateway, said: bytes, count: int, address: str = "127.0.0.1") -> list[RawClient]:
    """Connections that have said something, one after the other."""
    crowd = gateway.gateway.ports.listener.crowd
    clients = []
    for _ in range(count):
        before = len(crowd)
        clients.append(await connect_from(gateway, address))
        clients[-1].send(said)
        await eventually(lambda now=before + 1: len(crowd) == now)
    return clients


async def healthy(gateway, address: str = "127.0.0.2") -> bool:
    client = await connect_from(gateway, address)
    client.send(HEALTHZ)
    status = (await client.response()).status
    client.abort()
    return status == 200


# --- Connections ---------------------------------------------------------------------------------


@pytest.mark.parametrize("said", SILENCES.values(), ids=SILENCES)
async def test_one_address_that_takes_all_it_can_keeps_nobody_out(gateway_for, said):
    gateway = await gateway_for(max_connections=8)
    first, second, *_ = await silent(gateway, said, 4)
    third = await connect_from(gateway, "127.0.0.1")  # over half of all
    await first.eof()
    others = await silent(gateway, b"", 4, "127.0.0.3")
    assert await healthy(gateway)
    await second.eof()
    for each in (third, *others):
        assert not each.reader.at_eof()


@pytest.mark.parametrize("said", SILENCES.values(), ids=SILENCES)
async def test_the_same_where_it_may_have_all(gateway_for, said):
    """So does a gateway without a share; the oldest goes."""
    gateway = await gateway_for(max_connections=4, max_connections_per_address=4)
    first, *others = await silent(gateway, said, 4)
    assert await healthy(gateway, "127.0.0.1")
    await first.eof()
    assert not any(each.reader.at_eof() for each in others)


async def test_an_http2_client_that_has_to_go_is_told_which_requests_count(gateway_for):
    gateway = await gateway_for(max_connections=1)
    async with await RawHttp2Client.connect(gateway.port) as client:
        client.start_reading()
        request = bidirectional_request(path="/healthz", method="GET", content_type=None)
        stream = client.request(request, end_stream=True)
        assert (await stream.head())[0] == 200
        assert await healthy(gateway)
        assert await client.gone() == "GOAWAY(NO_ERROR)"
        assert client.goaway.last_stream_id == stream.stream_id


async def test_streams_stay_whoever_comes(gateway_for):
    gateway = await gateway_for(max_connections=2, max_connections_per_address=2)
    client, model = await gateway.open(RAW)
    over_http2 = await RawHttp2Client.connect(gateway.port)
    gateway.clients.append(over_http2)
    over_http2.start_reading()
    stream = over_http2.request(bidirectional_request())
    other = await gateway.container.stream()
    for _ in range(2 * RESERVED_CONNECTIONS):
        assert await healthy(gateway)
    client.send_frame(TEXT, b"still here")
    assert (await model.frame()).payload == b"still here"
    stream.send(part_event(b"here too"))
    assert (await other.frame()).payload == b"here too"


async def test_the_reserve_is_for_health_and_metrics(gateway_for, short_linger):
    gateway = await gateway_for(max_connections=1)
    client, model = await gateway.open(RAW)
    for path in ("/healthz", "/readyz", "/metrics"):
        request = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
        assert (await gateway.request(request)).status == 200, path
    refused = await gateway.request(upgrade_request(STREAM_PATH, RAW))
    assert refused.status == 503
    assert refused.headers["x-amzn-errortype"] == "ServiceUnavailableError"
    assert "all 1 connections of this gateway" in refused.json["Message"]
    async with await RawHttp2Client.connect(gateway.port) as http2:
        http2.start_reading()
        assert (await http2.request(bidirectional_request()).head())[0] == 503
        client.send_close(1000)
        model.send(close(1000))
        await eventually(lambda: gateway.causes() != {})
        client.abort()
        await eventually(lambda: gateway.gateway.ports.http1.open_connections == 0)
        # The place that is free now is the next one's who asks.
        assert (await http2.request(bidirectional_request()).head())[0] == 200


async def test_a_trusted_proxy_may_have_all(gateway_for):
    gateway = await gateway_for(max_connections=4, trusted_proxies={"127.0.0.0/30"})
    clients = await silent(gateway, b"", 4)
    assert await healthy(gateway, "127.0.0.9")
    assert not any(each.reader.at_eof() for each in clients)
    metrics = await gateway.request(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
    assert metrics.status == 200


async def test_what_was_short_is_counted(gateway_for):
    gateway = await gateway_for(max_connections=2)
    await silent(gateway, b"", 1)
    assert await healthy(gateway, "127.0.0.1")
    page = (await gateway.request(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")).body.decode()
    assert 'partway_connections_dropped_total{short="share"}' in page


# --- Memory --------------------------------------------------------------------------------------

HELD = {
    "a head": b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"x: " + b"v" * 7000 + b"\r\n",
    "a block": PREFACE + b"\x00\x30\x00\x01\x00\x00\x00\x00\x01" + bytes(0x3000),
    "half a frame": PREFACE + b"\x00\x30\x00\x01\x00\x00\x00\x00\x01" + bytes(0x2000),
}


@pytest.mark.parametrize("said", HELD.values(), ids=HELD)
async def test_unfinished_heads_of_one_address_are_bounded_together(gateway_for, monkeypatch, said):
    monkeypatch.setattr(crowd_module, "PEER_BYTES", 200_000)
    gateway = await gateway_for()
    crowd = gateway.gateway.ports.listener.crowd
    other = await connect_from(gateway, "127.0.0.2")
    other.send(said)
    first = await connect_from(gateway, "127.0.0.1")
    first.send(said)
    for _ in range(30):
        (await connect_from(gateway, "127.0.0.1")).send(said)
    await first.eof()
    await eventually(lambda: 4 < len(crowd) < 15)
    assert not other.reader.at_eof()


# --- Streams -------------------------------------------------------------------------------------


async def test_health_is_answered_over_http2_when_all_streams_are_taken(gateway_for, monkeypatch):
    monkeypatch.setattr("partway.gateway.http.http2.connections.HTTP2_MAX_STREAMS_IN_ALL", 2)
    gateway = await gateway_for(trusted_proxies={"127.0.0.1"})
    async with await RawHttp2Client.connect(gateway.port) as client:
        client.start_reading()
        for _ in range(2):
            assert (await client.request(bidirectional_request()).head())[0] == 200
        refused = client.request(bidirectional_request())
        assert await refused.ended() == ("RST_STREAM(REFUSED_STREAM)",)
        for path in ("/healthz", "/metrics?all"):
            request = bidirectional_request(path=path, method="GET", content_type=None)
            assert (await client.request(request, end_stream=True).head())[0] == 200, path


async def test_one_address_has_half_of_the_http2_streams(gateway_for, monkeypatch):
    monkeypatch.setattr("partway.gateway.http.http2.connections.HTTP2_MAX_STREAMS_IN_ALL", 4)
    gateway = await gateway_for()
    async with await RawHttp2Client.connect(gateway.port) as client:
        client.start_reading()
        for _ in range(2):
            assert (await client.request(bidirectional_request()).head())[0] == 200
        refused = client.request(bidirectional_request())
        assert await refused.ended() == ("RST_STREAM(REFUSED_STREAM)",)


PRINCIPALS = f"""
[[principals]]
name = "chat"
[[principals.keys]]
access_key_id = "{KEY_ID}"
secret_access_key = "{SECRET}"
[[principals]]
name = "other"
[[principals.keys]]
access_key_id = "AKIAOTHER"
secret_access_key = "another-secret"
"""


async def test_a_principal_has_its_share_of_streams(gateway_for, tmp_path):
    file = tmp_path / "principals.toml"
    file.write_text(PRINCIPALS)
    file.chmod(0o600)
    gateway = await gateway_for(auth="sigv4", principals=file, max_streams=4)
    async with await RawHttp2Client.connect(gateway.port) as client:
        client.start_reading()

        def ask(**key: str):
            return client.request(EventSigning(**key).request(bidirectional_request()))

        first = ask()
        model = await gateway.container.stream()  # one by one: dials may overtake one another
        second = ask()
        for stream in (first, second):
            assert (await stream.head())[0] == 200
        refused = ask()
        status, headers = await refused.head()
        assert (status, headers["x-amzn-errortype"]) == (503, "ServiceUnavailableError")
        body = await refused.body()
        assert b"'chat' has 2 streams open" in body
        assert b"max_streams_per_principal" in body
        assert (await ask(key_id="AKIAOTHER", secret="another-secret").head())[0] == 200
        model.send(close(1000))
        await first.ended()
        await eventually(lambda: gateway.causes() != {})
        assert (await ask().head())[0] == 200
