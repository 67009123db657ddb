"""partway.gateway.client.server_frames: what h2 sees of a server's frames, however they are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, PingFrame, SettingsFrame
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.client.server_frames import BadFrames, Goaway, ServerFrames

SETTINGS = SettingsFrame(0, settings={4: 100}).serialize()


def taken(frames: ServerFrames, data: bytes, cuts: list[int]) -> bytes:
    edges = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(edges)]
    return b"".join(kept for piece in pieces for kept in frames.take(piece))


any_frame = st.one_of(
    st.builds(lambda data: DataFrame(1, data), st.binary(max_size=300)),
    st.builds(lambda data: PingFrame(0, data), st.binary(min_size=8, max_size=8)),
    st.builds(
        lambda last, code, more: GoAwayFrame(0, last, code, additional_data=more),
        st.integers(0, 2**31 - 1),
        st.integers(0, 2**32 - 1),
        st.binary(max_size=30),
    ),
)


@pytest.mark.clause("2.1-4")
@given(st.lists(any_frame, max_size=6), st.lists(st.integers(0, 2000), max_size=8))
def test_all_but_goaway_comes_through(after: list[Frame], cuts: list[int]):
    data = SETTINGS + b"".join(each.serialize() for each in after)
    frames = ServerFrames()
    kept = taken(frames, data, [min(cut, len(data)) for cut in cuts])
    others = [each for each in after if not isinstance(each, GoAwayFrame)]
    assert kept == SETTINGS + b"".join(each.serialize() for each in others)
    goaways = [each for each in after if isinstance(each, GoAwayFrame)]
    last = goaways[-1] if goaways else None
    assert frames.goaway == (last and Goaway(last.last_stream_id, last.error_code))
    assert frames.begun


def test_a_goaway_that_is_none_is_for_the_library_to_refuse():
    for head in (b"\0\0\x04\x07\0" + bytes(4), b"\0\0\x08\x07\0\0\0\0\x01"):
        frames = ServerFrames()
        data = SETTINGS + head + bytes(head[2])
        assert taken(frames, data, []) == data
        assert frames.goaway is None


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"HTTP/1.1 505 No\r\n", "speaks HTTP/1.1"),
        (b"HTTP/1.0 400 Bad\r\n", "speaks HTTP/1.1"),
        (PingFrame(0, bytes(8)).serialize(), "first bytes are not HTTP/2"),
        (b"\xff" * 9, "first bytes are not HTTP/2"),
    ],
)
def test_the_first_frame_is_settings(first, why):
    frames = ServerFrames()
    with pytest.raises(BadFrames, match=why):
        taken(frames, first, list(range(len(first))))
    assert not frames.begun


def test_a_frame_is_refused_by_its_head():
    frames = ServerFrames()
    assert taken(frames, SETTINGS + b"\0\x40\0\0\0\0\0\0\x01", []).endswith(b"\x01"), "16 KiB"
    frames = ServerFrames()
    with pytest.raises(BadFrames, match="too large"):
        taken(frames, SETTINGS + b"\0\x40\x01\0\0\0\0\0\x01", [])
