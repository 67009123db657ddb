from __future__ import annotations

import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    WindowUpdateFrame,
)

from partway.protocol.http2.frames import (
    DATA,
    END_STREAM,
    HEADERS,
    frame,
    goaway,
    header_fragment,
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
