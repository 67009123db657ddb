"""What strangers may cost, on the wire: their connections wait, and those of others go on."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter

import pytest
from hyperframe.frame import HeadersFrame

from partway.gateway.limits import STRANGER_CONNECTION, STRANGER_REQUEST
from tests.frame_factory import TEXT, frame
from tests.gateway.streams.fakes import FakeClock
from tests.wire.event_messages import part_event
from tests.wire.event_signing import EventSigning
from tests.wire.floods import Attacker
from tests.wire.http2_peers import RawHttp2Client
from tests.wire.http2_streams import bidirectional_request
from tests.wire.peers import STREAM_PATH, eventually
from tests.wire.test_authentication import PRINCIPALS, TOKEN
from tests.wire.test_http2_floods import METRICS, Attack

#: Requests that the budget of a test is for.
ENOUGH = 20
BURST = ENOUGH * STRANGER_REQUEST

HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
WRONG = (
    "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20260101/us-east-1/sagemaker/aws4_request, "
    f"SignedHeaders=host;x-amz-date, Signature={'0' * 64}"
)


def http1(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: a", *headers, "", ""]).encode()


@pytest.fixture
def clock(monkeypatch):
    """The strangers' clock, which only the test advances: till then nothing comes back."""
    clock = FakeClock()
    monkeypatch.setattr("partway.gateway.core.LoopClock", lambda: clock)
    monkeypatch.setattr("partway.gateway.http.unauthenticated_clients.STRANGER_BURST", BURST)
    return clock


@pytest.fixture
async def gateway(gateway_for, tmp_path, clock):
    principals = tmp_path / "principals.toml"
    principals.write_text(PRINCIPALS)
    principals.chmod(0o600)
    return await gateway_for(auth="sigv4", principals=principals, tls=True)


async def asks(gateway, clock, request) -> bool:
    """Ask on a new connection; whether it need not wait."""
    client = await gateway.connect()
    client.send(request)
    answer = asyncio.create_task(client.response())
    await eventually(lambda: answer.done() or clock.armed)
    answered = answer.done()
    answer.cancel()
    client.writer.close()
    await client.writer.wait_closed()
    return answered


async def overdraw(gateway, clock, request=b"") -> None:
    """Spend all that the address may cost, however many connections it takes."""
    for _ in range(ENOUGH + 1):
        if not await asks(gateway, clock, request or http1("/nowhere")):
            return
    raise AssertionError("nobody waits")


REFUSED = {
    "nobody's": http1(STREAM_PATH),
    "a wrong signature": http1(
        STREAM_PATH, f"Authorization: {WRONG}", "X-Amz-Date: 20260101T000000Z"
    ),
    "a wrong token": http1(STREAM_PATH, f"Authorization: Bearer {TOKEN}x"),
    "a refused upgrade": http1(STREAM_PATH, "Upgrade: websocket", "Connection: upgrade"),
    "an unknown path": http1("/nowhere"),
    "an unknown endpoint": http1("/endpoints/none/invocations-bidirectional-stream"),
    "a long path": http1("/" + 9000 * "x"),
    "no HTTP": b"\x01\x02\x03\r\n\r\n",
    "a status page": HEALTHZ,
}


@pytest.mark.parametrize("request_", REFUSED.values(), ids=REFUSED)
async def test_whatever_is_refused_draws_on_the_address(gateway, clock, request_):
    await overdraw(gateway, clock, request_)
    client = await gateway.connect()
    client.send(HEALTHZ)
    answer = asyncio.create_task(client.response())
    await eventually(lambda: clock.armed)
    assert not answer.done()
    clock.advance(60)
    assert (await answer).status == 200


async def test_a_kept_connection_closes_behind_its_last_refusal(gateway, clock):
    client = await gateway.connect()
    asked = 0
    for _ in range(ENOUGH + 1):
        asked += 1
        client.send(http1("/nowhere"))
        answer = await client.response()
        if answer.headers.get("connection", "").lower() == "close":
            break
    assert 2 < asked <= ENOUGH + 1
    assert await client.eof() == b""


async def flood(gateway, attacker: Attacker, count: int) -> Attack:
    client = await Attack.connect(gateway.port)
    client.others = Counter()
    client.start_reading()
    gateway.clients.append(client)
    attacker.encoder, attacker.last_id = client.encoder, -1
    signed = [("authorization", WRONG), ("x-amz-date", "20260101T000000Z")]
    for _ in range(count):
        client.send_bytes(attacker.request("GET", STREAM_PATH, *signed))
        await client.flush()
    return client


async def test_over_http2_a_connection_takes_no_more_requests_and_neighbours_go_on(gateway, clock):
    signing = EventSigning()
    friend = await RawHttp2Client.connect(gateway.port)
    friend.start_reading()
    gateway.clients.append(friend)
    stream = friend.request(signing.request(bidirectional_request()))
    model = await gateway.container.stream()
    await stream.head()

    client = await flood(gateway, Attacker(STREAM_PATH), 10 * ENOUGH)
    # Between its turns it waits.
    await eventually(lambda: clock.advance(0.01) or client.goaway is not None)
    assert await client.gone() == "GOAWAY(ENHANCE_YOUR_CALM)"
    answered = (client.goaway.last_stream_id + 1) // 2
    assert answered <= 3 * ENOUGH  # of ten times as many
    page = friend.request(METRICS, end_stream=True)
    await page.head()
    line = b'partway_connections_closed_to_new_streams_total{too_much="refused requests"} 1.0'
    assert line in await page.body()

    stream.send(part_event(b"up", "UTF8", signed_by=signing.event))
    assert (await model.frame()).payload == b"up"
    model.send(frame(TEXT, b"down"))
    assert (await stream.event()).payload == b"down"


async def test_who_has_shown_who_they_are_waits_for_nobody(gateway, clock):
    """A client with a right signature behind the same address waits once, and is not refused."""
    signing = EventSigning()
    friend = await RawHttp2Client.connect(gateway.port)
    friend.start_reading()
    gateway.clients.append(friend)
    await friend.request(signing.request(bidirectional_request())).head()
    await overdraw(gateway, clock)
    late = await RawHttp2Client.connect(gateway.port)
    late.start_reading()
    gateway.clients.append(late)
    waiting = late.request(EventSigning().request(bidirectional_request()))
    await eventually(lambda: clock.armed)
    await friend.request(EventSigning().request(bidirectional_request())).head()
    assert not waiting.ends
    for _ in range(3):  # its preface, its settings
        clock.advance(60)
    status, _ = await waiting.head()
    assert status == 200
    clock.advance(-1)
    await late.request(EventSigning().request(bidirectional_request())).head()


async def test_a_tls_handshake_waits_too(gateway, clock):
    context = ssl.create_default_context(cafile=gateway.ca)
    await overdraw(gateway, clock)
    opening = asyncio.create_task(
        asyncio.open_connection("localhost", gateway.tls_port, ssl=context)
    )
    await eventually(lambda: clock.armed)
    assert not opening.done()
    clock.advance(60)
    _, writer = await opening
    writer.transport.abort()


async def test_without_authentication_what_is_asked_in_vain_counts_too(gateway_for, clock):
    gateway = await gateway_for()
    await overdraw(gateway, clock, http1("/endpoints/none/invocations-bidirectional-stream"))


async def test_a_connection_that_says_nothing_draws_on_the_address(gateway, clock):
    for _ in range(round(BURST / STRANGER_CONNECTION) + 2):
        client = await gateway.connect()
        client.writer.close()
        await client.writer.wait_closed()
    await eventually(lambda: len(gateway.gateway.ports.listener.crowd) == 0)
    assert not await asks(gateway, clock, HEALTHZ)


@pytest.mark.parametrize("end", ["a request", "a fault"])
async def test_a_header_block_that_is_dear_to_read_is_drawn(gateway, clock, end):
    """References of a byte each take milliseconds, and no request need come of them."""
    client = await RawHttp2Client.connect(gateway.port)
    client.start_reading()
    gateway.clients.append(client)
    await client.ready()
    allowance = gateway.gateway.ports.listener.crowd._account_from("127.0.0.1")._address.allowance
    begun = bytes.fromhex("828684") + b"\x41\x01a" + b"\x40\x01a\x00" + b"\xbe" * 1900
    upper = b"\x40\x01A\x00" if end == "a fault" else b""
    client.send_bytes(HeadersFrame(1, begun + upper, flags=["END_HEADERS"]).serialize())
    # Seven requests' worth, where the head of one that is cheap to read is a fourteenth of it.
    await eventually(lambda: allowance._left < BURST - 7 * STRANGER_REQUEST)
