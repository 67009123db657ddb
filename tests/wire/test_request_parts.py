"""Parts from a client become frames at the container (section 1.2)."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.protocol.limits import MAX_PART_BYTES
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, KEY, PING, TEXT, close, frame
from tests.wire.dialects import BIN, COMPLETE, PARTIAL, SIZES, UTF8, Part, pattern
from tests.wire.peers import MSGPACK, RAW, upgrade_request

#: What an event is, hangs on its bytes and its dialect; the loop decides nothing further.
pytestmark = pytest.mark.pairwise


def what(frames):
    """FIN, opcode and payload of frames."""
    return [(each.fin, each.opcode, each.payload) for each in frames]


@pytest.mark.clause("1.2-1")
@pytest.mark.parametrize("size", SIZES)
async def test_a_part_of_any_size_is_one_masked_frame(gateway_for, dialect, size):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    client.send(dialect.part(Part(pattern(size))), dialect.part(Part(b"next", UTF8)))
    first, second = await model.frames(2)
    assert (first.fin, first.opcode, first.masked) == (True, BINARY, True)
    assert first.payload == pattern(size)  # not in a tuple: a diff of 16 MiB helps nobody
    assert what([second]) == [(True, TEXT, b"next")]


@pytest.mark.clause("1.2-1")
async def test_parts_are_never_merged_even_if_they_come_in_one_read(gateway_for, dialect):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    payloads = [b"%d" % number for number in range(500)]
    client.send(dialect.parts(*map(Part, payloads)))
    assert what(await model.frames(500)) == [(True, BINARY, payload) for payload in payloads]


@pytest.mark.clause("1.2-1")
async def test_a_part_is_never_split_if_it_comes_byte_by_byte(gateway_for, dialect):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    for byte in dialect.part(Part(b"slow", UTF8)):
        client.send(bytes([byte]))
        await client.flush()
    client.send(dialect.part(Part(b"fast")))
    assert what(await model.frames(2)) == [(True, TEXT, b"slow"), (True, BINARY, b"fast")]


@pytest.mark.clause("1.2-1", "3-2")
async def test_parts_sent_behind_the_upgrade_request_are_not_lost(gateway_for, subprotocol):
    gateway = await gateway_for()
    client = await gateway.connect()
    early = subprotocol.parts(Part(b"a", UTF8, PARTIAL), Part(b"b", UTF8))
    await client.upgrade(upgrade_request(subprotocols=subprotocol.name) + early)
    model = await gateway.container.stream()
    assert what(await model.frames(2)) == [(False, TEXT, b"a"), (True, CONTINUATION, b"b")]


async def oversize(gateway_for, name, message):
    gateway = await gateway_for()
    client, model = await gateway.open(name)
    client.send(message)
    assert what(await model.frames(1)) == [
        (True, CLOSE, close(1009)[2:] + b"client fault: InputStreamError")
    ]
    assert gateway.causes() == {"client_fault": 1}
    return client


@pytest.mark.clause("1.2-1", "1.5-10")
async def test_a_part_of_one_byte_more_than_16_mib_ends_the_stream(gateway_for, envelope):
    message = envelope.part(Part(bytes(MAX_PART_BYTES + 1)))
    client = await oversize(gateway_for, envelope.name, message)
    end = await envelope.read(client)
    assert end.code == 1009
    assert end.event["ModelStreamError"]["ErrorCode"] == "InputStreamError"


@pytest.mark.clause("1.5-10")
async def test_an_oversized_frame_of_a_raw_client_is_refused_from_its_header(gateway_for):
    head = frame(BINARY, b"", announced=MAX_PART_BYTES + 1, mask=KEY)
    client = await oversize(gateway_for, RAW, head)
    assert (await client.frame()).close_code == 1009


# --- Types and states ----------------------------------------------------------------------------

MEMBERS = {
    "UTF8": ({"DataType": "UTF8"}, (True, TEXT)),
    "BINARY": ({"DataType": "BINARY"}, (True, BINARY)),
    "no DataType": ({}, (True, BINARY)),
    "COMPLETE": ({"CompletionState": "COMPLETE"}, (True, BINARY)),
    "PARTIAL": ({"CompletionState": "PARTIAL"}, (False, BINARY)),
    "padding": ({"P": "abcdefghijklmnop"}, (True, BINARY)),
    "all": (
        {"DataType": "UTF8", "CompletionState": "PARTIAL", "P": "a"},
        (False, TEXT),
    ),
}


@pytest.mark.clause("1.2-2", "1.2-3")
@pytest.mark.parametrize(("members", "expected"), MEMBERS.values(), ids=MEMBERS)
async def test_members_of_an_event_and_what_their_absence_means(
    gateway_for, events, members, expected
):
    gateway = await gateway_for()
    client, model = await gateway.open(events.name)
    client.send(events.event({"PayloadPart": {"Bytes": events.bytes_member(b"x"), **members}}))
    seen = await model.frame()
    assert (seen.fin, seen.opcode) == expected
    assert seen.payload == b"x"


@pytest.mark.clause("1.2-2")
async def test_padding_is_not_sent_back(gateway_for, events):
    gateway = await gateway_for()
    client, model = await gateway.open(events.name)
    client.send(events.event({"PayloadPart": {"Bytes": events.bytes_member(b"x"), "P": "pp"}}))
    model.send(frame(BINARY, (await model.frame()).payload))
    members = (await events.read_event(client))["PayloadPart"]
    assert sorted(members) == ["Bytes", "CompletionState", "DataType"]


SEQUENCES = {
    "lone": ([Part(b"a", UTF8)], [(True, TEXT, b"a")]),
    "two": (
        [Part(b"a", UTF8, PARTIAL), Part(b"b", UTF8)],
        [(False, TEXT, b"a"), (True, CONTINUATION, b"b")],
    ),
    "three": (
        [Part(b"a", BIN, PARTIAL), Part(b"b", BIN, PARTIAL), Part(b"c", BIN)],
        [(False, BINARY, b"a"), (False, CONTINUATION, b"b"), (True, CONTINUATION, b"c")],
    ),
    "message after message": (
        [Part(b"a", UTF8, PARTIAL), Part(b"b", UTF8), Part(b"c"), Part(b"d", BIN, PARTIAL)],
        [
            (False, TEXT, b"a"),
            (True, CONTINUATION, b"b"),
            (True, BINARY, b"c"),
            (False, BINARY, b"d"),
        ],
    ),
    "empty everywhere": (
        [Part(b"", UTF8, PARTIAL), Part(b"", UTF8, PARTIAL), Part(b"", UTF8), Part(b""), Part(b"")],
        [
            (False, TEXT, b""),
            (False, CONTINUATION, b""),
            (True, CONTINUATION, b""),
            (True, BINARY, b""),
            (True, BINARY, b""),
        ],
    ),
}


@pytest.mark.clause("1.2-3", "1.2-4")
@pytest.mark.parametrize(("parts", "expected"), SEQUENCES.values(), ids=SEQUENCES)
async def test_partial_and_complete_parts_become_fin_and_continuations(
    gateway_for, dialect, parts, expected
):
    gateway = await gateway_for(StreamPolicy(input_end="close"))
    client, model = await gateway.open(dialect.name)
    client.send(dialect.parts(*parts))
    assert what(await model.frames(len(expected))) == expected


@pytest.mark.clause("1.2-4")
@pytest.mark.parametrize(("first", "opcode"), [(UTF8, TEXT), (BIN, BINARY)], ids=["text", "binary"])
async def test_a_continuation_with_another_type_stays_in_its_message(
    gateway_for, events, first, opcode
):
    other = BIN if first == UTF8 else UTF8
    gateway = await gateway_for()
    client, model = await gateway.open(events.name)
    client.send(
        events.parts(
            Part(b"a", first, PARTIAL), Part(b"b", other, PARTIAL), Part(b"", other), Part(b"c")
        )
    )
    assert what(await model.frames(4)) == [
        (False, opcode, b"a"),
        (False, CONTINUATION, b"b"),
        (True, CONTINUATION, b""),
        (True, BINARY, b"c"),
    ]


@pytest.mark.clause("1.2-5")
async def test_a_code_point_may_be_split_across_parts(gateway_for, dialect):
    euro = "€".encode()
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    client.send(dialect.parts(Part(euro[:1], UTF8, PARTIAL), Part(euro[1:], UTF8)))
    assert what(await model.frames(2)) == [
        (False, TEXT, euro[:1]),
        (True, CONTINUATION, euro[1:]),
    ]


@pytest.mark.clause("1.2-5")
async def test_text_that_is_none_is_the_containers_to_refuse(gateway_for, dialect):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    client.send(dialect.part(Part(b"\xff\xc0", UTF8)))
    assert what([await model.frame()]) == [(True, TEXT, b"\xff\xc0")]
    model.send(close(1007, b"not UTF-8"))
    assert await dialect.read_end(client) == dialect.model_error("1007", "not UTF-8")
    assert gateway.causes() == {"model_error": 1}


# --- The connection ------------------------------------------------------------------------------


@pytest.mark.clause("1.2-6")
async def test_no_extension_is_offered_even_if_the_client_offers_one(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open(
        RAW, headers=["Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"]
    )
    assert b"extensions" not in model.request.lower()
    assert b"extensions" not in client.head.lower()
    client.send_frame(TEXT, b"a" * 100)  # as it is, were it agreed on or not
    assert what([await model.frame()]) == [(True, TEXT, b"a" * 100)]


@pytest.mark.clause("1.2-6")
async def test_a_compressed_frame_of_the_client_is_refused(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open(
        RAW, headers=["Sec-WebSocket-Extensions: permessage-deflate"]
    )
    client.send(frame(TEXT, b"\xf2\x48\xcd\xc9\xc9\x07\x00", rsv=4, mask=KEY))
    assert (await client.frame()).close_code == 1002
    assert (await model.frame()).close_code == 1008


async def test_each_frame_has_a_masking_key_of_its_own(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open(MSGPACK)
    part = frame(BINARY, b"\x81\xabPayloadPart\x81\xa5Bytes\xc4\x01x", mask=KEY)
    client.send(part * 64)
    seen = await model.frames(64)
    assert all(each.masked for each in seen)
    assert len({each.key for each in seen}) == 64


@pytest.mark.clause("1.2-7", "1.5-11")
async def test_input_that_ends_inside_a_message_is_given_no_fin(gateway_for, events):
    gateway = await gateway_for()
    client, model = await gateway.open(events.name)
    client.send(events.parts(Part(b"a", UTF8, PARTIAL)), events.end())
    assert what(await model.until_close()) == [(False, TEXT, b"a"), (True, CLOSE, b"\x03\xe8")]


@pytest.mark.clause("1.2-7", "3-2")
async def test_a_raw_client_that_closes_inside_a_message_makes_no_fin(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open(RAW)
    client.send_frame(TEXT, b"a", fin=False)
    client.send_close(1000)
    gone = b"\x03\xe9client finished"
    assert what(await model.until_close()) == [(False, TEXT, b"a"), (True, CLOSE, gone)]


async def test_a_clients_ping_between_its_fragments_disturbs_nothing(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open(RAW)
    client.send_frame(TEXT, b"a", fin=False)
    client.send_frame(PING, b"still there?")
    client.send_frame(CONTINUATION, b"b")
    assert what(await model.frames(2)) == [(False, TEXT, b"a"), (True, CONTINUATION, b"b")]
    assert (await client.frame()).payload == b"still there?"


@pytest.mark.clause("3-1")
async def test_fragments_of_an_envelope_are_one_event(gateway_for, envelope):
    message = envelope.encode({"PayloadPart": {"Bytes": envelope.bytes_member(b"whole")}})
    gateway = await gateway_for()
    client, model = await gateway.open(envelope.name)
    client.send_frame(envelope.opcode, message[:5], fin=False)
    client.send_frame(PING, b"")
    client.send_frame(CONTINUATION, b"", fin=False)
    client.send_frame(CONTINUATION, message[5:])
    client.send(envelope.part(Part(b"next", BIN, COMPLETE)))
    assert what(await model.frames(2)) == [(True, BINARY, b"whole"), (True, BINARY, b"next")]
