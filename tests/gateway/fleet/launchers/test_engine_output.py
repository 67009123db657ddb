"""partway.gateway.fleet.launchers.engine_output: an engine's stream, byte by byte, cut anywhere."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.fleet.launchers.engine_output import EngineOutput, EngineOutputError
from partway.gateway.fleet.limits import ENGINE_LOG_ENTRY

#: Three entries of the same moment, then two of later ones.
TIMES = (
    b"2026-11-22T16:31:15.000000001Z",
    b"2026-11-22T16:31:15.000000001Z",
    b"2026-11-22T16:31:15.000000001Z",
    b"2026-11-22T16:31:15.900000000Z",
    b"2026-11-22T16:31:16.000000000Z",
)


def entry(text: bytes, output: int = 1) -> bytes:
    return struct.pack(">BxxxI", output, len(text)) + text


def stamped(number: int, text: bytes) -> bytes:
    return entry(TIMES[number] + b" " + text, 1 + number % 2)


#: The same text three times: nothing but their number tells them apart.
TEXTS = (b"again\n", b"again\n", b"again\n", b"\xff no text\n", b"")
STREAM = b"".join(stamped(number, text) for number, text in enumerate(TEXTS))


def test_it_begins_where_it_is_wanted():
    output = EngineOutput(1_700_000_000)
    assert output.since == 1_700_000_000
    output.begin()
    output.feed(STREAM)
    assert output.since > 1_700_000_000


def test_both_outputs_in_their_order_without_their_times():
    output = EngineOutput()
    output.begin()
    assert b"".join(output.feed(STREAM)) == b"".join(TEXTS)


def test_byte_by_byte():
    output = EngineOutput()
    output.begin()
    found = [piece for byte in STREAM for piece in output.feed(bytes((byte,)))]
    assert b"".join(found) == b"".join(TEXTS)


@given(st.lists(st.integers(0, len(STREAM)), max_size=4))
def test_wherever_it_is_cut_nothing_is_lost_and_nothing_comes_twice(cuts):
    output = EngineOutput()
    found = []
    for cut in [*cuts, len(STREAM)]:
        output.begin()
        assert output.since <= 1795365076
        found += output.feed(STREAM[:cut])
    assert b"".join(found) == b"".join(TEXTS)


def test_the_next_stream_is_asked_for_from_the_last_second_on():
    output = EngineOutput()
    assert output.since == 0
    output.feed(stamped(3, b"x"))
    assert output.since == 1795365075
    output.feed(entry(b"2026-11-22T17:31:15.5+01:00 y"))
    assert output.since == 1795365075


def test_what_the_engine_no_longer_has_is_not_waited_for():
    """It keeps so many bytes, and the last that was seen may be gone."""
    output = EngineOutput()
    output.feed(stamped(0, b"a") + stamped(1, b"b"))
    output.begin()
    assert output.feed(stamped(3, b"c") + stamped(4, b"d")) == [b"c", b"d"]


def test_an_entry_without_a_time_is_passed_on():
    output = EngineOutput()
    assert output.feed(entry(b"no time is here") + entry(b"2026")) == [b"no time is here", b"2026"]


def test_an_entry_of_any_size_is_held_in_bounds():
    output = EngineOutput()
    text = b"x" * (3 * ENGINE_LOG_ENTRY)
    data = stamped(0, text) + stamped(3, b"next")
    found = []
    for at in range(0, len(data), 1000):
        found += output.feed(data[at : at + 1000])
        assert len(output._buffer) <= ENGINE_LOG_ENTRY + 1008
    assert b"".join(found) == text + b"next"
    output.begin()
    assert output.feed(data + stamped(4, b"last")) == [b"last"], "none of it comes twice"


@pytest.mark.parametrize("data", [b"HTTP/1.1 500", b"\x04\0\0\0\0\0\0\1x", b"\1\0\1\0\0\0\0\1x"])
def test_what_is_no_such_stream(data):
    with pytest.raises(EngineOutputError, match="was found where an entry must begin"):
        EngineOutput().feed(data)
