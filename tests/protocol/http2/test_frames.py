from __future__ import annotations

import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    WindowUpdateFrame,
)
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.http2.frames import (
    DATA,
    END_STREAM,
    HEADERS,
    HTTP2_PREFACE,
    FirstBytes,
    frame,
    goaway,
    header_fragment,
    opening_of,
    size_updates,
    window_update,
)


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


def test_frames_of_our_own():
    assert window_update(77, 5) == WindowUpdateFrame(5, 77).serialize()
    assert goaway(9, 11) == GoAwayFrame(0, last_stream_id=9, error_code=11).serialize()
    ended = DataFrame(3, b"ab", flags=["END_STREAM"])
    assert frame(DATA, END_STREAM, 3, b"ab") == ended.serialize()


@pytest.mark.parametrize("flags", [[], ["PADDED"], ["PRIORITY"], ["PADDED", "PRIORITY"]], ids=str)
def test_the_piece_of_a_header_block_in_a_frame(flags):
    padding = 3 if "PADDED" in flags else 0
    assert header_fragment(HeadersFrame(1, b"ab", pad_length=padding, flags=flags).serialize()) == (
        b"ab"
    )
    assert header_fragment(ContinuationFrame(1, b"ab").serialize()) == b"ab"


@pytest.mark.parametrize("flags", range(256))
def test_a_frame_that_breaks_off_has_no_piece(flags):
    assert header_fragment(frame(HEADERS, flags, 1)) == b""


@pytest.mark.parametrize(
    ("block", "count"),
    [
        (b"", 0),
        (b"\x82\x20", 0),
        (b"\x20\x82\x20", 1),
        (b"\x3f\xe1\x1f\x20\x82", 2),
        (b"\x3f\xe1", 1),
        (b"\x20" * 100, 5),
    ],
)
def test_how_often_a_block_begins_by_changing_the_tables_size(block, count):
    assert size_updates(block, 5) == count


@pytest.mark.parametrize("size", range(24))
def test_a_beginning_of_the_preface_decides_nothing(size):
    assert opening_of(HTTP2_PREFACE[:size]) is FirstBytes.UNDECIDED


@pytest.mark.parametrize("behind", [b"", b"\x00", b"PRI * HTTP/2.0\r\n"])
def test_the_whole_preface_is_http2(behind):
    assert len(HTTP2_PREFACE) == 24
    assert opening_of(HTTP2_PREFACE + behind) is FirstBytes.HTTP2


@pytest.mark.parametrize("at", range(24))
def test_one_wrong_byte_anywhere_is_left_to_http1(at):
    wrong = HTTP2_PREFACE[:at] + bytes([HTTP2_PREFACE[at] ^ 0x20])
    assert opening_of(wrong) is FirstBytes.HTTP1
    assert opening_of(wrong + HTTP2_PREFACE[at + 1 :]) is FirstBytes.HTTP1


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        (b"", FirstBytes.UNDECIDED),
        (b"P", FirstBytes.UNDECIDED),
        (b"PR", FirstBytes.UNDECIDED),
        (b"PU", FirstBytes.HTTP1),
        (b"POST / HTTP/1.1\r\n", FirstBytes.HTTP1),
        (b"PRI / HTTP/1.1\r\n", FirstBytes.HTTP1),
        (b"GET / HTTP/1.1\r\n", FirstBytes.HTTP1),
        (b"\x16\x03\x01", FirstBytes.HTTP1),
        (b"\n", FirstBytes.HTTP1),
    ],
)
def test_methods_and_garbage(received, expected):
    assert opening_of(received) is expected


@given(st.binary())
def test_a_decision_stands_whatever_follows(received):
    for size in range(len(received) + 1):
        decided = opening_of(received[:size])
        if decided is not FirstBytes.UNDECIDED:
            assert opening_of(received) is decided
            return
    assert len(received) < 24
