"""Frames of a container become parts at the client (section 1.3)."""

from __future__ import annotations

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.protocol.limits import MAX_PART_BYTES, MIB
from tests.frame_factory import (
    BINARY,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    RawFrame,
    close,
    frame,
)
from tests.wire.dialects import BIN, COMPLETE, PARTIAL, SIZES, UTF8, Part, pattern
from tests.wire.peers import (
    MSGPACK,
    RAW,
    STREAM_PATH,
    RawContainer,
    soon,
    switching,
    upgrade_request,
)

#: What becomes of a frame, hangs on its bytes and the dialect; the loop decides nothing further.
pytestmark = pytest.mark.pairwise

MESSAGES = {
    "text": ([frame(TEXT, b"a")], [Part(b"a", UTF8)]),
    "binary": ([frame(BINARY, b"a")], [Part(b"a", BIN)]),
    "text in fragments": (
        [frame(TEXT, b"a", fin=False), frame(CONTINUATION, b"b", fin=False), frame(CONTINUATION)],
        [Part(b"a", UTF8, PARTIAL), Part(b"b", UTF8, PARTIAL), Part(b"", UTF8, COMPLETE)],
    ),
    "binary in fragments": (
        [frame(BINARY, b"", fin=False), frame(CONTINUATION, b"b")],
        [Part(b"", BIN, PARTIAL), Part(b"b", BIN, COMPLETE)],
    ),
    "one after the other": (
        [frame(TEXT, b"a", fin=False), frame(CONTINUATION, b"b"), frame(BINARY), frame(TEXT)],
        [Part(b"a", UTF8, PARTIAL), Part(b"b", UTF8), Part(b"", BIN), Part(b"", UTF8)],
    ),
    "half a code point": (
        [frame(TEXT, b"\xe2", fin=False), frame(CONTINUATION, b"\x82\xac")],
        [Part(b"\xe2", UTF8, PARTIAL), Part(b"\x82\xac", UTF8)],
    ),
    "text that is none": ([frame(TEXT, b"\xff\x00")], [Part(b"\xff\x00", UTF8)]),
}


@pytest.mark.clause("1.3-1", "1.2-5")
@pytest.mark.parametrize(("sent", "expected"), MESSAGES.values(), ids=MESSAGES)
async def test_one_frame_is_one_part(gateway_for, dialect, sent, expected):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    model.send(*sent)
    assert [await dialect.read(client) for _ in expected] == expected


@pytest.mark.clause("1.3-1", "3-2")
async def test_a_raw_client_gets_the_containers_bytes_as_they_are(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open(RAW)
    sent = b"".join(piece for pieces, _ in MESSAGES.values() for piece in pieces)
    model.send(sent)
    assert await soon(client.reader.readexactly(len(sent))) == sent


@pytest.mark.clause("1.3-1", "1.3-3")
@pytest.mark.parametrize("size", SIZES)
async def test_a_frame_of_any_size_up_to_16_mib_is_one_part(gateway_for, dialect, size):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    model.send(frame(TEXT, pattern(size)), frame(BINARY, b"next"))
    seen = await dialect.read(client)
    assert (seen.data_type, seen.state) == (UTF8, COMPLETE)
    assert seen.payload == pattern(size)  # not in a tuple: a diff of 16 MiB helps nobody
    assert await dialect.read(client) == Part(b"next")


@pytest.mark.clause("1.3-1")
async def test_frames_that_come_byte_by_byte_are_the_same_parts(gateway_for, dialect):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    sent = frame(TEXT, b"a", fin=False) + frame(PING, b"p") + frame(CONTINUATION, bytes(130))
    for byte in sent:
        model.send(bytes([byte]))
        await model.flush()
    assert await dialect.read(client) == Part(b"a", UTF8, PARTIAL)
    assert await dialect.read(client) == Part(bytes(130), UTF8)


@pytest.mark.clause("1.3-1")
async def test_frames_behind_the_101_are_not_lost(gateway_for, dialect):
    early = frame(TEXT, b"a", fin=False) + frame(CONTINUATION, b"b")
    async with RawContainer(lambda request: switching(request) + early) as container:
        gateway = await gateway_for(container=container)
        client, _ = await gateway.open(dialect.name)
        assert await dialect.read(client) == Part(b"a", UTF8, PARTIAL)
        assert await dialect.read(client) == Part(b"b", UTF8)


@pytest.mark.clause("1.3-1", "1.5-1")
async def test_a_whole_short_stream_behind_the_101_is_not_lost(gateway_for, dialect):
    early = frame(TEXT, b"all of it") + close(1011, b"and no more")
    async with RawContainer(lambda request: switching(request) + early) as container:
        gateway = await gateway_for(container=container)
        client, model = await gateway.open(dialect.name)
        assert await dialect.read(client) == Part(b"all of it", UTF8)
        assert await dialect.read_end(client) == dialect.model_error("1011", "and no more")
        assert (await model.frame()).close_code == 1011


@pytest.mark.clause("1.3-2")
@pytest.mark.parametrize("at", range(4))
async def test_control_frames_between_fragments_disturb_nothing(gateway_for, dialect, at):
    fragments = [
        frame(TEXT, b"a", fin=False),
        frame(CONTINUATION, b"b", fin=False),
        frame(CONTINUATION, b"c"),
    ]
    fragments.insert(at, frame(PING, b"") + frame(PONG, b"nobody asked") + frame(PING, b"2"))
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    model.send(*fragments)
    assert [await dialect.read(client) for _ in range(3)] == [
        Part(b"a", UTF8, PARTIAL),
        Part(b"b", UTF8, PARTIAL),
        Part(b"c", UTF8),
    ]
    assert [(each.opcode, each.payload) for each in await model.frames(2)] == [
        (PONG, b""),
        (PONG, b"2"),
    ]


@pytest.mark.clause("1.3-3", "1.5-6")
@pytest.mark.parametrize("size", [MAX_PART_BYTES + 1, 1 << 32, 1 << 40, (1 << 63) - 1])
async def test_a_frame_over_16_mib_is_refused_from_its_header(gateway_for, dialect, size):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    model.send(frame(BINARY, announced=size))
    assert (await model.frame()).close_code == 1009
    end = await dialect.read_end(client)
    assert end == dialect.model_error(
        "1009", f"Message Too Big: a frame has {size} bytes; it must have at most 16777216"
    )
    assert gateway.causes() == {"container_oversize": 1}


@pytest.mark.clause("1.3-3", "1.5-6")
async def test_the_limit_of_an_endpoint_may_be_lower(gateway_for, dialect):
    gateway = await gateway_for(StreamPolicy(max_part=10))
    client, model = await gateway.open(dialect.name)
    model.send(frame(BINARY, bytes(10)), frame(BINARY, announced=11))
    assert await dialect.read(client) == Part(bytes(10))
    assert (await dialect.read_end(client)).code == 4424
    assert (await model.frame()).close_code == 1009


@pytest.mark.clause("1.3-3")
async def test_a_message_of_many_frames_is_unbounded(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open(MSGPACK)
    fragment = bytes(6 * MIB)
    head = frame(BINARY, fragment, fin=False)
    for number in range(4):
        model.send(head if number == 0 else frame(CONTINUATION, fragment, fin=number == 3))
        seen = await client.frame()
        assert len(seen.payload) > len(fragment)
    assert gateway.causes() == {}


# --- An independent client -----------------------------------------------------------------------


async def test_the_websockets_package_as_the_client(gateway_for):
    """Both ways, in fragments, with an extension offered that must not be agreed on."""
    gateway = await gateway_for(StreamPolicy(normal_close="end"))
    url = f"ws://127.0.0.1:{gateway.port}{STREAM_PATH}"
    async with connect(url, subprotocols=[RAW], compression="deflate", proxy=None) as client:
        assert client.subprotocol == RAW
        assert "Sec-WebSocket-Extensions" not in client.response.headers
        model = await gateway.container.stream()
        await client.send(["Hel", "lo"])
        await client.send(b"\x00\xff")
        seen = await model.frames(4)
        # The package ends a fragmented message with an empty frame.
        assert [(each.fin, each.opcode, each.payload) for each in seen] == [
            (False, TEXT, b"Hel"),
            (False, CONTINUATION, b"lo"),
            (True, CONTINUATION, b""),
            (True, BINARY, b"\x00\xff"),
        ]
        model.send(frame(TEXT, b"gr", fin=False), frame(CONTINUATION, "ün".encode()))
        assert [text async for text in client.recv_streaming()] == ["gr", "ün"]
        model.send(close(1000, b"done"))
        with pytest.raises(ConnectionClosed) as ended:
            await client.recv()
        assert (ended.value.rcvd.code, ended.value.rcvd.reason) == (1000, "done")
        assert await model.frame() == RawFrame(True, 0x8, True, model.seen[-1].key, b"\x03\xe8done")


async def test_two_streams_of_one_gateway_do_not_meet(gateway_for):
    gateway = await gateway_for()
    first, first_model = await gateway.open(RAW)
    second = await gateway.connect()
    await second.upgrade(upgrade_request(subprotocols=RAW))
    second_model = await gateway.container.stream()
    first.send_frame(TEXT, b"one")
    second.send_frame(TEXT, b"two")
    assert (await second_model.frame()).payload == b"two"
    assert (await first_model.frame()).payload == b"one"
    first_model.send(close(1011))
    assert (await first.frame()).close_code == 4424
    second_model.send(frame(TEXT, b"still there"))
    assert (await second.frame()).payload == b"still there"
