"""The container's leg on a transport that does nothing by itself; the client's leg is a fake."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.streams.container_leg import WebSocketContainerLeg, dial_container
from partway.gateway.streams.ends import Cause, ClientFault
from partway.gateway.streams.session import Session
from partway.gateway.streams.states import SessionState
from partway.protocol.connections.upgrading import Upgraded
from partway.protocol.errors import ContainerError
from partway.protocol.parts import CompletionState, DataType, ModelStreamError, PayloadPart
from partway.protocol.websocket.handshake import Accepted
from tests.frame_factory import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    close,
    frame,
    read_frames,
)
from tests.gateway.streams.fakes import FakeClientLeg, FakeClock, FakeTransport
from tests.wire.conftest import PATIENT
from tests.wire.event_dialect import EVENT_STREAMS
from tests.wire.peers import ENDPOINT, MSGPACK, STREAM_PATH, RawContainer, soon


def counter(number: int) -> bytes:
    return number.to_bytes(8, "big")


class Connected:
    """A container, a session, and no client to speak of."""

    def __init__(self, trailing: bytes = b"", **policy) -> None:
        self.clock = FakeClock()
        self.transport = FakeTransport()
        self.transport.paused = True  # as the dialling leaves it
        self.client = FakeClientLeg()
        policy = StreamPolicy(**policy)
        upgraded = Upgraded(self.transport, Accepted({}, None, trailing))
        self.leg = WebSocketContainerLeg(upgraded, policy, self.clock)
        self.ended: list[Session] = []
        self.session = Session(
            endpoint="echo",
            request_id="r-1",
            client=self.client,
            container=self.leg,
            policy=policy,
            clock=self.clock,
            on_end=self.ended.append,
        )
        self.session.start()

    def part_up(self, payload: bytes = b"", *, partial: bool = False) -> None:
        state = CompletionState.PARTIAL if partial else CompletionState.COMPLETE
        self.session.part_from_client(PayloadPart(payload, DataType.BINARY, state))

    def frames(self, *, skip: int = 0):
        frames, rest = read_frames(bytes(self.transport.written))
        assert rest == b""
        return frames[skip:]


def test_frames_behind_the_101_are_the_first_parts():
    container = Connected(frame(TEXT, b"Hel", fin=False) + frame(CONTINUATION, b"lo"))
    assert container.client.sent == [
        PayloadPart(b"Hel", DataType.UTF8, CompletionState.PARTIAL),
        PayloadPart(b"lo", DataType.UTF8, CompletionState.COMPLETE),
    ]
    assert not container.transport.paused


def test_a_close_behind_the_101_is_the_end():
    container = Connected(close(1011, b"no"))
    assert container.session.ending.error == ModelStreamError("1011", "no")
    assert [(seen.opcode, seen.close_code) for seen in container.frames()] == [(CLOSE, 1011)]
    assert len(container.ended) == 1


@pytest.mark.clause("1.2-3", "1.2-4")
def test_parts_become_masked_frames():
    container = Connected()
    for payload, partial in [(b"a", True), (b"", True), (b"b", False), (b"c", False)]:
        container.part_up(payload, partial=partial)
    assert [(seen.opcode, seen.payload, seen.fin, seen.masked) for seen in container.frames()] == [
        (BINARY, b"a", False, True),
        (CONTINUATION, b"", False, True),
        (CONTINUATION, b"b", True, True),
        (BINARY, b"c", True, True),
    ]


@pytest.mark.clause("1.4-3")
def test_pings_are_ponged_in_order():
    container = Connected()
    payloads = [b"", b"1", b"x" * 125]
    container.transport.deliver(b"".join(frame(PING, payload) for payload in payloads))
    assert [(seen.opcode, seen.payload) for seen in container.frames()] == [
        (PONG, payload) for payload in payloads
    ]


@pytest.mark.clause("1.4-3")
def test_pongs_owed_to_a_stalled_container_collapse_to_the_latest():
    container = Connected(high_water=1000, low_water=100)
    container.transport.stuck = True
    container.part_up(bytes(2000))
    for number in range(50):
        container.transport.deliver(frame(PING, counter(number)))
    assert container.client.paused
    container.transport.take(container.transport.unsent)
    assert [(seen.opcode, seen.payload) for seen in container.frames(skip=1)] == [
        (PONG, counter(49))
    ]
    assert not container.client.paused


def test_a_pong_that_fills_the_buffer_again_leaves_the_client_paused():
    """With both marks the same, the pong that is owed goes over them at once."""
    container = Connected(high_water=1000, low_water=1000)
    container.transport.stuck = True
    container.part_up(bytes(1000))
    container.transport.deliver(frame(PING, b"x" * 100))
    assert container.client.paused
    container.transport.take(container.transport.unsent - 1000)
    assert container.transport.unsent > 1000
    assert container.client.paused
    container.transport.take(container.transport.unsent)
    assert not container.client.paused


@pytest.mark.clause("1.4-1")
def test_a_silent_container_is_lost_after_five_pings():
    container = Connected()
    container.clock.advance(359.9)
    assert [(seen.opcode, seen.payload) for seen in container.frames()] == [
        (PING, counter(number)) for number in range(1, 6)
    ]
    container.transport.deliver(frame(BINARY, b"data is no pong"))
    container.clock.advance(0.1)
    assert container.session.ending.cause is Cause.CONTAINER_UNRESPONSIVE
    assert container.frames()[-1].close_code == 1011


@pytest.mark.clause("1.4-2")
def test_liveness_waits_while_the_client_does():
    container = Connected(stall_timeout=1e6)
    container.session.client_blocked()
    container.clock.advance(1000.0)
    assert container.transport.paused
    assert container.frames() == []
    container.session.client_drained()
    container.clock.advance(359.9)
    assert container.session.state is SessionState.RELAYING
    container.clock.advance(0.1)
    assert container.session.ending.cause is Cause.CONTAINER_UNRESPONSIVE


@pytest.mark.clause("1.4-2")
def test_a_ping_behind_unsent_data_is_the_stall_watchs_affair():
    """Little enough to be no back-pressure, and yet nothing moves."""
    container = Connected()
    container.transport.stuck = True
    container.part_up(b"a few bytes")
    assert not container.client.paused
    container.clock.advance(362.0 + 29.0)
    assert container.session.ending.cause is Cause.CONTAINER_STALLED


@pytest.mark.clause("1.4-2")
def test_closing_ends_the_watch_on_a_ping_that_waited():
    """Its client is slow but takes bytes; the container has been told all and has nothing to do."""
    container = Connected(input_end="close")
    container.transport.stuck = True
    container.part_up(b"a few bytes")
    container.clock.advance(62.0)
    container.session.client_blocked()
    container.session.input_ended()
    container.transport.take(container.transport.unsent)
    for _ in range(10):
        container.clock.advance(60.0)
        container.client.taken += 1
    assert container.session.state is SessionState.CLOSING
    container.session.client_drained()
    container.transport.deliver(close(1000))
    assert container.session.ending.cause is Cause.COMPLETED


@pytest.mark.clause("1.5-9", "1.5-13")
@pytest.mark.parametrize(
    "ends",
    [
        lambda session: session.client_gone(Cause.CLIENT_CANCELLED),
        lambda session: session.client_finished(),
        lambda session: session.client_failed(ClientFault("bad")),
        lambda session: session.drain(),
        lambda session: session._lifetime_over(),
    ],
    ids=["cancelled", "finished", "fault", "drain", "lifetime"],
)
def test_a_close_behind_our_close_is_an_end_of_tcp(ends):
    """The container knows that its input is over; that nobody waits for it any more is news."""
    container = Connected(input_end="close")
    container.session.input_ended()
    ends(container.session)
    assert container.transport.aborted
    assert [seen.close_code for seen in container.frames()] == [1000]


@pytest.mark.clause("1.5-12")
def test_a_container_that_has_answered_our_close_is_let_go_in_order():
    container = Connected(input_end="close")
    container.session.input_ended()
    container.transport.deliver(close(1000))
    assert container.session.ending.cause is Cause.COMPLETED
    assert not container.transport.aborted


def test_after_our_close_no_ping_and_no_part_follows():
    container = Connected()
    container.session.input_ended()
    container.transport.deliver(frame(PING, b"pointless"))
    container.clock.advance(9.0)
    assert [(seen.opcode, seen.close_code) for seen in container.frames()] == [(CLOSE, 1000)]


@pytest.mark.clause("1.5-12")
def test_after_our_close_nobody_waits_for_pongs():
    """Its time for a Close is its own, however short the pings' is."""
    container = Connected(ping_interval=1.0, pings_unanswered=2)
    container.session.input_ended()
    container.clock.advance(9.9)
    assert container.session.state is SessionState.CLOSING
    container.clock.advance(0.1)
    assert container.session.ending.cause is Cause.CONTAINER_CLOSE_TIMEOUT


@pytest.mark.clause("1.5-4")
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (frame(BINARY, b"x", mask=b"1234"), 1002),
        (frame(BINARY, b"x", rsv=4), 1002),
        (frame(3, b"x"), 1002),
        (frame(CONTINUATION, b"x"), 1002),
        (frame(BINARY, b"x", length_form=16), 1002),
        (close(1005), 1002),
        (close(1000, b"\xff"), 1007),
        (frame(BINARY, announced=1 << 40, length_form=64), 1009),
    ],
)
def test_who_breaks_the_rules_is_told_and_not_reset(bad, code):
    """Not close(): what it has not read from us yet would be erased by RST."""
    container = Connected()
    container.transport.deliver(bad)
    container_close = container.frames()[-1]
    assert (container_close.opcode, container_close.close_code) == (CLOSE, code)
    assert container.session.ending.error.code == str(code)
    assert container.transport.eof_written
    assert not container.transport.closing
    container.transport.deliver(frame(BINARY, b"whatever comes now"))
    assert container.client.sent == []
    container.clock.advance(5.0)
    assert container.transport.aborted


@pytest.mark.clause("1.5-13")
def test_a_close_that_cannot_be_written_becomes_an_abort():
    container = Connected()
    container.transport.stuck = True
    container.part_up(bytes(300_000))
    container.session.drain()
    container.clock.advance(4.9)
    assert not container.transport.aborted
    container.clock.advance(0.1)
    assert container.transport.aborted
    container.transport.lose()
    assert container.clock.armed == []


@pytest.mark.clause("1.5-13")
def test_what_still_moves_is_given_time():
    container = Connected()
    container.transport.stuck = True
    container.part_up(bytes(300_000))
    container.session.drain()
    for _ in range(5):
        container.transport.take(10_000)
        container.clock.advance(4.9)
    assert not container.transport.aborted


@pytest.mark.clause("1.5-3")
@pytest.mark.parametrize("error", [None, ConnectionResetError("reset")])
def test_an_end_without_a_close(error):
    container = Connected()
    container.transport.lose(error)
    assert container.session.ending.cause is Cause.CONTAINER_LOST
    assert container.clock.armed == []


def test_a_fault_of_ours_ends_this_stream_with_its_cause(monkeypatch, caplog):
    container = Connected()

    def fails(part):
        raise ZeroDivisionError

    monkeypatch.setattr(container.client, "send", fails)
    container.transport.deliver(frame(BINARY, b"x"))
    assert container.session.ending.cause is Cause.GATEWAY_FAULT
    assert container.frames()[-1].close_code == 1011
    assert "ZeroDivisionError" in caplog.text


pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.mark.parametrize("how", [MSGPACK, *EVENT_STREAMS])
async def test_each_stream_is_dialled_by_the_gateways_dialler(gateway_for, container, how):
    asked = []

    async def dialler(*stream):
        asked.append(stream)
        return await dial_container(*stream)

    gateway = await gateway_for(dialler=dialler)
    _, model = await gateway.open(how, STREAM_PATH)
    endpoint = Place(ENDPOINT, Address("127.0.0.1", container.port), PATIENT)
    request_id = model.header("x-amzn-sagemaker-request-id")
    assert asked == [(endpoint, "/invocations-bidirectional-stream", request_id)]


async def test_the_plain_one_goes_to_the_endpoints_container(container):
    endpoint = Place("model", Address("127.0.0.1", container.port), PATIENT)
    upgraded = await soon(dial_container(endpoint, "/v1/listen?a=1", "an-id"))
    model = await container.stream()
    assert model.target == "/v1/listen?a=1"
    assert model.header("x-amzn-sagemaker-request-id") == "an-id"
    upgraded.transport.abort()


async def test_the_plain_one_keeps_to_the_endpoints_times():
    async with RawContainer(lambda _: None) as silent:
        policy = StreamPolicy(connect_timeout=5, handshake_timeout=0.05)
        endpoint = Place("model", Address("127.0.0.1", silent.port), policy)
        with pytest.raises(ContainerError) as caught:
            await soon(dial_container(endpoint, "/", "id"))
    assert "no answer to the upgrade within 0.05 s" in caught.value.message
