"""The client's leg on a transport that does nothing by itself; the container's leg is a fake."""

from __future__ import annotations

import base64
import json

import msgpack
import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.streams.client_leg import JSON, LEGS, MSGPACK, RAW
from partway.gateway.streams.ends import Cause
from partway.gateway.streams.session import Session
from partway.gateway.streams.states import SessionState
from partway.protocol.limits import (
    JSON_AT_ONCE,
    JSON_PIECE,
    MAX_ENVELOPE_BYTES,
    MAX_ENVELOPE_FRAGMENTS,
    MAX_PART_BYTES,
    MIB,
)
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.websocket.close_codes import Close
from partway.protocol.websocket.envelopes import JsonEnvelope
from tests.frame_factory import (
    BINARY,
    CLOSE,
    CONTINUATION,
    KEY,
    PING,
    PONG,
    TEXT,
    close,
    frame,
    read_frames,
)
from tests.gateway.streams.fakes import FakeClock, FakeContainerLeg, FakeTransport

#: Under the number of frames that a connection delivers in one turn of the loop.
BATCH = 60


class Connected:
    """A client of one subprotocol, a session, and no container to speak of."""

    def __init__(self, subprotocol: str, **policy) -> None:
        self.subprotocol = subprotocol
        self.clock = FakeClock()
        self.transport = FakeTransport()
        self.container = FakeContainerLeg()
        policy = StreamPolicy(**policy)
        self.leg = LEGS[subprotocol](
            lambda connection: connection.take_over(self.transport), policy, self.clock
        )
        self.ended: list[Session] = []
        self.session = Session(
            endpoint="echo",
            request_id="r-1",
            client=self.leg,
            container=self.container,
            policy=policy,
            clock=self.clock,
            on_end=self.ended.append,
        )
        self.session.start()

    def send(self, *pieces: bytes) -> None:
        self.transport.deliver(b"".join(pieces))

    def send_masked(self, opcode: int, payload: bytes = b"", *, fin: bool = True) -> None:
        self.send(frame(opcode, payload, fin=fin, mask=KEY))

    def send_in_fragments(self, opcode: int, fragments: list[bytes]) -> None:
        frames = [
            frame(
                CONTINUATION if number else opcode,
                fragment,
                fin=number == len(fragments) - 1,
                mask=KEY,
            )
            for number, fragment in enumerate(fragments)
        ]
        for start in range(0, len(frames), BATCH):
            if self.session.state is not SessionState.ENDED:
                self.send(*frames[start : start + BATCH])

    def frames(self):
        frames, rest = read_frames(bytes(self.transport.written))
        assert rest == b""
        return frames

    @property
    def last_close(self) -> int | None:
        assert self.frames()[-1].opcode == CLOSE
        return self.frames()[-1].close_code


def packed(event: dict) -> bytes:
    return msgpack.packb(event)


def part(payload: bytes) -> bytes:
    return packed({"PayloadPart": {"Bytes": payload}})


def events(client: Connected) -> list[dict]:
    return [msgpack.unpackb(seen.payload) for seen in client.frames() if seen.opcode == BINARY]


def ends_as_fault(client: Connected, code: int, container_code: int = 1008) -> None:
    """The client's Close says which fault, its error event names it, the container learns it."""
    assert client.session.ending.cause is Cause.CLIENT_FAULT
    assert client.last_close == code
    assert client.container.endings[0].container_close.code == container_code
    assert client.session.buffered_bytes == client.transport.unsent


# --- Messages in fragments -----------------------------------------------------------------------


@pytest.mark.clause("3-1")
@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_a_fragmented_envelope_is_one_event(size):
    client = Connected(MSGPACK)
    message = part(b"some bytes of a part")
    pieces = [message[at : at + size] for at in range(0, len(message), size)]
    client.send_in_fragments(BINARY, pieces)
    client.send_masked(BINARY, part(b"next"))
    assert [sent.payload for sent in client.container.sent] == [b"some bytes of a part", b"next"]
    assert client.leg.buffered_bytes() == 0


def test_what_has_come_of_an_envelope_counts_as_held():
    client = Connected(MSGPACK)
    client.send_masked(BINARY, b"x" * 1000, fin=False)
    client.send_masked(CONTINUATION, b"x" * 500, fin=False)
    assert client.session.buffered_bytes == 1500


def test_a_control_frame_between_fragments_is_no_fragment():
    client = Connected(MSGPACK)
    message = part(b"whole")
    client.send_masked(BINARY, message[:5], fin=False)
    client.send_masked(PING, b"still there?")
    client.send_masked(CONTINUATION, message[5:])
    assert [sent.payload for sent in client.container.sent] == [b"whole"]
    assert [(seen.opcode, seen.payload) for seen in client.frames()] == [(PONG, b"still there?")]


def test_as_many_fragments_as_allowed():
    client = Connected(MSGPACK)
    message = part(b"p" * MAX_ENVELOPE_FRAGMENTS)
    head, tail = message[: 1 - MAX_ENVELOPE_FRAGMENTS], message[1 - MAX_ENVELOPE_FRAGMENTS :]
    client.send_in_fragments(BINARY, [head, *(bytes([byte]) for byte in tail)])
    assert [len(sent.payload) for sent in client.container.sent] == [MAX_ENVELOPE_FRAGMENTS]


@pytest.mark.parametrize("fragment", [b"", b"x"], ids=["empty", "of a byte"])
def test_one_fragment_more_is_too_many(fragment):
    client = Connected(MSGPACK)
    client.send_in_fragments(BINARY, [fragment] * (MAX_ENVELOPE_FRAGMENTS + 2))
    ends_as_fault(client, 1009, container_code=1009)
    assert client.container.sent == []


def test_an_envelope_is_bounded_over_all_its_fragments():
    client = Connected(MSGPACK)
    fragment = frame(CONTINUATION, bytes(MIB), fin=False, mask=bytes(4))
    client.send_masked(BINARY, b"", fin=False)
    for _ in range(MAX_ENVELOPE_BYTES // MIB):
        client.send(fragment)
    assert client.session.state is SessionState.RELAYING
    assert client.session.buffered_bytes <= MAX_ENVELOPE_BYTES
    client.send(fragment)
    ends_as_fault(client, 1009, container_code=1009)


def test_the_largest_part_fits_either_envelope():
    payload = bytes(MAX_PART_BYTES)
    client = Connected(MSGPACK)
    client.send(frame(BINARY, part(payload), mask=bytes(4)))
    assert [len(sent.payload) for sent in client.container.sent] == [MAX_PART_BYTES]
    client = Connected(JSON)
    encoded = base64.b64encode(payload).decode()
    message = json.dumps({"PayloadPart": {"Bytes": encoded}}).encode()
    client.send(frame(TEXT, message, mask=bytes(4)))
    client.clock.advance(0)
    assert [len(sent.payload) for sent in client.container.sent] == [MAX_PART_BYTES]


def test_a_part_is_bounded_inside_an_envelope_that_is_not():
    client = Connected(MSGPACK, max_part=1000)
    client.send_masked(BINARY, part(bytes(1000)))
    client.send_masked(BINARY, part(bytes(1001)))
    assert [len(sent.payload) for sent in client.container.sent] == [1000]
    ends_as_fault(client, 1009, container_code=1009)


# --- What is no event of a client's --------------------------------------------------------------


@pytest.mark.clause("3-1", "1.5-10")
@pytest.mark.parametrize(
    ("subprotocol", "opcode"), [(MSGPACK, TEXT), (JSON, BINARY)], ids=["msgpack", "json"]
)
@pytest.mark.parametrize("fin", [True, False])
def test_the_wrong_opcode(subprotocol, opcode, fin):
    client = Connected(subprotocol)
    client.send_masked(opcode, b"{}", fin=fin)
    ends_as_fault(client, 1003)


@pytest.mark.clause("3-1", "1.5-10")
@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xc1",  # no msgpack
        packed({}),
        packed([]),
        packed({"PayloadPart": {"Bytes": "text"}}),
        packed({"PayloadPart": {"Bytes": b"", "DataType": "utf8"}}),
        packed({"PayloadPart": {"Bytes": b"", "CompletionState": "DONE"}}),
        packed({"PayloadPart": {}, "InputEnd": {}}),
        packed({"Hello": {}}),
        packed({"ModelStreamError": {"ErrorCode": "1000", "Message": "mine"}}),
        packed({"InternalStreamFailure": {"Message": "mine"}}),
        part(b"behind it comes") + b"more",
    ],
)
def test_a_bad_envelope(message):
    client = Connected(MSGPACK)
    client.send_masked(BINARY, part(b"good"))
    client.send_masked(BINARY, message)
    client.send_masked(BINARY, part(b"after"))
    assert [sent.payload for sent in client.container.sent] == [b"good"]
    ends_as_fault(client, 1007)
    (event,) = events(client)
    assert event["ModelStreamError"]["ErrorCode"] == "InputStreamError"


@pytest.mark.parametrize("subprotocol", LEGS)
def test_a_breach_of_rfc_6455(subprotocol):
    client = Connected(subprotocol)
    client.send(frame(BINARY, b"not masked"))
    ends_as_fault(client, 1002)


# --- Ends ----------------------------------------------------------------------------------------


@pytest.mark.clause("3-1", "1.5-12")
def test_input_end_ends_the_input_and_nothing_may_follow():
    client = Connected(MSGPACK)
    client.send_masked(BINARY, packed({"InputEnd": {}}))
    assert client.container.closes == [Close(1000)]
    client.session.part_from_container(PayloadPart(b"tail"))
    assert events(client) == [
        {"PayloadPart": {"Bytes": b"tail", "DataType": "BINARY", "CompletionState": "COMPLETE"}}
    ]
    client.send_masked(BINARY, packed({"InputEnd": {}}))  # said twice, ended once
    assert client.session.state is SessionState.CLOSING
    client.send_masked(BINARY, part(b"more"))
    assert client.session.ending.cause is Cause.CLIENT_FAULT
    assert client.container.sent == []


@pytest.mark.clause("3-2")
@pytest.mark.parametrize("code", [None, 1000])
def test_a_raw_client_that_closes_has_given_up_the_response(code):
    client = Connected(RAW)
    client.send_masked(BINARY, b"a question")
    client.send(close(code, mask=KEY))
    assert client.session.ending.cause is Cause.CLIENT_FINISHED
    assert [each.container_close for each in client.container.endings] == [
        Close(1001, "client finished")
    ]
    assert [seen.close_code for seen in client.frames()] == [code]
    assert client.transport.closing
    client.session.part_from_container(PayloadPart(b"to nobody"))
    client.transport.lose()
    assert len(client.frames()) == 1
    assert client.clock.armed == []


@pytest.mark.clause("3-2", "1.5-9")
@pytest.mark.parametrize("subprotocol", LEGS)
def test_any_other_close_is_a_cancel(subprotocol):
    client = Connected(subprotocol)
    client.send(close(1001, mask=KEY))
    assert client.session.ending.cause is Cause.CLIENT_CANCELLED
    assert [seen.close_code for seen in client.frames()] == [1001]
    assert client.transport.closing


@pytest.mark.clause("3-1")
@pytest.mark.parametrize("subprotocol", [MSGPACK, JSON])
@pytest.mark.parametrize("code", [None, 1000])
def test_a_client_that_leaves_in_good_order_has_finished(subprotocol, code):
    client = Connected(subprotocol)
    client.send(close(code, mask=KEY))
    assert [seen.close_code for seen in client.frames()] == [code]
    assert client.transport.closing
    client.session.container_closed(Close(1000))
    assert client.session.ending.cause is Cause.CLIENT_FINISHED
    client.transport.lose()
    assert len(client.frames()) == 1


@pytest.mark.clause("1.5-9")
@pytest.mark.parametrize("subprotocol", LEGS)
def test_a_lost_connection_is_no_close(subprotocol):
    client = Connected(subprotocol)
    client.transport.lose()
    assert client.session.ending.cause is Cause.CLIENT_LOST
    assert client.clock.armed == []


@pytest.mark.parametrize("subprotocol", LEGS)
def test_a_fault_of_ours_ends_this_stream_with_its_cause(subprotocol, monkeypatch, caplog):
    client = Connected(subprotocol)

    def fails(part):
        raise ZeroDivisionError

    monkeypatch.setattr(client.container, "send", fails)
    client.send(
        frame(TEXT, b'{"PayloadPart": {}}', mask=KEY)
        if subprotocol == JSON
        else frame(BINARY, part(b""), mask=KEY)
    )
    assert client.session.ending.cause is Cause.GATEWAY_FAULT
    assert client.last_close == 4500
    assert "ZeroDivisionError" in caplog.text
    assert not client.transport.aborted


# --- Parts down ----------------------------------------------------------------------------------


@pytest.mark.clause("1.3-1")
def test_raw_frames_come_back_as_they_are():
    client = Connected(RAW)
    for payload, data_type, completion in [
        (b"a", DataType.UTF8, CompletionState.PARTIAL),
        (b"", DataType.UTF8, CompletionState.COMPLETE),
        (b"b", DataType.BINARY, CompletionState.COMPLETE),
    ]:
        client.session.part_from_container(PayloadPart(payload, data_type, completion))
    assert [(seen.opcode, seen.payload, seen.fin) for seen in client.frames()] == [
        (TEXT, b"a", False),
        (CONTINUATION, b"", True),
        (BINARY, b"b", True),
    ]
    assert not any(seen.masked for seen in client.frames())


# --- Large parts in JSON --------------------------------------------------------------------------

#: Of no other length than its own, in any piece.
LARGE = bytes(range(256)) * 4096 + b"!"


def in_json(payload: bytes) -> bytes:
    return json.dumps({"PayloadPart": {"Bytes": base64.b64encode(payload).decode()}}).encode()


def turns(client: Connected) -> int:
    """Let the loop turn until nothing is left to do at once; returns how often it has turned."""
    for number in range(1000):
        due = [timer for timer in client.clock.armed if timer.due <= client.clock.now]
        if not due:
            return number
        for timer in due:
            timer.cancel()
            timer.callback()
    raise AssertionError("it never rests")


def said(client: Connected) -> list[bytes]:
    """The whole messages that the client was sent."""
    found, message = [], b""
    for seen in client.frames():
        if seen.opcode in (TEXT, CONTINUATION):
            assert (seen.opcode == CONTINUATION) is bool(message)
            message += seen.payload
            if seen.fin:
                found.append(message)
                message = b""
    assert message == b""
    return found


@pytest.mark.clause("3-1")
def test_large_envelopes_are_read_in_turns_with_others_and_in_their_order():
    client = Connected(JSON)
    client.send(
        frame(TEXT, in_json(b"first"), mask=KEY),
        frame(TEXT, in_json(LARGE), mask=KEY),
        frame(TEXT, in_json(b"third"), mask=KEY),
        frame(TEXT, in_json(LARGE[1:]), mask=KEY),
        frame(TEXT, b'{"InputEnd": {}}', mask=KEY),
    )
    assert [part.payload for part in client.container.sent] == [b"first"]
    assert client.transport.paused
    assert client.session.buffered_bytes > len(in_json(LARGE))
    assert turns(client) > 2 * len(LARGE) // JSON_PIECE
    sent = [part.payload for part in client.container.sent]
    assert sent == [b"first", LARGE, b"third", LARGE[1:]]
    assert client.session.state is SessionState.AWAITING
    assert not client.transport.paused
    assert client.session.buffered_bytes == 0


def test_a_small_envelope_is_read_at_once():
    client = Connected(JSON)
    client.send_masked(TEXT, in_json(LARGE[: JSON_AT_ONCE // 2]))
    assert len(client.container.sent) == 1
    assert turns(client) == 0


@pytest.mark.parametrize("message", [in_json(LARGE)[:-3] + b'"}', in_json(LARGE)[:-2]])
def test_a_large_envelope_that_is_bad(message):
    client = Connected(JSON)
    client.send_masked(TEXT, message)
    assert client.session.state is SessionState.RELAYING
    turns(client)
    assert client.container.sent == []
    ends_as_fault(client, 1007)


def test_a_large_part_that_is_too_large():
    client = Connected(JSON, max_part=len(LARGE) - 1)
    client.send_masked(TEXT, in_json(LARGE))
    turns(client)
    ends_as_fault(client, 1009, 1009)


def test_a_container_that_takes_nothing_meanwhile_holds_what_follows():
    client = Connected(JSON)
    client.send(frame(TEXT, in_json(LARGE), mask=KEY), frame(TEXT, in_json(b"next"), mask=KEY))
    client.session.container_blocked()
    turns(client)
    assert [part.payload for part in client.container.sent] == [LARGE]
    assert client.transport.paused
    client.session.container_drained()
    assert [part.payload for part in client.container.sent] == [LARGE, b"next"]


def test_a_container_that_is_ready_again_meanwhile_does_not_let_others_past():
    client = Connected(JSON)
    client.send(frame(TEXT, in_json(LARGE), mask=KEY), frame(TEXT, in_json(b"next"), mask=KEY))
    client.session.container_blocked()
    client.session.container_drained()
    assert client.container.sent == []
    turns(client)
    assert [part.payload for part in client.container.sent] == [LARGE, b"next"]


@pytest.mark.parametrize("how", ["the client is lost", "the gateway drains"])
def test_a_stream_that_ends_while_an_envelope_is_read(how):
    client = Connected(JSON)
    client.send_masked(TEXT, in_json(LARGE))
    if how == "the gateway drains":
        client.session.drain()
    else:
        client.transport.lose()
    assert turns(client) == 0
    assert client.container.sent == []
    assert client.session.buffered_bytes == client.transport.unsent


@pytest.mark.clause("3-1")
def test_a_large_part_is_sent_in_turns_with_others_as_one_message():
    client = Connected(JSON)
    parts = [PayloadPart(LARGE, DataType.UTF8, CompletionState.PARTIAL), PayloadPart(b"next")]
    for part in parts:
        client.container.arrive(lambda part=part: client.session.part_from_container(part))
    assert client.frames() == []
    assert client.session.buffered_bytes == len(LARGE)
    assert turns(client) > len(LARGE) // JSON_PIECE
    assert said(client) == [JsonEnvelope.encode(part) for part in parts]
    assert not client.container.paused


def test_a_client_that_takes_nothing_is_sent_no_more_than_the_high_water_mark():
    client = Connected(JSON)
    client.transport.stuck = True
    part = PayloadPart(LARGE * 8)
    client.container.arrive(lambda: client.session.part_from_container(part))
    turns(client)
    assert 0 < client.transport.unsent < 2 * client.session.policy.high_water
    assert client.container.paused
    while client.container.paused:
        client.transport.take(client.transport.unsent)
        turns(client)
    assert said(client) == [JsonEnvelope.encode(part)]


@pytest.mark.parametrize("takes", [True, False])
def test_a_stream_that_ends_while_a_part_is_sent_says_so_behind_it(takes):
    client = Connected(JSON)
    client.transport.stuck = not takes
    part = PayloadPart(LARGE)
    client.container.arrive(lambda: client.session.part_from_container(part))
    if not takes:
        turns(client)
        assert client.transport.unsent < len(LARGE)
    client.session.container_lost()
    turns(client)
    message, error = said(client)
    assert message == JsonEnvelope.encode(part)
    assert json.loads(error)["ModelStreamError"]["ErrorCode"] == "1006"
    assert client.last_close == 4424
    assert client.session.buffered_bytes == client.transport.unsent


def test_a_client_that_is_lost_while_a_part_is_sent():
    client = Connected(JSON)
    client.container.arrive(lambda: client.session.part_from_container(PayloadPart(LARGE)))
    client.transport.lose()
    assert turns(client) == 0
    assert client.session.ending.cause is Cause.CLIENT_LOST
    assert client.session.buffered_bytes == 0


@pytest.mark.parametrize("way", ["decoding", "pieces"])
def test_a_fault_of_ours_in_a_later_turn_ends_this_stream(way, monkeypatch):
    def fails(_: object):
        yield b"", False
        raise KeyError("ours")

    monkeypatch.setattr(JsonEnvelope, way, staticmethod(fails))
    client = Connected(JSON)
    if way == "decoding":
        client.send_masked(TEXT, in_json(LARGE))
    else:
        client.container.arrive(lambda: client.session.part_from_container(PayloadPart(LARGE)))
    turns(client)
    assert client.session.ending.cause is Cause.GATEWAY_FAULT


# --- Liveness ------------------------------------------------------------------------------------


@pytest.mark.clause("1.4-4")
@pytest.mark.parametrize("subprotocol", LEGS)
def test_a_silent_client_is_gone_after_two_pings(subprotocol):
    client = Connected(subprotocol)
    client.clock.advance(74.9)
    assert [(seen.opcode, seen.payload) for seen in client.frames()] == [
        (PING, (1).to_bytes(8, "big")),
        (PING, (2).to_bytes(8, "big")),
    ]
    assert client.session.state is SessionState.RELAYING
    client.clock.advance(0.1)
    assert client.session.ending.cause is Cause.CLIENT_UNRESPONSIVE
    assert client.last_close == 1000


@pytest.mark.clause("1.4-4")
def test_a_client_that_answers_stays():
    client = Connected(RAW, lifetime=1e6)
    for number in range(1, 20):
        client.clock.advance(25.0)
        client.send_masked(PONG, number.to_bytes(8, "big"))
    assert client.session.state is SessionState.RELAYING


@pytest.mark.clause("1.4-2", "1.4-4")
def test_a_client_that_is_not_read_is_not_expected_to_answer():
    client = Connected(RAW, lifetime=1e6, stall_timeout=1e6)
    client.session.container_blocked()
    client.clock.advance(1000.0)
    assert client.session.state is SessionState.RELAYING
    assert client.frames() == []
    assert client.transport.paused
    client.session.container_drained()
    assert not client.transport.paused
    client.clock.advance(25.0)
    assert [seen.opcode for seen in client.frames()] == [PING]
