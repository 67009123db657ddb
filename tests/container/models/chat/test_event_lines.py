"""partway.container.models.chat.event_lines: data, wherever the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.models.chat.event_lines import MAX_EVENT_BYTES, EventLines, EventTooLong

STREAM = (
    b': comment\n\nevent: x\ndata: {"a":1}\nid: 7\n\ndata:b\r\ndata: c\r\n\r\ndata\n\n'
    b"data: d\r\rdata: cut"
)
FOUND = [b'{"a":1}', b"b\nc", b"d"]


@given(st.lists(st.integers(0, len(STREAM))))
def test_events_wherever_they_are_cut(cuts):
    lines = EventLines()
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[begin:end] for begin, end in pairwise(places)]
    assert [data for piece in pieces for data in lines.add(piece)] == FOUND


@pytest.mark.parametrize(
    "piece",
    [
        b"a" * 60_000,
        b"data: " + b"a" * 60_000 + b"\n",
        b": comment\n" * 6_000,
        b": comment\r\n\r\n" * 6_000,
        b"\n" * 60_000,
        b"id: 7\n\n" * 6_000,
    ],
)
def test_too_many_bytes_without_an_event(piece):
    lines = EventLines()
    for _ in range(MAX_EVENT_BYTES // len(piece)):
        assert list(lines.add(piece)) == []
    with pytest.raises(EventTooLong, match=f"more than {MAX_EVENT_BYTES} bytes"):
        list(lines.add(piece * 10))


def test_an_event_begins_a_new_count():
    lines = EventLines()
    for _ in range(3):
        assert list(lines.add(b":\n" * (MAX_EVENT_BYTES // 4))) == []
        assert list(lines.add(b"data: a\n\n")) == [b"a"]
