"""partway.protocol.http2.flood_gate: which of a client's frames h2 gets to see."""

from __future__ import annotations

import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol import limits
from partway.protocol.http2.frames import frame
from tests.gateway.http.http2.gated import GateAndReader

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


def headers(stream=1, block=b"\x82", *, end=False, whole=True):
    flags = [*(["END_STREAM"] if end else []), *(["END_HEADERS"] if whole else [])]
    return HeadersFrame(stream, block, flags=flags)


def continuation(stream=1, block=b"\x84", *, whole=False):
    return ContinuationFrame(stream, block, flags=["END_HEADERS"] if whole else [])


def data(stream=1, payload=b"x" * 100, *, end=False):
    return DataFrame(stream, payload, flags=["END_STREAM"] if end else [])


def raw(*frames):
    return b"".join(one if isinstance(one, bytes) else one.serialize() for one in frames)


def passed(gate, *frames, now=0.0):
    """What comes out for frames, to the last turn."""
    gate.feed(raw(*frames))
    out = gate.take(now)
    while gate.waiting:
        out += gate.take(now)
    return out


def parsed(data):
    frames = []
    while data:
        found, length = Frame.parse_frame_header(memoryview(data[:9]))
        found.parse_body(memoryview(data[9 : 9 + length]))
        frames.append(found)
        data = data[9 + length :]
    return frames


@pytest.fixture
def gate():
    gate = GateAndReader(0.0)
    gate.feed(PREFACE)
    assert gate.take(0.0) == PREFACE
    return gate


#: Of a type that no RFC has given out.
UNKNOWN = b"\x00\x00\x03\xfa\xff\x00\x00\x00\x00any"

ORDINARY = [
    SettingsFrame(0, {4: 100_000}),
    SettingsFrame(0, flags=["ACK"]),
    headers(1),
    data(1),
    PingFrame(0, b"12345678"),
    WindowUpdateFrame(0, 1000),
    headers(3, whole=False),
    continuation(3),
    continuation(3, whole=True),
    PriorityFrame(5, depends_on=3),
    data(3, b""),
    data(3, b"", end=True),
    RstStreamFrame(1, 8),
    UNKNOWN,
]


def test_what_is_ordinary_passes_as_it_is(gate):
    assert passed(gate, *ORDINARY) == raw(*ORDINARY)
    assert gate.overdone is None
    assert gate.last_stream == 3


@given(st.lists(st.integers(1, 30), min_size=1, max_size=50))
def test_any_cut_of_the_bytes_gives_the_same(sizes):
    gate = GateAndReader(0.0)
    rest, out = PREFACE + raw(*ORDINARY), b""
    whole = rest
    while rest:
        for size in sizes:
            gate.feed(rest[:size])
            rest = rest[size:]
            out += gate.take(0.0)
    while gate.waiting:
        out += gate.take(0.0)
    assert out == whole


def test_only_whole_frames_come_out(gate):
    one = raw(data())
    gate.feed(one + one[:-1])
    assert gate.take(0.0) == one
    assert not gate.waiting
    gate.feed(one[-1:])
    assert gate.waiting
    assert gate.take(0.0) == one


def test_a_frame_that_is_too_large_is_refused_by_its_header(gate):
    head = (limits.HTTP2_MAX_FRAME + 1).to_bytes(3, "big") + b"\x00\x00\x00\x00\x00\x01"
    gate.feed(raw(headers(1), data(1)) + head)
    assert gate.take(0.0) == raw(headers(1), data(1))
    assert gate.oversized
    gate.feed(raw(data(1)))
    assert not gate.waiting, "nothing behind it can be understood"
    assert gate.take(0.0) == b""


def test_a_turn_is_so_many_frames(gate):
    gate.feed(raw(*[data()] * (limits.HTTP2_FRAMES_PER_TURN + 1)))
    assert gate.take(0.0) == raw(*[data()] * limits.HTTP2_FRAMES_PER_TURN)
    assert gate.waiting
    assert gate.take(0.0) == raw(data())
    assert not gate.waiting


def test_header_blocks_take_more_of_a_turn(gate):
    small = [headers(number) for number in range(1, 101, 2)]
    gate.feed(raw(*small))
    assert len(parsed(gate.take(0.0))) <= 8
    passed(gate)
    block = bytes(4 * limits.HTTP2_FRAMES_PER_TURN)
    gate.feed(raw(headers(101, block), headers(103, block)))
    assert parsed(gate.take(0.0))[-1].stream_id == 101
    assert gate.waiting


# --- Rule 1 --------------------------------------------------------------------------------------


@pytest.mark.clause("2.1-4")
def test_goaway_is_kept_from_h2(gate):
    goes = GoAwayFrame(0, last_stream_id=0, error_code=0, additional_data=b"bye")
    assert passed(gate, headers(), goes, data()) == raw(headers(), data())
    assert gate.client_goes
    assert gate.overdone is None


@pytest.mark.parametrize(
    "broken", [frame(0x7, 0, 1, bytes(8)), frame(0x7, 0, 0, bytes(3)), frame(0x7, 0, 0, bytes(7))],
    ids=["on a stream", "of 3 bytes", "of 7 bytes"],
)  # fmt: skip
def test_a_goaway_that_is_none_is_left_to_h2(gate, broken):
    """Connection errors, both (RFC 9113 §6.8)."""
    assert passed(gate, broken) == broken
    assert not gate.client_goes


# --- Rule 2 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flood", "burst", "rate"),
    [
        (PingFrame(0, b"12345678"), limits.HTTP2_CONTROL_BURST, limits.HTTP2_CONTROL_RATE),
        (PingFrame(0, b"12345678", flags=["ACK"]), limits.HTTP2_CONTROL_BURST, 33),
        (PriorityFrame(1, depends_on=0), limits.HTTP2_CONTROL_BURST, 33),
        (UNKNOWN, limits.HTTP2_CONTROL_BURST, 33),
        (SettingsFrame(0, {4: 0}), limits.HTTP2_SETTINGS_BURST, limits.HTTP2_SETTINGS_RATE),
        (SettingsFrame(0), limits.HTTP2_SETTINGS_BURST, limits.HTTP2_SETTINGS_RATE),
    ],
    ids=["PING", "PONG", "PRIORITY", "unknown", "SETTINGS", "empty SETTINGS"],
)
def test_a_flood_of_control_frames_ends_at_the_gate(gate, flood, burst, rate):
    passed(gate, headers(1))
    assert passed(gate, *[flood] * burst) == raw(*[flood] * burst)
    assert gate.overdone is None
    assert passed(gate, *[flood] * 5000, data(1)) == raw(data(1))
    assert gate.overdone == "control frames"
    # What is due by the rate still passes: a ping of the good stream's, now and then.
    seconds = 1.0 / rate * 1.01
    assert passed(gate, flood, flood, now=seconds) == raw(flood)


def test_header_blocks_end_at_the_gate(gate):
    """Requests that are made and answered; what they cost, they cost in full."""
    burst = [headers(2 * number + 1) for number in range(1000 + limits.HTTP2_HEADERS_BURST)]
    assert passed(gate, *burst) == raw(*burst)
    assert gate.overdone is None
    last = gate.last_stream
    assert passed(gate, headers(last + 2), data(last + 2), data(last)) == raw(data(last))
    assert gate.overdone == "header blocks"
    assert gate.last_stream == last
    # The end of a stream that its trailers say is understood all the same.
    assert passed(gate, headers(last, end=True)) == raw(data(last, b"", end=True))


def test_large_header_blocks_count_for_more(gate):
    """14 KiB: one, and ten for what is over 4 KiB."""
    block = bytes(14 * limits.KIB)
    whole = (1000 + limits.HTTP2_HEADERS_BURST) // 11
    burst = [headers(2 * number + 1, block) for number in range(whole)]
    passed(gate, *burst)
    assert gate.overdone is None
    assert passed(gate, headers(1001, block)) == raw(headers(1001, block)), "it was within"
    assert gate.overdone == "header blocks"


def test_many_headers_count_for_more(gate):
    """64 of them are one block more."""
    for number in range((1000 + limits.HTTP2_HEADERS_BURST) // 5):
        passed(gate, headers(2 * number + 1))
        gate.headers_decoded(4 * limits.MAX_HEADERS, 0, 0.0)
        assert gate.overdone is None
    gate.headers_decoded(limits.MAX_HEADERS - 1, 0, 0.0)
    assert gate.overdone is None
    gate.headers_decoded(limits.MAX_HEADERS, 0, 0.0)
    assert gate.overdone == "header blocks"


def test_large_headers_count_for_more_once_they_are_decoded(gate):
    """A byte may refer to an entry of thousands: each KiB over four is one block more."""
    large = limits.HTTP2_LARGE_HEADERS + 4 * limits.KIB
    for number in range((1000 + limits.HTTP2_HEADERS_BURST) // 5):
        passed(gate, headers(2 * number + 1))
        gate.headers_decoded(3, large, 0.0)
        assert gate.overdone is None
    gate.headers_decoded(3, limits.HTTP2_LARGE_HEADERS + limits.KIB - 1, 0.0)
    assert gate.overdone is None
    gate.headers_decoded(3, limits.HTTP2_LARGE_HEADERS + limits.KIB, 0.0)
    assert gate.overdone == "header blocks"


def test_as_many_streams_may_begin_at_once_as_may_be_open():
    gate = GateAndReader(0.0, max_streams=5000)
    burst = [headers(2 * number + 1) for number in range(5000)]
    gate.feed(PREFACE)
    assert passed(gate, *burst) == PREFACE + raw(*burst)
    assert gate.overdone is None


def test_rapid_reset_ends_at_the_gate(gate):
    passed(gate, headers(1))
    pairs = [
        frame
        for number in range(1, limits.HTTP2_RESET_BURST + 2)
        for frame in (headers(2 * number + 1), RstStreamFrame(2 * number + 1, 8))
    ]
    assert passed(gate, *pairs) == raw(*pairs)
    assert gate.overdone == "resets"
    new = gate.last_stream + 2
    later = [headers(new), data(new), RstStreamFrame(new, 8)]
    assert passed(gate, *later, data(1)) == raw(data(1))
    assert gate.owed_credit == 100, "what was dropped is owed to the connection"


def test_resets_that_h2_makes_for_the_client_count_too(gate):
    """CVE-2025-8671: a zero increment makes the server reset, and nobody had counted that."""
    for _ in range(limits.HTTP2_RESET_BURST):
        gate.reset_provoked(0.0)
    assert gate.overdone is None
    gate.reset_provoked(0.0)
    assert gate.overdone == "resets"


# --- Rule 3 --------------------------------------------------------------------------------------


def test_window_updates_are_added_up_beyond_their_bucket(gate):
    passed(gate, headers(1), headers(3))
    ordinary = [WindowUpdateFrame(1, 1)] * limits.HTTP2_WINDOW_UPDATE_BURST
    assert passed(gate, *ordinary) == raw(*ordinary)
    flood = [WindowUpdateFrame(1, 1), WindowUpdateFrame(0, 5), WindowUpdateFrame(3, 2**31 - 1)] * 20
    frames = parsed(passed(gate, *flood))
    assert {(found.stream_id, found.window_increment) for found in frames} == {
        (1, 20), (0, 100), (3, 2**31 - 1),
    }  # fmt: skip
    assert gate.overdone is None


def test_a_window_update_of_nothing_is_left_to_h2(gate):
    passed(gate, headers(1), *[WindowUpdateFrame(1, 1)] * limits.HTTP2_WINDOW_UPDATE_BURST)
    nothing = frame(0x8, 0, 1, bytes(4))
    gate.feed(nothing)
    assert gate.take(0.0) == nothing


# --- Rule 4 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [b"", b"x", bytes(limits.HTTP2_TINY_DATA)])
def test_a_stream_of_tiny_data_is_to_be_reset(gate, payload):
    passed(gate, headers(1), headers(3))
    flood = [data(1, payload)] * (limits.HTTP2_TINY_BURST + 1)
    assert passed(gate, *flood) == raw(*flood)
    assert gate.overdoing == {1}
    assert gate.overdone is None
    gate.stream_reset(1)
    gate.overdoing.clear()
    assert passed(gate, *flood[:100], data(3, payload)) == raw(data(3, payload))
    assert gate.owed_credit == 100 * len(payload)
    assert gate.overdoing == set(), "whoever has sent few of them is left alone"


def test_data_that_holds_an_event_is_never_tiny(gate):
    passed(gate, headers(1))
    flood = [data(1, bytes(limits.HTTP2_TINY_DATA + 1))] * (2 * limits.HTTP2_TINY_BURST)
    assert passed(gate, *flood) == raw(*flood)
    assert gate.overdoing == set()


# --- Rule 5 --------------------------------------------------------------------------------------


def test_a_header_block_is_held_until_it_is_whole(gate):
    begin = [headers(1, whole=False), continuation(1)]
    assert passed(gate, *begin) == b""
    assert passed(gate, continuation(1, whole=True)) == raw(*begin, continuation(1, whole=True))


@pytest.mark.parametrize(
    "block",
    [
        [headers(3, whole=False), *[continuation(3, b"")] * 20_000],
        [headers(3, bytes(16_000), whole=False), *[continuation(3, bytes(16_000))] * 5],
    ],
    ids=["many frames", "many bytes"],
)
def test_a_header_block_that_is_too_large_is_dropped(gate, block):
    passed(gate, headers(1))
    assert passed(gate, *block) == b""
    assert gate.overdone == "a header block"
    assert passed(gate, continuation(3, whole=True)) == b""
    # The good stream goes on, and its end is understood though its trailers are not.
    assert passed(gate, data(1)) == raw(data(1))
    assert passed(gate, headers(1, b"\xbe", end=True)) == raw(data(1, b"", end=True))
    assert passed(gate, headers(5), data(5)) == b""


#: Changes of the table's size to 0, and to 4,096 in three bytes (RFC 7541 §5.1, §6.3).
NONE, WHOLE = b"\x20", b"\x3f\xe1\x1f"


@pytest.mark.parametrize("updates", [NONE, WHOLE, NONE + WHOLE], ids=bytes.hex)
def test_changes_of_the_tables_size_that_hpack_needs_pass(gate, updates):
    frames = [headers(1, updates + b"\x82"), headers(3, updates[:1], whole=False)]
    frames.append(continuation(3, updates[1:] + b"\x82", whole=True))
    assert passed(gate, *frames) == raw(*frames)
    assert gate.overdone is None


@pytest.mark.parametrize(
    "frames",
    [
        [headers(1, NONE * 3 + b"\x82")],
        [headers(1, WHOLE * 3 + b"\x82")],
        [headers(1, b"", whole=False), continuation(1, NONE + WHOLE + NONE, whole=True)],
        [headers(1, WHOLE[:2], whole=False), continuation(1, WHOLE[2:] + NONE * 2, whole=True)],
        [
            HeadersFrame(
                1,
                NONE * 3 + b"\x82",
                pad_length=7,
                flags=["PADDED", "PRIORITY", "END_HEADERS"],
            )
        ],
    ],
    ids=["short", "long", "continued", "cut", "padded"],
)
def test_more_of_them_are_a_header_block_that_is_dropped(gate, frames):
    """16,000 of them in one block held the loop for 80 ms and more."""
    assert passed(gate, *frames) == b""
    assert gate.overdone == "a header block"


def test_a_header_block_that_never_ends_holds_nothing(gate):
    passed(gate, headers(1))
    assert passed(gate, headers(3, whole=False), *[continuation(3, b"")] * 1000, data(1)) == raw(
        data(1)
    )


@pytest.mark.parametrize("piece", [1000, 16_384, 65_536])
@pytest.mark.parametrize("size", [16_384, 16_000, 9_000])
def test_a_header_block_that_is_not_whole_holds_64_kib_at_most(gate, size, piece):
    """With the frame that is not whole: once that announces too much, the block is dropped."""
    sent = raw(headers(1, bytes(size), whole=False), *[continuation(1, bytes(size))] * 8)[:-1]
    most = 0
    for at in range(0, len(sent), piece):
        gate.feed(sent[at : at + piece])
        while gate.waiting:
            assert gate.take(0.0) == b""
        most = max(most, gate.held_in_all)
    assert most <= limits.HTTP2_MAX_HEADER_BLOCK
    assert gate.overdone == "a header block"
    assert gate.held_in_all < size + 100, "the frame that is not whole is all that is left"


def test_a_frame_inside_a_header_block_is_left_to_h2(gate):
    begin = headers(1, whole=False)
    assert passed(gate, begin, PingFrame(0, b"12345678")) == raw(begin, PingFrame(0, b"12345678"))


def test_a_continuation_of_nothing_is_left_to_h2(gate):
    assert passed(gate, continuation(1)) == raw(continuation(1))


# --- Rule 6 --------------------------------------------------------------------------------------


def test_closed_to_new_streams(gate):
    passed(gate, headers(1))
    gate.close_to_new()
    assert passed(gate, headers(3), data(3), WindowUpdateFrame(3, 1), RstStreamFrame(3)) == b""
    assert passed(gate, data(1), WindowUpdateFrame(1, 1)) == raw(data(1), WindowUpdateFrame(1, 1))
    assert gate.owed_credit == 100
    assert gate.last_stream == 1


def test_late_frames_of_a_stream_that_we_reset(gate):
    passed(gate, headers(1), headers(3))
    gate.stream_reset(1)
    assert passed(gate, data(1), WindowUpdateFrame(1, 1), data(3)) == raw(data(3))
    assert gate.owed_credit == 100
    assert passed(gate, RstStreamFrame(1)) == b""
    assert passed(gate, RstStreamFrame(3)) == raw(RstStreamFrame(3))


@pytest.mark.parametrize("by", ["its client", "both sides' end"])
def test_data_on_a_stream_that_is_over_counts_as_a_reset(gate, by):
    """Each of them is to be answered with one."""
    passed(gate, headers(1), headers(3))
    if by == "its client":
        passed(gate, RstStreamFrame(3, 8))
    else:
        gate.stream_over(3)
    assert passed(gate, WindowUpdateFrame(3, 1)) == b"", "that one may come late"
    late = [data(3, b"")] * (limits.HTTP2_RESET_BURST - (by == "its client"))
    assert passed(gate, *late) == b""
    assert gate.overdone is None
    assert gate.closed_streams == [3] * len(late)
    assert passed(gate, data(3), data(1)) == raw(data(1))
    assert gate.overdone == "resets"
    assert len(gate.closed_streams) == len(late)
    assert gate.owed_credit == 100


def test_only_so_many_streams_that_we_reset_are_remembered(gate):
    for number in range(limits.HTTP2_RESET_REMEMBERED + 1):
        gate.stream_reset(2 * number + 1)
    assert passed(gate, data(1)) == raw(data(1))
    assert passed(gate, data(3)) == b""


# --- Bytes ---------------------------------------------------------------------------------------


@given(st.binary(max_size=300))
def test_garbage_raises_nothing(garbage):
    gate = GateAndReader(0.0)
    gate.feed(PREFACE + garbage)
    gate.take(0.0)
    while gate.waiting:
        gate.take(0.0)


def test_answers_to_our_own_pings_are_counted_against_nobody(gate):
    """1,000 streams ping once a minute each, and more often if an endpoint says so."""
    pong = PingFrame(0, b"12345678", flags=["ACK"])
    for _ in range(3 * limits.HTTP2_CONTROL_BURST):
        gate.ping_sent()
        assert passed(gate, pong) == raw(pong)
    assert gate.overdone is None
    flood = passed(gate, *[pong] * 2 * limits.HTTP2_CONTROL_BURST)
    assert flood == raw(*[pong] * limits.HTTP2_CONTROL_BURST)
    assert gate.overdone == "control frames"


def test_headers_on_finished_streams_provoke_nothing_once_headers_are_lost(gate):
    passed(gate, headers(1), headers(3))
    gate.stream_over(1)
    assert passed(gate, headers(5, bytes(16_000), whole=False), *[continuation(5)] * 9) == b""
    assert passed(gate, continuation(5, whole=True), headers(1, end=True)) == b""
    assert passed(gate, headers(3, end=True)) == raw(data(3, b"", end=True))
