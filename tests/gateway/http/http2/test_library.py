"""The short way for plain DATA, beside h2's own way with the same bytes."""

from __future__ import annotations

import pytest
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived
from h2.exceptions import ProtocolError
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    WindowUpdateFrame,
)
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.http.http2.connection import Http2FrameReader
from partway.gateway.http.http2.library import ServerLibrary, server_library
from partway.protocol.http2.flood_gate import FrameGate
from partway.protocol.http2.frames import END_HEADERS
from partway.protocol.http2.preface import HTTP2_PREFACE
from tests.gateway.http.http2.connection_parts import OPENING, head
from tests.wire.floods import raw


def opened(*frames: Frame) -> ServerLibrary:
    library = server_library()
    library.receive_data(OPENING + raw(*(frames or (head(1), head(3)))))
    library.clear_outbound_data_buffer()
    return library


def state(library: H2Connection) -> object:
    windows = [
        (
            stream.stream_id,
            stream.state_machine.state,
            stream.inbound_flow_control_window,
            stream.outbound_flow_control_window,
        )
        for stream in library.streams.values()
    ]
    return (
        windows,
        library.inbound_flow_control_window,
        library.outbound_flow_control_window,
        library.state_machine.state,
    )


class OpenGate(FrameGate):
    """One that lets everything pass."""

    in_block = False

    def takes_data(self, *_: object) -> bool:
        return True

    def instead(self, whole: bytes, kind: int, flags: int, *_: object) -> None:
        if kind in (HeadersFrame.type, ContinuationFrame.type):
            self.in_block = not flags & END_HEADERS


class Told:
    """Stands for a connection's streams: writes down what it is told."""

    def __init__(self) -> None:
        self.found: list[object] = []
        self.open = {number: ToldData(number, self.found) for number in (1, 3, 5, 7)}

    def handle(self, event: object, now: float) -> None:
        self.found.append(repr(event))


class ToldData:
    def __init__(self, number: int, found: list[object]) -> None:
        self._number = number
        self._found = found

    def data_received(self, data: bytes, size: int) -> None:
        self._found.append((self._number, data, size))


def receive(library: ServerLibrary, data: bytes, told: Told | None = None) -> None:
    """Have frames read, behind a preface that the library has seen."""
    see, library.receive_data = library.receive_data, lambda data: see(data[len(HTTP2_PREFACE) :])
    reader = Http2FrameReader(OpenGate(0.0), library, told or Told(), None)
    reader.feed(HTTP2_PREFACE)
    reader.take_turn(0.0)
    library.receive_data = see
    reader.feed(data)
    reader.take_turn(0.0)


def seen(library: ServerLibrary, data: bytes, *, plainly: bool) -> tuple[object, ...]:
    """Read frames; returns events, an error, bytes to send, and the state of the library."""
    told = Told()
    error = None
    try:
        if plainly:
            receive(library, data, told)
        else:
            for event in library.receive_data(data):
                if isinstance(event, DataReceived):
                    size = event.flow_controlled_length
                    told.found.append((event.stream_id, event.data, size))
                else:
                    told.handle(event, 0.0)
    except ProtocolError as raised:
        error = (type(raised), raised.error_code)
    return told.found if error is None else None, error, library.data_to_send(), state(library)


stream_ids = st.sampled_from([1, 3, 5])
frames = st.one_of(
    st.builds(DataFrame, stream_ids, st.binary(max_size=40)),
    st.builds(DataFrame, stream_ids, st.just(bytes(16_384))),
    st.builds(
        DataFrame,
        stream_ids,
        st.binary(max_size=20),
        pad_length=st.integers(0, 20),
        flags=st.just(["PADDED"]),
    ),
    st.builds(DataFrame, stream_ids, st.binary(max_size=20), flags=st.just(["END_STREAM"])),
    st.builds(RstStreamFrame, stream_ids, st.just(8)),
    st.builds(WindowUpdateFrame, st.sampled_from([0, 1, 3]), st.integers(1, 9)),
    st.builds(PingFrame, st.just(0), st.just(bytes(8))),
    st.builds(head, st.sampled_from([5, 7]), flags=st.sampled_from([(), ("END_HEADERS",)])),
    st.builds(ContinuationFrame, st.sampled_from([5, 7]), flags=st.just(["END_HEADERS"])),
)


@given(st.lists(frames, max_size=12))
def test_frames_mean_what_they_mean_to_h2(those):
    data = raw(*those)
    assert seen(opened(), data, plainly=True) == seen(opened(), data, plainly=False)


def test_plain_data_is_taken_the_short_way_and_nothing_else_is():
    data = [
        DataFrame(1, b"plain"),
        DataFrame(1, b"padded", pad_length=3, flags=["PADDED"]),
        DataFrame(3, b"the last", flags=["END_STREAM"]),
    ]
    library, told = opened(), Told()
    seen_by_h2 = []
    see = library.receive_data
    library.receive_data = lambda data: seen_by_h2.append(data) or see(data)
    receive(library, raw(*data), told)
    assert seen_by_h2[-1] == raw(*data[1:])
    assert told.found[:3] == [(1, b"plain", 5), (1, b"padded", 10), (3, b"the last", 8)]


def test_what_exceeds_the_stream_s_window_ends_the_connection():
    library = opened()
    with pytest.raises(ProtocolError):
        receive(library, raw(*[DataFrame(1, bytes(16_384))] * 5))
    assert library.data_to_send()[-4:] == ErrorCodes.FLOW_CONTROL_ERROR.to_bytes(4, "big")


def test_content_length_is_h2_s_to_count():
    library = opened(head(1, ("content-length", "3")))
    with pytest.raises(ProtocolError):
        receive(library, raw(DataFrame(1, b"four")))


@given(st.lists(st.tuples(st.sampled_from([1, 3, 5]), st.integers(1, 20_000)), max_size=12))
def test_sending_is_h2_s_sending(those):
    found = []
    for plainly in (True, False):
        library = opened()
        library.send_headers(1, [(":status", "200")])
        library.send_headers(3, [(":status", "200")])
        send = library.send_plain_data if plainly else library.send_data
        errors = []
        for stream_id, size in those:
            try:
                send(stream_id, bytes(size))
            except ProtocolError as error:
                errors.append(type(error))
        found.append((errors, library.data_to_send(), state(library)))
    assert found[0] == found[1]


def test_nothing_is_sent_after_the_end():
    library = opened()
    library.send_headers(1, [(":status", "200")])
    library.end_stream(1)
    library.clear_outbound_data_buffer()
    with pytest.raises(ProtocolError):
        library.send_plain_data(1, b"more")
    assert library.data_to_send() == b""


def test_data_in_a_header_block_is_for_h2_to_refuse():
    library = opened()
    with pytest.raises(ProtocolError):
        receive(library, raw(head(5, flags=()), DataFrame(1, b"plain")))
