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
    PingFrame,
    RstStreamFrame,
    WindowUpdateFrame,
)
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.serving.http2.library import PlainData, ServerLibrary, server_library
from tests.gateway.serving.http2.connection_parts import OPENING, head
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


def seen(library: ServerLibrary, data: bytes, *, plainly: bool) -> tuple[object, ...]:
    """What comes of frames: events, an error, what is sent, and what the library knows then."""
    found: list[object] = []
    error = None
    try:
        for event in library.receive_frames(data) if plainly else library.receive_data(data):
            match event:
                case PlainData():
                    found.append((event.stream_id, event.data, len(event.data)))
                case DataReceived() if event.stream_ended is None:
                    found.append((event.stream_id, event.data, event.flow_controlled_length))
                case _:
                    found.append(repr(event))
    except ProtocolError as raised:
        error = (type(raised), raised.error_code)
    return found, error, library.data_to_send(), state(library)


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
    found = opened().receive_frames(raw(*data))
    assert [type(event).__name__ for event in found] == [
        "PlainData", "DataReceived", "DataReceived", "StreamEnded",
    ]  # fmt: skip


def test_what_exceeds_the_stream_s_window_ends_the_connection():
    library = opened()
    with pytest.raises(ProtocolError):
        library.receive_frames(raw(*[DataFrame(1, bytes(16_384))] * 5))
    assert library.data_to_send()[-4:] == ErrorCodes.FLOW_CONTROL_ERROR.to_bytes(4, "big")


def test_content_length_is_h2_s_to_count():
    library = opened(head(1, ("content-length", "3")))
    with pytest.raises(ProtocolError):
        library.receive_frames(raw(DataFrame(1, b"four")))


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
        library.receive_frames(raw(head(5, flags=()), DataFrame(1, b"plain")))
