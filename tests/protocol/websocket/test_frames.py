from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.limits import JOIN_UP_TO
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.websocket import frames as module
from partway.protocol.websocket.frames import (
    Frame,
    FrameEncoder,
    FramesToParts,
    Opcode,
    PartsToFrames,
    joined,
)
from tests import frame_factory as raw

UTF8, BINARY = DataType.UTF8, DataType.BINARY
PARTIAL, COMPLETE = CompletionState.PARTIAL, CompletionState.COMPLETE
CONT, TEXT, BIN = Opcode.CONTINUATION, Opcode.TEXT, Opcode.BINARY

MIB = 1024 * 1024
EDGES = [0, 1, 125, 126, 127, 65535, 65536, 65537]
LARGEST_TESTED = 15 * MIB
LARGE = bytes(JOIN_UP_TO + 1)

MASKED = pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])


def payload_of(size):
    return (bytes(range(256)) * (size // 256 + 1))[:size]


def to_frames(*parts):
    translate = PartsToFrames()
    return [translate.frame(PayloadPart(*part)) for part in parts]


def to_parts(*frames):
    translate = FramesToParts()
    return [translate.part(Frame(*frame)) for frame in frames]


def test_opcodes_are_those_of_the_rfc():
    assert {member.name: member.value for member in Opcode} == {
        "CONTINUATION": 0, "TEXT": 1, "BINARY": 2, "CLOSE": 8, "PING": 9, "PONG": 10,
    }  # fmt: skip


def test_a_frame_is_whole_unless_it_says_otherwise():
    assert Frame(TEXT, b"x") == (TEXT, b"x", True)


@pytest.mark.clause("1.2-2", "1.2-3")
@pytest.mark.parametrize(("data_type", "opcode"), [(UTF8, TEXT), (BINARY, BIN)])
def test_a_lone_complete_part_is_a_whole_message(data_type, opcode):
    assert to_frames((b"x", data_type, COMPLETE)) == [(opcode, b"x", True)]


@pytest.mark.clause("1.2-3")
@pytest.mark.parametrize(("data_type", "opcode"), [(UTF8, TEXT), (BINARY, BIN)])
def test_partial_parts_and_the_one_that_completes_them_are_one_message(data_type, opcode):
    assert to_frames(
        (b"a", data_type, PARTIAL),
        (b"b", data_type, PARTIAL),
        (b"c", data_type, PARTIAL),
        (b"d", data_type, COMPLETE),
        (b"e", data_type, COMPLETE),
    ) == [
        (opcode, b"a", False),
        (CONT, b"b", False),
        (CONT, b"c", False),
        (CONT, b"d", True),
        (opcode, b"e", True),
    ]


@pytest.mark.clause("1.2-3")
def test_the_documents_own_example():
    assert to_frames((b"Hello ", UTF8, PARTIAL), (b"World", UTF8, COMPLETE)) == [
        (TEXT, b"Hello ", False),
        (CONT, b"World", True),
    ]


@pytest.mark.clause("1.2-4")
@pytest.mark.parametrize("first", [UTF8, BINARY])
def test_a_contradicting_type_inside_a_message_does_not_count(first):
    other = BINARY if first is UTF8 else UTF8
    frames = to_frames((b"a", first, PARTIAL), (b"b", other, PARTIAL), (b"c", other, COMPLETE))
    assert [frame.opcode for frame in frames] == [TEXT if first is UTF8 else BIN, CONT, CONT]


@pytest.mark.clause("1.2-4")
def test_an_empty_part_is_an_empty_frame():
    assert to_frames((b"", UTF8, PARTIAL), (b"", UTF8, PARTIAL), (b"", BINARY, COMPLETE)) == [
        (TEXT, b"", False),
        (CONT, b"", False),
        (CONT, b"", True),
    ]


@pytest.mark.clause("1.2-1", "1.2-5", "1.3-1")
def test_bytes_are_passed_on_not_looked_at():
    """The very object goes through, both ways, valid text or not."""
    payload = b"\xff\xfe not UTF-8"
    assert PartsToFrames().frame(PayloadPart(payload, UTF8)).payload is payload
    assert FramesToParts().part(Frame(TEXT, payload)).payload is payload


def test_mid_message_says_whether_the_next_part_continues():
    translate = PartsToFrames()
    assert not translate.mid_message
    translate.frame(PayloadPart(b"", UTF8, PARTIAL))
    assert translate.mid_message
    translate.frame(PayloadPart(b"", UTF8, PARTIAL))
    assert translate.mid_message
    translate.frame(PayloadPart(b"", UTF8, COMPLETE))
    assert not translate.mid_message


@pytest.mark.clause("1.3-1")
@pytest.mark.parametrize(("opcode", "data_type"), [(TEXT, UTF8), (BIN, BINARY)])
def test_frames_become_parts_and_continuations_repeat_the_type(opcode, data_type):
    assert to_parts(
        (opcode, b"a", True), (opcode, b"b", False), (CONT, b"", False), (CONT, b"d", True)
    ) == [
        (b"a", data_type, COMPLETE),
        (b"b", data_type, PARTIAL),
        (b"", data_type, PARTIAL),
        (b"d", data_type, COMPLETE),
    ]


@pytest.mark.clause("1.3-1")
def test_each_message_has_its_own_type():
    assert [part.data_type for part in to_parts(
        (TEXT, b"", False), (CONT, b"", True), (BIN, b"", False), (CONT, b"", True),
        (TEXT, b"", True), (BIN, b"", True),
    )] == [UTF8, UTF8, BINARY, BINARY, UTF8, BINARY]  # fmt: skip


PARTS = st.lists(
    st.builds(PayloadPart, st.binary(), st.sampled_from(DataType), st.sampled_from(CompletionState))
)


def normal(parts):
    """What an observer of the frames can know of parts: the first's type holds for a message."""
    message_type = None
    for payload, data_type, completion in parts:
        message_type = message_type or data_type
        yield PayloadPart(payload, message_type, completion)
        if completion is COMPLETE:
            message_type = None


@pytest.mark.clause("1.2-1", "1.2-3", "1.2-4", "1.3-1")
@given(PARTS)
def test_there_and_back(parts):
    frames = to_frames(*parts)
    assert len(frames) == len(parts)
    assert to_parts(*frames) == list(normal(parts))


@pytest.mark.clause("1.2-7")
@given(PARTS)
def test_no_fin_is_made_up(parts):
    assert [frame.fin for frame in to_frames(*parts)] == [
        part.completion is COMPLETE for part in parts
    ]


# --- Encoder -------------------------------------------------------------------------------------


@pytest.mark.clause("1.2-1", "1.2-3")
@pytest.mark.parametrize("size", [*EDGES, LARGEST_TESTED])
@pytest.mark.parametrize("fin", [True, False])
@pytest.mark.parametrize("opcode", [Opcode.CONTINUATION, Opcode.TEXT, Opcode.BINARY])
def test_encoded_exactly(opcode, fin, size):
    payload = payload_of(size)
    plain = b"".join(FrameEncoder(masks=False).encode(Frame(opcode, payload, fin)))
    assert plain == raw.frame(opcode, payload, fin=fin)
    masked = b"".join(FrameEncoder(masks=True).encode(Frame(opcode, payload, fin)))
    ((_, _, _, key, _),), rest = raw.read_frames(masked)
    assert rest == b""
    assert masked == raw.frame(opcode, payload, fin=fin, mask=key)


@pytest.mark.parametrize("opcode", [Opcode.CLOSE, Opcode.PING, Opcode.PONG])
@pytest.mark.parametrize("size", [0, 2, 125])
def test_control_frames_encoded_exactly(opcode, size):
    payload = payload_of(size)
    assert FrameEncoder(masks=False).encode(Frame(opcode, payload)) == [raw.frame(opcode, payload)]
    (masked,) = FrameEncoder(masks=True).encode(Frame(opcode, payload))
    ((_, _, _, key, _),), _ = raw.read_frames(masked)
    assert masked == raw.frame(opcode, payload, mask=key)


@MASKED
def test_a_long_payload_is_not_copied_to_its_header(masked):
    payload = payload_of(MIB)
    header, body = FrameEncoder(masks=masked).encode(Frame(Opcode.BINARY, payload))
    assert len(header) == (14 if masked else 10)
    assert len(body) == MIB
    if not masked:
        assert body is payload


def test_each_frame_has_a_key_of_its_own():
    """Also beyond one pool of random bytes. (Two of 2,000 are equal in one run of 2,000.)"""
    encoder = FrameEncoder(masks=True)
    pieces = [encoder.encode(Frame(Opcode.BINARY, b"x")) for _ in range(2000)]
    frames, rest = raw.read_frames(b"".join(itertools.chain.from_iterable(pieces)))
    assert rest == b""
    assert {frame.payload for frame in frames} == {b"x"}
    assert all(len(frame.key) == 4 for frame in frames)
    assert len({frame.key for frame in frames}) >= 1998


def test_keys_come_from_the_systems_randomness(monkeypatch):
    """RFC 6455 §5.3: a key cannot be told from the keys before it."""
    asked = []

    def urandom(size):
        asked.append(size)
        return bytes(itertools.islice(itertools.cycle(range(256)), size))

    monkeypatch.setattr(module.os, "urandom", urandom)
    encoder = FrameEncoder(masks=True)
    keys = [encoder.encode(Frame(Opcode.BINARY, b""))[0][2:] for _ in range(1025)]
    assert asked == [4096, 4096]
    assert keys[:2] == [b"\x00\x01\x02\x03", b"\x04\x05\x06\x07"]
    assert keys[1023:] == [b"\xfc\xfd\xfe\xff", b"\x00\x01\x02\x03"]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"a"], [b"a"]),
        ([b"a", b"b", b""], [b"ab"]),
        ([bytes(JOIN_UP_TO)] * 2, [bytes(2 * JOIN_UP_TO)]),
        ([b"a", b"b", LARGE, b"c", b"d"], [b"ab", LARGE, b"cd"]),
        ([LARGE, LARGE, b"a"], [LARGE, LARGE, b"a"]),
    ],
)
def test_small_pieces_are_joined_and_large_ones_left_alone(pieces, expected):
    assert joined(pieces) == expected
