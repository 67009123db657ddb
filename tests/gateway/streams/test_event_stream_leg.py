"""The leg of an event-stream client on a duplex that does nothing by itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.http.duplex import Duplex, Parting
from partway.gateway.streams.ends import Cause
from partway.gateway.streams.event_stream_leg import EventStreamClientLeg
from partway.gateway.streams.session import Session
from partway.gateway.streams.states import SessionState
from partway.protocol.limits import MIB
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.websocket.close_codes import Close
from tests.event_factory import signed
from tests.gateway.streams.fakes import FakeClock, FakeContainerLeg
from tests.wire.event_messages import EventBuffer, part_event


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


class FakeDuplex(Duplex):
    """Writes down what is asked of it; delivers what the test says, while it is read."""

    def __init__(self, *, pingable: bool = True) -> None:
        self.pingable = pingable
        self.reading = False
        self.written: list[bytes] = []
        self.finished: tuple[bytes, bytes] | None = None
        self.aborted = False
        self.pings: list[bytes] = []

    def start(self, handler, *, high_water, low_water, call_later) -> None:
        self.handler = handler
        self.marks = high_water, low_water

    def write(self, event: bytes) -> None:
        self.written.append(event)

    def finish(self, last: bytes, otherwise: bytes) -> None:
        self.finished = last, otherwise

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def ping(self, payload: bytes) -> int:
        self.pings.append(payload)
        return 0

    def flushed(self, position: int) -> bool:
        return True

    @property
    def buffered_bytes(self) -> int:
        return 7

    @property
    def taken_bytes(self) -> int:
        return 11


class Connected:
    """A client, a session, and no container to speak of."""

    def __init__(self, check: Callable[..., str | None] | None = None, **policy) -> None:
        self.clock = FakeClock()
        self.duplex = FakeDuplex(pingable=policy.pop("pingable", True))
        self.container = FakeContainerLeg()
        policy = StreamPolicy(**policy)
        self.leg = EventStreamClientLeg(self.duplex, check, policy, self.clock)
        self.session = Session(
            endpoint="echo",
            request_id="r-1",
            client=self.leg,
            container=self.container,
            policy=policy,
            clock=self.clock,
            on_end=lambda _: None,
        )
        self.session.start()

    def send(self, *events: bytes) -> None:
        assert self.duplex.reading, "a duplex that is paused delivers nothing"
        self.duplex.handler.data_received(b"".join(events))

    @property
    def last_event(self):
        last, _ = self.duplex.finished
        buffer = EventBuffer()
        buffer.feed(last)
        return buffer.next()


def test_events_become_parts_and_parts_events():
    client = Connected()
    client.send(part_event(b"a", "UTF8", "PARTIAL"), part_event(b""))
    assert client.container.sent == [
        PayloadPart(b"a", DataType.UTF8, CompletionState.PARTIAL),
        PayloadPart(b"", DataType.BINARY, CompletionState.COMPLETE),
    ]
    client.session.part_from_container(PayloadPart(b"b", DataType.UTF8))
    (written,) = client.duplex.written
    buffer = EventBuffer()
    buffer.feed(written)
    assert buffer.next().payload == b"b"


@pytest.mark.clause("2.6-1")
def test_a_container_that_takes_nothing_pauses_in_the_middle_of_a_read():
    client = Connected()
    client.container.block_on_send = True
    client.send(part_event(b"1"), part_event(b"2"), part_event(b"3")[:20])
    assert [part.payload for part in client.container.sent] == [b"1"]
    assert not client.duplex.reading
    assert client.leg.buffered_bytes() == 7 + len(part_event(b"2")) + 20
    client.session.container_drained()
    assert [part.payload for part in client.container.sent] == [b"1", b"2"]
    assert client.duplex.reading
    client.send(part_event(b"3")[20:])
    assert [part.payload for part in client.container.sent] == [b"1", b"2", b"3"]


def test_what_is_held_is_delivered_before_anything_is_read():
    client = Connected()
    client.container.block_on_send = True
    client.send(part_event(b"1"), part_event(b"2"))
    client.container.block_on_send = True
    client.session.container_drained()
    assert [part.payload for part in client.container.sent] == [b"1", b"2"]
    assert not client.duplex.reading, "part 2 has filled the container's leg again"


@pytest.mark.clause("2.3-2")
def test_the_end_of_the_body_between_events_ends_the_input():
    client = Connected()
    client.send(part_event(b"1"))
    client.container.finishes_before_close = True
    client.duplex.handler.input_ended()
    assert client.container.closes == [Close(1000)]
    assert client.session.state is SessionState.CLOSING


@pytest.mark.clause("2.3-2")
@pytest.mark.parametrize("cut", [1, 12, -1])
def test_the_end_of_the_body_inside_an_event_is_a_cut(cut):
    client = Connected()
    client.send(part_event(b"whole"), part_event(b"1")[:cut])
    client.duplex.handler.input_ended()
    assert client.session.ending.cause is Cause.CLIENT_LOST
    assert client.duplex.aborted
    assert client.container.endings[0].container_close.code == 1001


@pytest.mark.clause("1.5-10", "2.4-4")
def test_nothing_after_an_event_that_does_not_fit_is_relayed():
    reasons = iter([None, "no fit"])
    client = Connected(check=lambda date, signature, payload: next(reasons))
    good, bad = (
        part_event(word, signed_by=lambda part: signed(part, 1_600_000_000_000, bytes(32)))
        for word in (b"good", b"bad")
    )
    client.send(good, bad, good)
    assert [part.payload for part in client.container.sent] == [b"good"]
    assert client.session.ending.cause is Cause.CLIENT_FAULT
    assert client.last_event.json["ErrorCode"] == "InvalidSignature"
    assert client.container.endings[0].container_close.code == 1008


@pytest.mark.clause("1.3-3", "1.5-10")
def test_a_part_that_is_too_large():
    client = Connected(max_part=100)
    client.send(part_event(bytes(100)), part_event(bytes(101)))
    assert [len(part.payload) for part in client.container.sent] == [100]
    assert client.last_event.json["ErrorCode"] == "InputStreamError"
    assert client.container.endings[0].container_close.code == 1009


def test_a_clean_end_has_no_last_event_and_a_word_for_who_does_not_take_it():
    client = Connected()
    client.duplex.handler.input_ended()
    client.session.container_closed(Close(1000))
    last, otherwise = client.duplex.finished
    assert last == b""
    buffer = EventBuffer()
    buffer.feed(otherwise)
    assert buffer.next().headers[":exception-type"] == "InternalStreamFailure"


def test_an_error_is_the_last_event_in_either_case():
    client = Connected()
    client.session.container_closed(Close(4321, "why"))
    last, otherwise = client.duplex.finished
    assert last == otherwise
    assert client.last_event.json == {"Message": "why", "ErrorCode": "4321"}


@pytest.mark.clause("1.4-4")
def test_a_client_that_answers_no_ping():
    client = Connected(http2_ping_interval=60, client_pings_unanswered=2)
    client.clock.advance(60)
    client.duplex.handler.pong_received(client.duplex.pings[0])
    client.clock.advance(179)
    assert len(client.duplex.pings) == 3
    assert client.session.ending is None
    client.clock.advance(1)
    assert client.session.ending.cause is Cause.CLIENT_UNRESPONSIVE
    assert client.duplex.aborted


@pytest.mark.clause("1.4-4")
def test_pings_go_on_while_the_client_is_not_read():
    """HTTP/2 is always read, so a pong is always seen."""
    client = Connected()
    client.session.container_blocked()
    client.clock.advance(60)
    assert len(client.duplex.pings) == 1


def test_who_cannot_be_pinged_is_not():
    client = Connected(pingable=False, lifetime=1000, stall_timeout=2000)
    client.clock.advance(999)
    assert client.duplex.pings == []
    assert client.session.ending is None


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        (Parting.IN_ORDER, Cause.CLIENT_FINISHED),
        (Parting.CANCELLED, Cause.CLIENT_CANCELLED),
        (Parting.LOST, Cause.CLIENT_LOST),
    ],
)
def test_a_client_that_leaves(how, cause):
    client = Connected()
    client.duplex.handler.connection_lost(how)
    if client.session.state is SessionState.CLOSING:
        client.session.container_closed(Close(1000))
    assert client.session.ending.cause is cause
    client.clock.advance(600)
    assert client.duplex.pings == []


def test_a_client_that_takes_nothing_pauses_the_container():
    client = Connected(high_water=2 * MIB, low_water=MIB)
    assert client.duplex.marks == (2 * MIB, MIB)
    client.duplex.handler.writing_paused()
    assert client.container.paused
    client.duplex.handler.writing_resumed()
    assert not client.container.paused
    assert client.leg.taken_bytes() == 11


def test_a_fault_of_ours_ends_the_one_stream(caplog):
    client = Connected()
    client.container.send = None  # not callable
    client.send(part_event(b"1"))
    assert client.session.ending.cause is Cause.GATEWAY_FAULT
    assert client.last_event.headers[":exception-type"] == "InternalStreamFailure"
