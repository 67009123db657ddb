"""What faults make of frames, byte for byte, however the bytes were cut into reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.workbench.intermediary.faults import (
    CloseEarly,
    Cut,
    DropPongs,
    Empty,
    Fault,
    Split,
    Stall,
)
from partway.gateway.workbench.intermediary.frame_faults import (
    Piece,
    RawFrames,
    Spoiler,
    SpoilerState,
)
from tests.frame_factory import BINARY, CONTINUATION, PING, PONG, TEXT, close, frame

HI, HO, HU = frame(TEXT, b"hi"), frame(BINARY, b"ho"), frame(TEXT, b"hu")


class Stream:
    """A container's bytes, spoiled."""

    def __init__(self, *faults: Fault) -> None:
        self.applied: list[Fault] = []
        self.spoiler = Spoiler(faults, self.applied.append)
        self.frames = RawFrames()
        self.pieces = self.spoiler.begin()

    def say(self, *pieces: bytes) -> bytes:
        """All that the gateway has got once the container has said this too."""
        for data in pieces:
            for piece in self.frames.feed(data):
                self.pieces += self.spoiler.spoil(piece)
        return b"".join(piece.data for piece in self.pieces)


# --- Frames with their bytes ---------------------------------------------------------------------

payloads = st.binary(max_size=300) | st.sampled_from([b"\0" * 65_535, b"\0" * 65_536])
messages = st.builds(
    lambda kind, parts: [
        frame(CONTINUATION if at else kind, part, fin=at == len(parts) - 1)
        for at, part in enumerate(parts)
    ],
    st.sampled_from([TEXT, BINARY]),
    st.lists(payloads, min_size=1, max_size=4),
)
controls = st.builds(
    lambda kind, p: [frame(kind, p)], st.sampled_from([PING, PONG]), st.binary(max_size=125)
)
ends = st.sampled_from(
    [
        [],
        [close(1000), b"behind it"],
        [frame(TEXT, b"x", rsv=4), b"and more"],
        [close(1005), HI],
        [frame(3, b"unknown"), HI],
        [frame(TEXT, b"masked", mask=b"1234")],
        [frame(BINARY, length_form=64, announced=1 << 40), b"some of it"],
        [HI[:-1]],
    ]
)


@given(st.lists(messages | controls, max_size=6), ends, st.data())
def test_every_byte_passes_once_and_in_order(spoken, end, data):
    whole = b"".join(each for frames in spoken for each in frames) + b"".join(end)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    frames = RawFrames()
    pieces = [
        piece
        for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True)
        for piece in frames.feed(whole[start:stop])
    ]
    assert b"".join(piece.data for piece in pieces) + frames.rest() == whole
    expected = [each for frames in spoken for each in frames] + (
        end[:1] if end and end[0] == close(1000) else []
    )
    assert [piece.data for piece in pieces if piece.frame is not None] == expected


def test_a_frame_knows_what_it_is():
    (piece,) = RawFrames().feed(frame(TEXT, b"hi", fin=False))
    assert piece == Piece(frame(TEXT, b"hi", fin=False), (TEXT, b"hi", False))


# --- Ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (CloseEarly(1011, "why", 0), close(1011, b"why")),
        (CloseEarly(1011, "why", 1), HI + close(1011, b"why")),
        (CloseEarly(1005, after=2), HI + HO + close()),
        (CloseEarly(4999, after=3), HI + HO + HU + close(4999)),
        (CloseEarly(after=4), HI + HO + HU),
        (Stall(0), b""),
        (Stall(2), HI + HO),
        (Stall(4), HI + HO + HU),
        (Cut(0), HI[:2]),
        (Cut(1, at=0), HI),
        (Cut(1, at=1), HI + HO[:1]),
        (Cut(1, at=3), HI + HO[:3]),
        (Cut(1, at=4), HI + HO[:3]),
        (Cut(1, at=99), HI + HO[:3]),
        (Cut(3), HI + HO + HU),
    ],
)
def test_an_end_behind_so_many_parts(fault, expected):
    stream = Stream(fault)
    assert stream.say(HI, HO, HU) == expected
    happened = fault.after < 3 or (fault.after == 3 and not isinstance(fault, Cut))
    assert stream.applied == [fault] * happened


@pytest.mark.parametrize(
    ("fault", "state", "passing"),
    [
        (CloseEarly(after=1), SpoilerState.CLOSED, b""),
        (Cut(after=0), SpoilerState.CUT, b""),
        (Stall(after=1), SpoilerState.STALLED, frame(PING, b"p") + frame(PONG, b"q")),
    ],
)
def test_what_passes_behind_an_end(fault, state, passing):
    stream = Stream(fault)
    before = stream.say(HI)
    assert stream.spoiler.state is state
    after = stream.say(
        HO, frame(PING, b"p"), frame(PONG, b"q"), close(1000), b"and what is no frame"
    )
    assert after == before + passing


def test_pings_are_no_parts():
    stream = Stream(CloseEarly(after=1))
    assert stream.say(frame(PING, b"p"), HI) == frame(PING, b"p") + HI + close(1011)


# --- Fragments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "said", "expected"),
    [
        ([Split(2)], [HI], [frame(TEXT, b"h", fin=False), frame(CONTINUATION, b"i")]),
        (
            [Split(2)],
            [frame(TEXT, "é".encode())],
            [frame(TEXT, b"\xc3", fin=False), frame(CONTINUATION, b"\xa9")],
        ),
        ([Split(9)], [HI], [frame(TEXT, b"h", fin=False), frame(CONTINUATION, b"i")]),
        ([Split(2)], [frame(TEXT), frame(BINARY, b"1")], [frame(TEXT), frame(BINARY, b"1")]),
        (
            [Split(3)],
            [frame(BINARY, b"12345", fin=False), frame(PING), frame(CONTINUATION, b"ab")],
            [
                frame(BINARY, b"1", fin=False),
                frame(CONTINUATION, b"23", fin=False),
                frame(CONTINUATION, b"45", fin=False),
                frame(PING),
                frame(CONTINUATION, b"a", fin=False),
                frame(CONTINUATION, b"b"),
            ],
        ),
        (
            [Empty(1)],
            [HI],
            [frame(TEXT, fin=False), frame(CONTINUATION, b"hi", fin=False), frame(CONTINUATION)],
        ),
        (
            [Empty(2)],
            [frame(TEXT, b"hi", fin=False), frame(CONTINUATION, b"ho")],
            [
                frame(TEXT, fin=False),
                frame(CONTINUATION, fin=False),
                frame(CONTINUATION, b"hi", fin=False),
                frame(CONTINUATION, fin=False),
                frame(CONTINUATION, fin=False),
                frame(CONTINUATION, b"ho", fin=False),
                frame(CONTINUATION),
            ],
        ),
        (
            [Empty(1), Split(2)],
            [HI],
            [
                frame(TEXT, fin=False),
                frame(CONTINUATION, b"h", fin=False),
                frame(CONTINUATION, fin=False),
                frame(CONTINUATION, b"i", fin=False),
                frame(CONTINUATION),
            ],
        ),
        (
            [Split(2), CloseEarly(after=1)],
            [HI, HO],
            [frame(TEXT, b"h", fin=False), frame(CONTINUATION, b"i"), close(1011)],
        ),
        (
            [Split(2), Cut(after=0, at=4)],
            [HI],
            [frame(TEXT, b"h", fin=False), frame(CONTINUATION, b"i")[:1]],
        ),
    ],
)
def test_parts_become_fragments(faults, said, expected):
    assert Stream(*faults).say(*said) == b"".join(expected)


def test_dropped_pongs_are_all_that_is_missing():
    stream = Stream(DropPongs())
    said = [frame(PING, b"p"), frame(TEXT, b"h", fin=False), frame(CONTINUATION, b"i"), close(1000)]
    assert stream.say(*(said[:2]), frame(PONG, b"q"), *(said[2:])) == b"".join(said)
    assert stream.applied == [DropPongs()]


@pytest.mark.parametrize("fault", [Split(2), CloseEarly(after=9), DropPongs()])
def test_a_fault_of_the_containers_own_passes_as_it_was(fault):
    wrong = frame(TEXT, b"wrong", rsv=1) + HO
    assert Stream(fault).say(frame(BINARY, b"1"), wrong) == frame(BINARY, b"1") + wrong
