"""Pings, pongs and lifetimes (section 1.4), on a clock that the test advances."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from tests.frame_factory import BINARY, CLOSE, KEY, PING, PONG, TEXT, close, frame
from tests.wire.dialects import CLEAN, UTF8, Part, masked_pong
from tests.wire.peers import MSGPACK, RAW, eventually

NOBODY = 1e9  # an interval that never comes


def counter(number):
    return number.to_bytes(8, "big")


async def handled(model, client):
    """The gateway has taken what the container sent so far: a later part has come through."""
    model.send(frame(BINARY, b"barrier"))
    while b"barrier" not in (await client.frame()).payload:
        pass


def test_the_documented_times_are_the_defaults():
    policy = StreamPolicy()
    assert (policy.ping_interval, policy.pings_unanswered) == (60.0, 5)
    assert (policy.client_ping_interval, policy.client_pings_unanswered) == (25.0, 2)
    assert policy.http2_ping_interval == 60.0
    times = (policy.close_timeout, policy.drain_timeout, policy.answer_timeout)
    assert times == (10.0, 3.0, 60.0)
    assert (policy.stall_timeout, policy.lifetime) == (300.0, 1800.0)
    assert (policy.connect_timeout, policy.handshake_timeout) == (0.25, 60.0)


# --- The container -------------------------------------------------------------------------------


@pytest.mark.clause("1.4-1")
async def test_a_container_is_pinged_every_minute_with_a_counter(gateway_for, clock):
    gateway = await gateway_for(StreamPolicy(client_ping_interval=NOBODY))
    client, model = await gateway.open(RAW)
    for number in range(1, 11):
        clock.advance(59.9)
        client.send_frame(TEXT, b"between")  # the first frame in this minute
        assert (await model.frame()).payload == b"between"
        clock.advance(0.1)
        ping = await model.frame()
        assert ping == (True, PING, True, ping.key, counter(number))
        model.send(frame(PONG, ping.payload))
        await handled(model, client)
    assert gateway.causes() == {}


@pytest.mark.clause("1.4-1")
async def test_five_unanswered_pings_end_the_stream_one_interval_later(gateway_for, clock):
    gateway = await gateway_for(StreamPolicy(client_ping_interval=NOBODY))
    client, model = await gateway.open(MSGPACK)
    clock.advance(5 * 60 + 59.9)
    assert [each.payload for each in await model.frames(5)] == [counter(n) for n in range(1, 6)]
    model.send(frame(TEXT, b"alive, but no pong"))
    await handled(model, client)
    assert gateway.causes() == {}
    clock.advance(0.1)
    assert gateway.causes() == {"container_unresponsive": 1}
    assert (await model.frame()).close_code == 1011
    assert b"InternalStreamFailure" in (last := (await client.frame()).payload)
    assert b"the container answered none of 5 pings" in last


@pytest.mark.clause("1.4-1")
async def test_a_pong_answers_every_earlier_ping(gateway_for, clock):
    gateway = await gateway_for(StreamPolicy(client_ping_interval=NOBODY))
    client, model = await gateway.open(RAW)
    clock.advance(5 * 60)
    await model.frames(5)
    model.send(frame(PONG, counter(4)))  # leaves the fifth unanswered
    await handled(model, client)
    clock.advance(4 * 60 + 59.9)
    assert [each.payload for each in await model.frames(4)] == [counter(n) for n in range(6, 10)]
    assert gateway.causes() == {}
    clock.advance(0.1)
    assert gateway.causes() == {"container_unresponsive": 1}


NO_PONGS = {
    "data": frame(BINARY, counter(5)),
    "a ping": frame(PING, counter(5)),
    "a counter to come": frame(PONG, counter(6)),
    "counter zero": frame(PONG, counter(0)),
    "another payload": frame(PONG, b"hello"),
    "an empty payload": frame(PONG),
    "a shorter counter": frame(PONG, counter(5)[1:]),
}


@pytest.mark.clause("1.4-1")
@pytest.mark.parametrize("sent", NO_PONGS.values(), ids=NO_PONGS)
async def test_nothing_but_a_pong_to_one_of_ours_answers(gateway_for, clock, sent):
    gateway = await gateway_for(StreamPolicy(client_ping_interval=NOBODY))
    client, model = await gateway.open(RAW)
    clock.advance(5 * 60)
    model.send(sent)
    await handled(model, client)
    clock.advance(60)
    assert gateway.causes() == {"container_unresponsive": 1}


@pytest.mark.clause("1.4-1")
async def test_interval_and_number_of_pings_can_be_set(gateway_for):
    """On the real clock."""
    gateway = await gateway_for(StreamPolicy(ping_interval=0.02, pings_unanswered=2))
    _, model = await gateway.open(RAW)
    assert [each.opcode for each in await model.until_close()] == [PING, PING, CLOSE]
    assert gateway.causes() == {"container_unresponsive": 1}


@pytest.mark.clause("1.4-1")
async def test_no_ping_follows_a_close(gateway_for, envelope, clock):
    policy = StreamPolicy(client_ping_interval=NOBODY, answer_timeout=1000.0)
    gateway = await gateway_for(policy)
    client, model = await gateway.open(envelope.name)
    client.send(envelope.end())
    await model.until_close()
    clock.advance(900)
    model.send(close(1000))
    model.end()
    assert await model.eof() == b""
    assert await envelope.read(client) == CLEAN


@pytest.mark.clause("1.4-3")
async def test_pings_of_a_container_are_answered_in_order(gateway_for, dialect):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    payloads = [b"", b"1", bytes(125), b"\xff\x00", b"1"]
    model.send(*[frame(PING, payload) for payload in payloads])
    seen = await model.frames(len(payloads))
    assert [(each.opcode, each.masked, each.payload) for each in seen] == [
        (PONG, True, payload) for payload in payloads
    ]
    client.send(dialect.part(Part(b"on it goes", UTF8)))
    assert (await model.frame()).payload == b"on it goes"


@pytest.mark.clause("1.4-3")
async def test_pongs_owed_to_a_stalled_container_collapse_to_the_latest(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open(RAW)
    big = 12 << 20  # more than the sockets hold between them
    client.send_frame(BINARY, bytes(big))
    (session,) = gateway.gateway.streams.sessions
    await eventually(lambda: session.from_client.parts == 1)
    model.send(*[frame(PING, b"%d" % number) for number in range(200)])
    await handled(model, client)
    assert len((await model.frame()).payload) == big
    pong = await model.frame()
    assert (pong.opcode, pong.payload) == (PONG, b"199")
    model.send(frame(PING, b"next"))
    assert (await model.frame()).payload == b"next"


# --- The client ----------------------------------------------------------------------------------


@pytest.mark.clause("1.4-4")
async def test_a_client_is_pinged_every_25_s_and_gone_after_two_unanswered(
    gateway_for, subprotocol, clock
):
    gateway = await gateway_for(StreamPolicy(ping_interval=NOBODY))
    client, model = await gateway.open(subprotocol.name)
    clock.advance(25)
    ping = await client.frame()
    assert ping == (True, PING, False, b"", counter(1))
    client.send(masked_pong(ping.payload), subprotocol.part(Part(b"seen")))
    assert (await model.frame()).payload == b"seen"
    clock.advance(50)
    assert [each.payload for each in await client.frames(2)] == [counter(2), counter(3)]
    clock.advance(24.9)
    assert gateway.causes() == {}
    clock.advance(0.1)
    assert gateway.causes() == {"client_unresponsive": 1}
    assert (await model.frame()).close_code == 1001
    assert (await client.frame()).opcode == CLOSE


@pytest.mark.clause("1.4-4")
async def test_data_of_a_client_is_no_pong(gateway_for, subprotocol, clock):
    gateway = await gateway_for(StreamPolicy(ping_interval=NOBODY))
    client, model = await gateway.open(subprotocol.name)
    for _ in range(3):
        clock.advance(24.9)
        client.send(subprotocol.part(Part(b"talking")))
        assert (await model.frame()).payload == b"talking"
        assert gateway.causes() == {}
        clock.advance(0.1)
    assert gateway.causes() == {"client_unresponsive": 1}


async def test_pings_of_a_client_are_answered(gateway_for, subprotocol):
    gateway = await gateway_for()
    client, _ = await gateway.open(subprotocol.name)
    client.send(frame(PING, b"a", mask=KEY), frame(PING, b"", mask=KEY))
    seen = await client.frames(2)
    assert seen == [(True, PONG, False, b"", b"a"), (True, PONG, False, b"", b"")]


# --- Lifetime ------------------------------------------------------------------------------------


@pytest.mark.clause("1.4-5")
async def test_a_stream_lives_half_an_hour_at_most(gateway_for, clock):
    policy = StreamPolicy(ping_interval=NOBODY, client_ping_interval=NOBODY)
    gateway = await gateway_for(policy)
    client, model = await gateway.open(RAW)
    clock.advance(1799.9)
    client.send_frame(TEXT, b"busy")
    assert (await model.frame()).payload == b"busy"
    assert gateway.causes() == {}
    clock.advance(0.1)
    assert gateway.causes() == {"lifetime_over": 1}
    assert (await model.frame()).close_code == 1001
    last = await client.frame()
    assert last.close_reason == ("InternalStreamFailure the stream reached its lifetime of 1800 s")


@pytest.mark.clause("1.4-5")
async def test_a_lifetime_can_be_set(gateway_for):
    """On the real clock."""
    gateway = await gateway_for(StreamPolicy(lifetime=0.05))
    client, _ = await gateway.open(RAW)
    assert (await client.frame()).close_reason.endswith("its lifetime of 0.05 s")
    assert gateway.causes() == {"lifetime_over": 1}
