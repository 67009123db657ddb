"""Subprotocols of the WebSocket side (section 3): which is chosen, and what each one says."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from tests.frame_factory import BINARY, CONTINUATION, TEXT, close, frame
from tests.wire.dialects import CLEAN, PARTIAL, UTF8, End, Part
from tests.wire.origins import ORIGINS
from tests.wire.peers import JSON, MSGPACK, RAW, RawContainer, header, upgrade_request

# --- The choice ----------------------------------------------------------------------------------

CHOICES = {
    "raw": (RAW, RAW),
    "msgpack": (MSGPACK, MSGPACK),
    "json": (JSON, JSON),
    "the first known": (f"{MSGPACK}, {RAW}, {JSON}", MSGPACK),
    "the client's order": (f"{JSON},{MSGPACK}", JSON),
    "unknown ones before": (f"chat, payloadpart.v2.raw ,{RAW}", RAW),
    "none": (None, None),
    "an empty header": ("", None),
}


@pytest.mark.clause("3-1", "3-2")
@pytest.mark.parametrize(("offered", "chosen"), CHOICES.values(), ids=CHOICES)
async def test_the_first_known_subprotocol_wins(gateway_for, offered, chosen):
    gateway = await gateway_for()
    client, model = await gateway.open(offered)
    assert header(client.head, "Sec-WebSocket-Protocol") == chosen
    assert model.header("Sec-WebSocket-Protocol") is None


@pytest.mark.clause("3-2")
async def test_without_a_subprotocol_frames_are_parts(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open(None)
    client.send_frame(TEXT, b"a", fin=False)
    assert (await model.frame())[:2] == (False, TEXT)
    model.send(frame(BINARY, b"b"))
    assert await client.frame() == (True, BINARY, False, b"", b"b")


@pytest.mark.clause("3-1", "4-2")
@pytest.mark.parametrize("offered", ["chat", "payloadpart.v1", RAW.upper(), f"{RAW}x, x{JSON}"])
async def test_only_unknown_subprotocols_are_a_400(gateway_for, offered):
    gateway = await gateway_for()
    response = await gateway.request(upgrade_request(subprotocols=offered))
    assert response.status == 400
    assert response.headers["x-amzn-errortype"] == "InputValidationError"
    assert response.json["ErrorCode"] == "UnknownSubprotocol"
    assert gateway.container.connections == []


async def test_the_101_follows_the_containers(gateway_for):
    """As long as the container has not decided, the client has no answer: here it is a refusal."""
    async with RawContainer(lambda request: None) as container:
        gateway = await gateway_for(container=container)
        client = await gateway.connect()
        client.send(upgrade_request(subprotocols=RAW))
        model = await container.stream()
        model.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        assert (await client.response()).status == 424


# --- A conversation in each ----------------------------------------------------------------------


@pytest.mark.clause("3-1")
async def test_events_both_ways_then_the_end_of_input_then_the_rest(gateway_for, envelope):
    gateway = await gateway_for()
    client, model = await gateway.open(envelope.name)
    client.send(
        envelope.event({"PayloadPart": {"Bytes": envelope.bytes_member(b"Hello")}}),
        envelope.event({"InputEnd": {}}),
    )
    assert [each.payload for each in await model.until_close()] == [b"Hello", b"\x03\xe8"]
    model.send(frame(TEXT, b"re", fin=False), frame(CONTINUATION, b"st"), close(1000))
    assert [await envelope.read_event(client) for _ in range(2)] == [
        {
            "PayloadPart": {
                "Bytes": envelope.bytes_member(payload),
                "DataType": "UTF8",
                "CompletionState": state,
            }
        }
        for payload, state in [(b"re", "PARTIAL"), (b"st", "COMPLETE")]
    ]
    assert await envelope.read(client) == CLEAN
    client.send_close(1000)
    assert await client.eof() == b""


@pytest.mark.clause("3-1")
async def test_an_error_event_comes_before_its_close(gateway_for, envelope):
    gateway = await gateway_for()
    client, model = await gateway.open(envelope.name)
    model.send(close(4001, b"out of tokens"))
    assert await envelope.read_event(client) == {
        "ModelStreamError": {"ErrorCode": "4001", "Message": "out of tokens"}
    }
    assert await envelope.read(client) == End(None, 4424)


@pytest.mark.clause("3-1")
async def test_an_envelope_may_be_as_large_as_its_part_and_no_larger(gateway_for, envelope):
    """Fragments of an event are gathered up to the largest event, and not beyond."""
    gateway = await gateway_for()
    client, _ = await gateway.open(envelope.name)
    fragment = bytes(4 << 20)
    client.send_frame(envelope.opcode, fragment, fin=False)
    for _ in range(5):
        client.send_frame(CONTINUATION, fragment, fin=False)
    end = await envelope.read_end(client)
    assert end.code == 1009
    assert end.event["ModelStreamError"]["ErrorCode"] == "InputStreamError"


@pytest.mark.clause("3-1")
async def test_an_envelope_in_too_many_fragments_is_refused(gateway_for, envelope):
    gateway = await gateway_for()
    client, _ = await gateway.open(envelope.name)
    client.send_frame(envelope.opcode, b"", fin=False)
    client.send(*[frame(CONTINUATION, fin=False, mask=b"abcd")] * 2048)
    assert (await envelope.read_end(client)).code == 1009


@pytest.mark.clause("3-2")
async def test_a_raw_clients_frames_are_the_parts_and_the_containers_come_back(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open(RAW)
    sent = [(False, TEXT, b"a"), (False, CONTINUATION, b""), (True, CONTINUATION, b"c")]
    sent += [(True, BINARY, b"\x00"), (False, BINARY, b"open")]
    for fin, opcode, payload in sent:
        client.send_frame(opcode, payload, fin=fin)
        model.send(frame(opcode, payload, fin=fin))
    for end in (model, client):
        seen = await end.frames(5)
        assert [(each.fin, each.opcode, each.payload) for each in seen] == sent


REASONS = {
    "fits": ("x" * 118, "1011 " + "x" * 118),
    "one too long": ("x" * 119, "1011 " + "x" * 118),
    "code points": ("€" * 41, "1011 " + "€" * 39),  # 117 of 118 bytes: a 40th would be cut
    "four bytes each": ("x" + "😀" * 30, "1011 x" + "😀" * 29),
}


@pytest.mark.clause("3-2")
@pytest.mark.parametrize(("reason", "expected"), REASONS.values(), ids=REASONS)
async def test_a_raw_clients_error_is_cut_on_a_code_point(gateway_for, reason, expected):
    gateway = await gateway_for()
    client, model = await gateway.open(RAW)
    model.send(close(1011, reason.encode()))
    last = await client.frame()
    assert (last.close_code, last.close_reason) == (4424, expected)
    assert len(last.payload) <= 125


@pytest.mark.clause("3-2")
async def test_a_failure_of_the_platform_is_4500_to_a_raw_client(gateway_for, clock):
    gateway = await gateway_for(StreamPolicy(lifetime=1.0))
    client, _ = await gateway.open(RAW)
    clock.advance(1.0)
    last = await client.frame()
    assert last.close_code == 4500
    assert last.close_reason == "InternalStreamFailure the stream reached its lifetime of 1 s"


async def test_a_partial_message_survives_until_the_containers_next_frame(gateway_for, dialect):
    """Parts are relayed as they come: nothing waits for a message to be whole."""
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    for number in range(3):
        payload = b"%d" % number
        client.send(dialect.part(Part(payload, UTF8, PARTIAL)))
        assert (await model.frame()).payload == payload
        opcode = CONTINUATION if number else TEXT
        model.send(frame(opcode, payload, fin=False))
        assert await dialect.read(client) == Part(payload, UTF8, PARTIAL)


# --- Origins (clause 3-4) ------------------------------------------------------------------------


@pytest.mark.clause("3-4")
@pytest.mark.parametrize(("host", "origin", "allowed", "passes"), ORIGINS.values(), ids=ORIGINS)
async def test_cross_origin_upgrades_are_refused(gateway_for, host, origin, allowed, passes):
    gateway = await gateway_for(allow_origins=frozenset(allowed))
    request = upgrade_request(subprotocols=RAW, Host=host, Origin=origin)
    client = await gateway.connect()
    client.send(request)
    if passes:
        assert (await client.read_head()).startswith(b"HTTP/1.1 101 ")
    else:
        response = await client.response()
        assert response.status == 403
        assert response.headers["x-amzn-errortype"] == "AccessDeniedException"
        assert "Message" in response.json
        assert gateway.container.connections == []
