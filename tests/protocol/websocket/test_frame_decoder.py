from __future__ import annotations

import itertools
import sys
import time
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from websockets.protocol import Protocol as OtherProtocol
from websockets.protocol import Side as OtherSide
from websockets.protocol import State
from wsproto.frame_protocol import FrameProtocol

from partway.protocol.limits import MAX_PART_BYTES
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.websocket.close_codes import Close
from partway.protocol.websocket.frame_decoder import FrameDecoder, FrameError, decode_close
from partway.protocol.websocket.frames import (
    Frame,
    FrameEncoder,
    FramesToParts,
    Opcode,
    PartsToFrames,
)
from tests import frame_factory as raw
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, KEY, PING, PONG, TEXT

MIB = 1024 * 1024
EDGES = [0, 1, 125, 126, 127, 65535, 65536, 65537]
LARGEST_TESTED = 15 * MIB

MASKED = pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])


def test_the_beginning_of_a_frame_keeps_nothing_of_the_one_before():
    decoder = FrameDecoder(masked=False, max_payload=MAX_PART_BYTES)
    decoder.feed(raw.frame(BINARY, bytes(8 * MIB)) + b"\x82")
    assert decoder.next_frame() is not None
    assert decoder.next_frame() is None
    assert decoder.buffered_bytes == 1
    assert sys.getsizeof(decoder._buffer) < 1024


def decode(pieces, *, masked=False, max_payload=MAX_PART_BYTES, check_text=False):
    """What comes out of ``pieces``: the frames, and the error's (code, reason) if one came."""
    decoder = FrameDecoder(masked=masked, max_payload=max_payload, check_text=check_text)
    frames = []
    for piece in pieces:
        decoder.feed(piece)
        try:
            while (frame := decoder.next_frame()) is not None:
                frames.append(frame)
        except FrameError as error:
            assert decoder.next_frame() is None
            assert decoder.buffered_bytes == 0
            return frames, (error.code, error.reason)
    return frames, None


def decode_any_way(data, **options):
    """The same whole, byte by byte, cut at every point, and with bytes behind it."""
    whole = decode([data], **options)
    assert decode([bytes([byte]) for byte in data], **options) == whole
    assert decode([b"", data, b""], **options) == whole
    for cut in range(1, len(data)):
        assert decode([data[:cut], data[cut:]], **options) == whole, f"cut at {cut}"
    # A whole frame and a beginning of the next: the beginning changes nothing.
    if whole[1] is None:
        for behind in (b"\x81", b"\x82\x7f\x00"):
            masked_too = bytes([behind[0]]) + bytes(b | 0x80 for b in behind[1:2]) + behind[2:]
            trailing = masked_too if options.get("masked") else behind
            if not (whole[0] and whole[0][-1].fin is False):  # it would be an error of its own
                assert decode([data + trailing], **options) == whole
    return whole


def payload_of(size):
    return (bytes(range(256)) * (size // 256 + 1))[:size]


# --- Decoder: what is good -----------------------------------------------------------------------


@MASKED
@pytest.mark.parametrize("size", EDGES)
@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_decoded_exactly(opcode, size, masked):
    payload = payload_of(size)
    data = raw.frame(opcode, payload, mask=KEY if masked else None)
    expected = ([(opcode, payload, True)], None)
    if size <= 127:
        assert decode_any_way(data, masked=masked) == expected
    else:
        assert decode([data], masked=masked) == expected
        for cut in (*range(1, 16), 255, size // 2, len(data) - 1):
            assert decode([data[:cut], data[cut:]], masked=masked) == expected


@pytest.mark.clause("1.3-3")
@MASKED
@pytest.mark.parametrize("size", [LARGEST_TESTED, MAX_PART_BYTES])
def test_the_largest(size, masked):
    payload = payload_of(size)
    data = raw.frame(BINARY, payload, mask=KEY if masked else None)
    expected = ([(BINARY, payload, True)], None)
    assert decode([data], masked=masked) == expected
    pieces = [data[at : at + 65536] for at in range(0, len(data), 65536)]
    assert decode(pieces, masked=masked) == expected


@MASKED
def test_decoded_payloads_are_bytes_and_opcodes_ours(masked):
    data = b"".join(
        raw.frame(opcode, b"\x03\xe8", mask=KEY if masked else None)
        for opcode in (TEXT, BINARY, PING, PONG, CLOSE)
    )
    for pieces in ([data], [data[:3], data[3:]]):
        frames, _ = decode(pieces, masked=masked)
        assert [type(frame.payload) for frame in frames] == [bytes] * 5
        assert [type(frame.opcode) for frame in frames] == [Opcode] * 5
        assert [frame.opcode for frame in frames] == [TEXT, BINARY, PING, PONG, CLOSE]


@pytest.mark.clause("1.3-2")
@MASKED
def test_control_frames_between_fragments_do_not_disturb_them(masked):
    mask = KEY if masked else None
    data = b"".join(
        [
            raw.frame(TEXT, b"a", fin=False, mask=mask),
            raw.frame(PING, b"1", mask=mask),
            raw.frame(CONTINUATION, b"b", fin=False, mask=mask),
            raw.frame(PONG, b"2", mask=mask),
            raw.frame(PING, b"", mask=mask),
            raw.frame(CONTINUATION, b"", mask=mask),
            raw.frame(BINARY, b"c", mask=mask),
        ]
    )
    for check_text in (False, True):
        assert decode_any_way(data, masked=masked, check_text=check_text) == (
            [
                (TEXT, b"a", False), (PING, b"1", True), (CONTINUATION, b"b", False),
                (PONG, b"2", True), (PING, b"", True), (CONTINUATION, b"", True),
                (BINARY, b"c", True),
            ],
            None,
        )  # fmt: skip


def test_state_seen_from_outside():
    decoder = FrameDecoder(masked=False, max_payload=100)
    assert (decoder.mid_message, decoder.buffered_bytes) == (False, 0)
    first, second = raw.frame(TEXT, b"abc", fin=False), raw.frame(CONTINUATION, b"de")
    decoder.feed(first + second)
    assert (decoder.mid_message, decoder.buffered_bytes) == (False, 9)
    decoder.next_frame()
    assert (decoder.mid_message, decoder.buffered_bytes) == (True, 4)
    decoder.feed(first[:3])
    assert decoder.buffered_bytes == 7
    decoder.next_frame()
    assert (decoder.mid_message, decoder.buffered_bytes) == (False, 3)
    assert decoder.next_frame() is None
    assert decoder.buffered_bytes == 3
    decoder.feed(first[3:])
    assert decoder.next_frame() == (TEXT, b"abc", False)
    assert (decoder.mid_message, decoder.buffered_bytes) == (True, 0)


def test_who_stops_early_loses_nothing():
    """Frames not asked for stay, however bytes come in between."""
    numbers = list(range(100))
    frames = [raw.frame(BINARY, bytes([number])) for number in numbers]
    decoder = FrameDecoder(masked=False, max_payload=100)
    received = []
    data = b"".join(frames)
    for at in range(0, len(data), 7):  # 7 bytes in, one frame out
        decoder.feed(data[at : at + 7])
        if (frame := decoder.next_frame()) is not None:
            received.append(frame.payload[0])
    assert len(received) < 100
    assert decoder.buffered_bytes == 3 * (100 - len(received))
    while (frame := decoder.next_frame()) is not None:
        received.append(frame.payload[0])
    assert received == numbers


def test_text_is_not_checked_unless_asked():
    decoder = FrameDecoder(masked=False, max_payload=100)
    decoder.feed(raw.frame(TEXT, b"\xff"))
    assert decoder.next_frame() == (TEXT, b"\xff", True)


def test_no_bytes_no_frame():
    decoder = FrameDecoder(masked=False, max_payload=100)
    assert decoder.next_frame() is None
    decoder.feed(b"")
    assert decoder.next_frame() is None


# --- Decoder: rule by rule -----------------------------------------------------------------------


def first_byte_verdict(first, *, mid_message):
    """RFC 6455 §5.2, §5.4, §5.5 for a frame's first byte: None if good, else what is wrong."""
    fin, rsv, opcode = first >> 7, first >> 4 & 7, first & 15
    if rsv:
        return "an RSV bit is set, and no extension was agreed on (§5.2)"
    if opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
        return f"unknown opcode {opcode:#x} (§5.2)"
    if opcode >= 8:
        return None if fin else "a control frame is fragmented (§5.5)"
    if opcode == 0:
        return None if mid_message else "a continuation frame continues nothing (§5.4)"
    return "a message began inside another (§5.4)" if mid_message else None


@pytest.mark.clause("1.5-4")
@MASKED
@pytest.mark.parametrize("mid_message", [False, True])
def test_every_first_byte(mid_message, masked):
    """Rules 1 and 4."""
    mask = KEY if masked else None
    before = raw.frame(BINARY, b"", fin=False, mask=mask) if mid_message else b""
    started = [(BINARY, b"", False)] if mid_message else []
    for first in range(256):
        data = before + bytes([first]) + raw.frame(0, b"", mask=mask)[1:]
        fault = first_byte_verdict(first, mid_message=mid_message)
        if fault is None:
            frame = (first & 15, b"", bool(first & 0x80))
            assert decode([data], masked=masked) == ([*started, frame], None), first
        else:
            assert decode([data], masked=masked) == (started, (1002, fault)), first


@pytest.mark.clause("1.5-4")
@MASKED
def test_every_second_byte(masked):
    """Rules 2 and 3: the mask bit, and the length that stands in the byte itself."""
    for opcode, second in itertools.product((TEXT, PING), range(256)):
        header = bytes([0x80 | opcode, second])
        length = second & 0x7F
        frames, error = decode([header], masked=masked)
        if bool(second & 0x80) is not masked:
            role = "masked" if masked else "unmasked"
            assert (frames, error) == ([], (1002, f"the frame is not {role} (§5.1)"))
        elif opcode == PING and length > 125:
            expected = (1002, "a control frame must hold at most 125 bytes (§5.5)")
            assert (frames, error) == ([], expected)
        else:
            assert error is None
            rest = (KEY if masked else b"") + bytes(length)
            if length <= 125:
                frames, error = decode([header + rest], masked=masked)
                assert error is None
                assert [len(frame.payload) for frame in frames] == [length]
                assert decode([header + rest[:-1]], masked=masked) == (
                    ([], None) if rest else (frames, None)
                )


@pytest.mark.clause("1.5-4")
@MASKED
@pytest.mark.parametrize(
    ("form", "length", "good"),
    [
        (16, 0, False), (16, 1, False), (16, 125, False), (16, 126, True), (16, 65535, True),
        (64, 0, False), (64, 125, False), (64, 126, False), (64, 65535, False), (64, 65536, True),
        (64, 2**63, False), (64, 2**64 - 1, False), (64, 2**63 + 126, False),
    ],
)  # fmt: skip
def test_lengths_are_in_their_shortest_form(form, length, good, masked):
    """Rule 5, refused from the header alone."""
    mask = KEY if masked else None
    data = raw.frame(BINARY, b"", length_form=form, announced=length, mask=mask)
    header = data[: 2 + form // 8]
    if good:
        assert decode_any_way(header, masked=masked) == ([], None)
        whole = raw.frame(BINARY, bytes(length), length_form=form, mask=mask)
        assert decode([whole], masked=masked) == ([(BINARY, bytes(length), True)], None)
    else:
        expected = ([], (1002, "the length must be in its shortest form (§5.2)"))
        assert decode_any_way(header, masked=masked) == expected
        assert decode([header[:-1]], masked=masked) == ([], None)


@pytest.mark.clause("1.3-3", "1.5-6")
@MASKED
@pytest.mark.parametrize(
    ("announced", "limit"),
    [
        (MAX_PART_BYTES + 1, MAX_PART_BYTES),
        (2**40, MAX_PART_BYTES),
        (2**63 - 1, MAX_PART_BYTES),
        (1001, 1000),
        (65536, 65535),
        (101, 100),
        (1, 0),
    ],
)
def test_a_frame_that_is_too_big_is_refused_from_its_header(announced, limit, masked):
    """Rule 6, before a byte of the payload or of the key has come."""
    mask = KEY if masked else None
    data = raw.frame(TEXT, announced=announced, mask=mask)
    header = data[: -4 if masked else None]
    options = {"masked": masked, "max_payload": limit}
    expected = ([], (1009, f"a frame has {announced} bytes; it must have at most {limit}"))
    assert decode_any_way(header, **options) == expected
    assert decode([header[:-1]], **options) == ([], None)


@pytest.mark.clause("1.3-3")
@MASKED
@pytest.mark.parametrize("limit", [0, 1, 100, 125, 126, 1000, 65535, 65536])
def test_a_frame_at_the_limit_passes(limit, masked):
    data = raw.frame(TEXT, bytes(limit), mask=KEY if masked else None)
    expected = ([(TEXT, bytes(limit), True)], None)
    assert decode([data], masked=masked, max_payload=limit) == expected


@pytest.mark.clause("1.3-3")
def test_a_message_is_unbounded():
    """The limit is a frame's: a message of many frames at the limit passes."""
    data = raw.frame(BINARY, bytes(100), fin=False)
    data += raw.frame(CONTINUATION, bytes(100), fin=False) * 5000
    data += raw.frame(CONTINUATION, bytes(100))
    frames, error = decode([data], max_payload=100)
    assert error is None
    assert len(frames) == 5002


@pytest.mark.clause("1.5-4")
@pytest.mark.parametrize(
    ("frames", "passed", "fault"),
    [
        ([(CONTINUATION, True)], 0, "a continuation frame continues nothing (§5.4)"),
        ([(CONTINUATION, False)], 0, "a continuation frame continues nothing (§5.4)"),
        ([(TEXT, True), (CONTINUATION, True)], 1, "a continuation frame continues nothing (§5.4)"),
        (
            [(TEXT, False), (CONTINUATION, True), (CONTINUATION, True)],
            2,
            "a continuation frame continues nothing (§5.4)",
        ),
        ([(TEXT, False), (TEXT, True)], 1, "a message began inside another (§5.4)"),
        ([(TEXT, False), (BINARY, False)], 1, "a message began inside another (§5.4)"),
        (
            [(BINARY, False), (PING, True), (CONTINUATION, False), (BINARY, True)],
            3,
            "a message began inside another (§5.4)",
        ),
        ([(PING, False)], 0, "a control frame is fragmented (§5.5)"),
        ([(CLOSE, False)], 0, "a control frame is fragmented (§5.5)"),
    ],
)
@pytest.mark.parametrize("payload", [b"", bytes(300)], ids=["empty", "long"])
def test_the_order_of_frames(frames, passed, fault, payload):
    """Rule 4: what came before the fault is delivered, and the fault's payload not waited for."""
    built = [raw.frame(opcode, payload if opcode < 8 else b"", fin=fin) for opcode, fin in frames]
    data = b"".join(built[:passed]) + built[passed][:2]
    delivered, error = decode([data])
    assert [(frame.opcode, frame.fin) for frame in delivered] == frames[:passed]
    assert error == (1002, fault)


@pytest.mark.clause("1.5-1", "1.5-4")
@MASKED
def test_every_close_code(masked):
    """Rule 7, over the whole of two bytes."""
    mask = KEY if masked else None
    for code in range(65536):
        legal = (
            1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999
        )  # §7.4 and IANA
        payload = code.to_bytes(2, "big")
        outcome = decode([raw.close(code, mask=mask)], masked=masked)
        if legal:
            assert outcome == ([(CLOSE, payload, True)], None), code
        else:
            assert outcome == ([], (1002, f"close code {code} is illegal (§7.4)")), code


@pytest.mark.clause("1.5-1", "1.5-2", "1.5-4", "1.5-5")
@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"", Close(None, "")),
        (b"\x03\xe8", Close(1000, "")),
        (b"\x03\xe9bye", Close(1001, "bye")),
        (b"\x0f\xa0" + "grüß".encode(), Close(4000, "grüß")),
        (b"\x03\xe8" + b"x" * 123, Close(1000, "x" * 123)),
        (b"\x03", (1002, "a close code must have two bytes, not one (§7.4)")),
        (b"\xff", (1002, "a close code must have two bytes, not one (§7.4)")),
        (b"\x03\xed", (1002, "close code 1005 is illegal (§7.4)")),
        (b"\x03\xedx", (1002, "close code 1005 is illegal (§7.4)")),
        (b"\x03\xee\xff", (1002, "close code 1006 is illegal (§7.4)")),
        (b"\x03\xe8\xff", (1007, "a close reason is not UTF-8 (§5.5.1)")),
        (b"\x03\xe8\xc3", (1007, "a close reason is not UTF-8 (§5.5.1)")),
        (b"\x03\xe8\xed\xa0\x80", (1007, "a close reason is not UTF-8 (§5.5.1)")),
        (b"\x03\xe8\xc0\x80", (1007, "a close reason is not UTF-8 (§5.5.1)")),
        (b"\x03\xe8x" + b"\xf4\x90\x80\x80", (1007, "a close reason is not UTF-8 (§5.5.1)")),
    ],
)
def test_closes(payload, expected):
    data = raw.frame(CLOSE, payload)
    if isinstance(expected, Close):
        assert decode_any_way(data) == ([(CLOSE, payload, True)], None)
        assert decode_close(payload) == expected
    else:
        assert decode_any_way(data) == ([], expected)
        with pytest.raises(FrameError) as error:
            decode_close(payload)
        assert (error.value.code, error.value.reason) == expected
        assert str(error.value) == error.value.reason


@pytest.mark.clause("1.5-7")
def test_a_close_in_the_middle_of_a_message_is_legal():
    data = raw.frame(TEXT, b"a", fin=False) + raw.close(1011, b"boom")
    assert decode_any_way(data) == (
        [(TEXT, b"a", False), (CLOSE, b"\x03\xf3boom", True)],
        None,
    )


def test_nothing_after_a_close_means_anything():
    """Rule 9: neither frames nor garbage, in the same read or in later ones."""
    for behind in (raw.frame(TEXT, b"x"), raw.close(1000), b"\xff" * 50, b"\x81"):
        data = raw.frame(TEXT, b"a") + raw.close(1000)
        expected = ([(TEXT, b"a", True), (CLOSE, b"\x03\xe8", True)], None)
        assert decode([data + behind]) == expected
        assert decode([data, behind, behind]) == expected
        assert decode([bytes([byte]) for byte in data + behind]) == expected


def test_nothing_after_an_error_means_anything():
    decoder = FrameDecoder(masked=False, max_payload=100)
    decoder.feed(b"\xff\x00" + raw.frame(TEXT, b"x"))
    with pytest.raises(FrameError):
        decoder.next_frame()
    for _ in range(3):
        assert decoder.next_frame() is None
        decoder.feed(raw.frame(TEXT, b"x"))
        assert decoder.buffered_bytes == 0


NOT_UTF8 = "a text message is not UTF-8 (§8.1)"


@pytest.mark.clause("1.1-8", "1.2-5", "1.5-5")
@pytest.mark.parametrize(
    ("fragments", "bad_at"),
    [
        ([b""], None),
        (["grüß €😀\x00".encode()], None),
        ([b"\xc3", b"\xbc"], None),  # a code point split between fragments
        ([b"\xf0", b"\x9f", b"\x98", b"\x80"], None),
        ([b"\xf0\x9f", b"", b"\x98\x80"], None),
        ([b"\xf4\x8f\xbf\xbf"], None),  # U+10FFFF
        ([b"\xef\xbb\xbf"], None),  # a byte order mark is text
        ([b"\xed\x9f\xbf", b"\xee\x80\x80"], None),  # on either side of the surrogates
        ([b"\xff"], 0),
        ([b"\x80"], 0),
        ([b"\xc3"], 0),  # ends in the middle
        ([b"a\xc3", b""], 1),
        ([b"\xf0\x9f\x98", b"x"], 1),
        ([b"\xc0\x80"], 0),  # overlong
        ([b"\xe0\x80\xaf"], 0),
        ([b"\xf0\x80\x80\xaf"], 0),
        ([b"\xed\xa0\x80"], 0),  # a surrogate
        ([b"\xed\xbf\xbf"], 0),
        ([b"\xed\xa0\x80\xed\xb0\x80"], 0),
        ([b"\xf4\x90\x80\x80"], 0),  # beyond U+10FFFF
        ([b"\xf8\x88\x80\x80\x80"], 0),
        ([b"ok", b"ok", b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4\x90", b"\x80"], 2),
    ],
)
def test_text(fragments, bad_at):
    """Rule 8: over all of a message's fragments, as early as it can be told; off, bytes pass."""
    frames = [
        (CONTINUATION if number else TEXT, fragment, number == len(fragments) - 1)
        for number, fragment in enumerate(fragments)
    ]
    data = b"".join(raw.frame(opcode, payload, fin=fin) for opcode, payload, fin in frames)
    assert decode_any_way(data, check_text=False) == (frames, None)
    expected = (frames, None) if bad_at is None else (frames[:bad_at], (1007, NOT_UTF8))
    assert decode_any_way(data, check_text=True) == expected


def test_only_text_is_checked():
    invalid = b"\xff\xfe"
    data = b"".join(
        [
            raw.frame(BINARY, invalid),
            raw.frame(TEXT, b"a", fin=False),
            raw.frame(PING, invalid),
            raw.frame(CONTINUATION, b"b"),
            raw.frame(BINARY, invalid, fin=False),
            raw.frame(CONTINUATION, invalid),
            raw.frame(TEXT, b"ok"),
        ]
    )
    frames, error = decode_any_way(data, check_text=True)
    assert error is None
    assert len(frames) == 7


def test_each_text_message_begins_anew():
    """An open code point of one message is not completed by the next."""
    data = raw.frame(TEXT, b"\xc3", fin=False) + raw.frame(CONTINUATION, b"\xbc")
    data += raw.frame(TEXT, b"\xbc")
    frames, error = decode([data], check_text=True)
    assert len(frames) == 2
    assert error == (1007, NOT_UTF8)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # RSV before mask before control length before order before length before size.
        (bytes([0xC1, 0xFF]) + b"\xff" * 8, "an RSV bit is set"),
        (bytes([0x89, 0xFF]) + b"\xff" * 8, "the frame is not unmasked"),
        (bytes([0x89, 0x7F]) + b"\xff" * 8, "a control frame must hold at most"),
        (bytes([0x80, 0x7F]) + b"\xff" * 8, "a continuation frame continues nothing"),
        (bytes([0x81, 0x7F]) + b"\xff" * 8, "the length must be in its shortest form"),
        (bytes([0x81, 0x7F, 0x7F]) + b"\xff" * 7, "a frame has 9223372036854775807 bytes"),
    ],
)
def test_the_order_of_the_rules(data, expected):
    _, (_, reason) = decode([data], max_payload=125)
    assert reason.startswith(expected)


# --- Work ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "piece"), [(256 * 1024, 1), (MAX_PART_BYTES, 1024)], ids=["by byte", "by KiB"]
)
def test_a_long_frame_in_small_pieces_takes_linear_work(size, piece):
    """Were each piece to copy what there is already, this would move tens of gigabytes."""
    data = raw.frame(BINARY, bytes(size))
    pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
    began = time.process_time()
    frames, _ = decode(pieces)
    assert [len(frame.payload) for frame in frames] == [size]
    assert time.process_time() - began < 3.0


def test_a_slow_taker_takes_linear_work():
    """100,000 frames wait, and each one taken is followed by another coming in."""
    decoder = FrameDecoder(masked=False, max_payload=100)
    one = raw.frame(BINARY, b"12345678")
    decoder.feed(one * 100_000)
    began = time.process_time()
    for _ in range(100_000):
        assert decoder.next_frame() is not None
        decoder.feed(one)
    assert time.process_time() - began < 3.0
    assert decoder.buffered_bytes == 1_000_000


def test_nothing_is_kept_of_what_is_delivered():
    """A connection that is silent after a large frame does not hold it."""
    data = raw.frame(BINARY, bytes(MIB))
    for pieces in ([data], [data[:1000], data[1000:]]):
        decoder = FrameDecoder(masked=False, max_payload=MIB)
        tracemalloc.start()
        try:
            for piece in pieces:
                decoder.feed(bytes(bytearray(piece)))  # a copy that nobody else holds
            assert len(decoder.next_frame().payload) == MIB
            assert tracemalloc.get_traced_memory()[0] < 100_000
        finally:
            tracemalloc.stop()
        assert decoder.next_frame() is None


# --- Against other implementations, and whatever Hypothesis thinks of ---------------------------


PARTS = st.lists(
    st.builds(
        PayloadPart,
        st.binary(max_size=200) | st.integers(0, 70_000).map(bytes),
        st.sampled_from(DataType),
        st.sampled_from(CompletionState),
    ),
    max_size=8,
)


def other(*, masked, limit=None):
    """websockets' sans-IO layer, on the side that receives frames (un)masked."""
    side = OtherSide.SERVER if masked else OtherSide.CLIENT
    return OtherProtocol(side, state=State.OPEN, max_size=(None, limit))


def normal(parts):
    """Parts as frames can tell them: a message has its first part's type."""
    message_type = None
    for payload, data_type, completion in parts:
        message_type = message_type or data_type
        yield PayloadPart(payload, message_type, completion)
        if completion is CompletionState.COMPLETE:
            message_type = None


@pytest.mark.clause("1.2-1", "1.2-3", "1.2-4")
@MASKED
@given(parts=PARTS)
@example(parts=[PayloadPart(bytes(2 * MIB), DataType.UTF8, CompletionState.PARTIAL)])
def test_websockets_reads_our_parts(parts, masked):
    translate, encoder = PartsToFrames(), FrameEncoder(masks=masked)
    reader = other(masked=masked)
    for part in parts:
        for piece in encoder.encode(translate.frame(part)):
            reader.receive_data(piece)
    assert reader.parser_exc is None
    back = FramesToParts()
    received = [
        back.part(Frame(Opcode(frame.opcode), bytes(frame.data), frame.fin))
        for frame in reader.events_received()
    ]
    assert received == list(normal(parts))


@MASKED
@given(parts=PARTS)
def test_we_read_what_websockets_writes(parts, masked):
    side = OtherSide.CLIENT if masked else OtherSide.SERVER
    writer = OtherProtocol(side, state=State.OPEN)
    translate = PartsToFrames()
    expected = []
    for part in parts:
        frame = translate.frame(part)
        expected.append(frame)
        if frame.opcode is Opcode.CONTINUATION:
            writer.send_continuation(frame.payload, frame.fin)
        elif frame.opcode is Opcode.TEXT:
            writer.send_text(frame.payload, frame.fin)
        else:
            writer.send_binary(frame.payload, frame.fin)
    writer.send_ping(b"ping")
    writer.send_close(1001, "bye")
    expected += [(PING, b"ping", True), (CLOSE, b"\x03\xe9bye", True)]
    written = b"".join(writer.data_to_send())
    assert decode([written], masked=masked) == (expected, None)


@MASKED
@given(parts=PARTS)
def test_wsproto_reads_our_parts(parts, masked):
    """Frame by frame for binary; text by message, as it holds back split code points."""
    translate, encoder = PartsToFrames(), FrameEncoder(masks=masked)
    reader = FrameProtocol(client=not masked, extensions=[])
    binary = [part._replace(data_type=DataType.BINARY) for part in parts]
    received = []
    for part in binary:
        reader.receive_bytes(b"".join(encoder.encode(translate.frame(part))))
        received += reader.received_frames()
    assert [(bytes(frame.payload), frame.message_finished) for frame in received] == [
        (part.payload, part.completion is CompletionState.COMPLETE) for part in binary
    ]
    assert all(frame.frame_finished for frame in received)


@MASKED
@given(text=st.text(), cuts=st.lists(st.integers(0, 100), max_size=4))
def test_wsproto_reads_our_text(text, cuts, masked):
    encoded = text.encode()
    bounds = [0, *sorted(min(cut, len(encoded)) for cut in cuts), len(encoded)]
    translate, encoder = PartsToFrames(), FrameEncoder(masks=masked)
    reader = FrameProtocol(client=not masked, extensions=[])
    for number, (start, end) in enumerate(itertools.pairwise(bounds)):
        state = CompletionState.COMPLETE if number == len(bounds) - 2 else CompletionState.PARTIAL
        part = PayloadPart(encoded[start:end], DataType.UTF8, state)
        reader.receive_bytes(b"".join(encoder.encode(translate.frame(part))))
    received = list(reader.received_frames())
    assert "".join(frame.payload for frame in received) == text
    assert received[-1].message_finished


FRAMES = st.builds(
    raw.frame,
    st.sampled_from([CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG]) | st.integers(0, 15),
    st.binary(max_size=140) | st.sampled_from([b"\x03\xe8", b"\x03\xe8bye", b"\x0f\xa0"]),
    fin=st.booleans() | st.just(True),
    rsv=st.just(0) | st.just(0) | st.integers(0, 7),
    mask=st.just(KEY),
    length_form=st.just(64) | st.none() | st.none() | st.none(),
)
GOOD_FRAMES = st.builds(
    raw.frame,
    st.sampled_from([TEXT, BINARY, PING, PONG]),
    st.binary(max_size=125),
    mask=st.just(KEY),
)


@st.composite
def streams(draw):
    """Mostly good frames, some bad, then a few bytes changed, put in, or taken out."""
    data = bytearray(b"".join(draw(st.lists(GOOD_FRAMES | FRAMES, max_size=6))))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["change", "insert", "delete"])):
            case "insert":
                data.insert(at, draw(st.integers(0, 255)))
            case "change" if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case "delete" if at < len(data):
                del data[at]
            case _:
                pass
    return bytes(data)


#: Of a length that is longer than it need be, in a data frame and in a control frame.
LENGTH_ERRORS = {
    (1002, "the length must be in its shortest form (§5.2)"),
    (1002, "a control frame must hold at most 125 bytes (§5.5)"),
}


@pytest.mark.clause("1.5-4", "1.5-7")
@settings(max_examples=250)
@given(stream=streams())
@example(stream=raw.frame(TEXT, b"a", fin=False, mask=KEY) + raw.close(1011, b"x", mask=KEY))
@example(stream=raw.frame(TEXT, b"a", length_form=16, mask=KEY))
@example(stream=raw.frame(TEXT, b"a", length_form=64, announced=2**63, mask=KEY))
@example(stream=raw.close(1005, b"\xff", mask=KEY))
@example(stream=raw.frame(PING, b"x", length_form=16, mask=KEY))
def test_as_strict_as_websockets(stream):
    """Same frames, same verdict. Stricter only on lengths, looser only on Close inside a message.

    Behind the stream come enough zeros to end any frame within the limit: websockets looks at a
    frame when it is whole, we do as soon as a byte is wrong.
    """
    limit = 1000
    data = stream + bytes(limit + 20)
    frames, error = decode([data], masked=True, max_payload=limit)

    reader = other(masked=True, limit=limit)
    reader.receive_data(data)
    theirs = [(event.opcode, bytes(event.data), event.fin) for event in reader.events_received()]
    failure = reader.parser_exc

    if error in LENGTH_ERRORS:
        assert theirs[: len(frames)] == frames
    elif str(failure) == "incomplete fragmented message":
        assert error is None
        assert frames[:-1] == theirs
        assert frames[-1].opcode is Opcode.CLOSE
        assert decode_close(frames[-1].payload).code == (
            None if reader.close_rcvd.code == 1005 else reader.close_rcvd.code
        )
    else:
        assert frames == theirs
        assert (error is None) == (failure is None), (error, failure)
        if error is not None and error[0] != reader.close_sent.code:
            # Two faults in one frame: we name the one that its first bytes show.
            assert (error[0], reader.close_sent.code) in {(1002, 1009), (1002, 1007)}


@settings(max_examples=150)
@given(stream=streams(), cuts=st.lists(st.integers(0, 800), max_size=6), check_text=st.booleans())
def test_any_split_gives_the_same(stream, cuts, check_text):
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in itertools.pairwise(bounds)]
    options = {"masked": True, "max_payload": 1000, "check_text": check_text}
    assert decode(pieces, **options) == decode([stream], **options)


@MASKED
@settings(max_examples=250)
@given(pieces=st.lists(st.binary(max_size=64), max_size=6), check_text=st.booleans())
def test_any_bytes_are_frames_or_an_error(pieces, masked, check_text):
    options = {"masked": masked, "max_payload": 100, "check_text": check_text}
    frames, error = decode(pieces, **options)
    assert error is None or error[0] in (1002, 1007, 1009)
    for frame in frames:
        assert len(frame.payload) <= 100
        assert frame.fin or frame.opcode < CLOSE


@pytest.mark.clause("1.1-8", "1.2-5")
@given(payloads=st.lists(st.binary(max_size=8) | st.text().map(str.encode), min_size=1, max_size=5))
def test_text_is_checked_as_python_decodes_it(payloads):
    data = b"".join(
        raw.frame(CONTINUATION if number else TEXT, payload, fin=number == len(payloads) - 1)
        for number, payload in enumerate(payloads)
    )
    _, error = decode([data], check_text=True)
    try:
        b"".join(payloads).decode()
    except UnicodeDecodeError:
        assert error == (1007, NOT_UTF8)
    else:
        assert error is None
    assert decode([data], check_text=False)[1] is None
