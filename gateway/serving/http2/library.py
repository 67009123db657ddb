"""h2, set up as this server's library, and the SETTINGS that h2 does not announce itself."""

from __future__ import annotations

import logging
import struct
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import Event
from h2.exceptions import FlowControlError
from h2.settings import SettingCodes, Settings
from h2.stream import StreamState

from partway.gateway.limits import HTTP2_CONNECTION_WINDOW, HTTP2_OPENING_WINDOW
from partway.protocol import limits
from partway.protocol.http2.frames import SETTINGS, frame

# It writes every header that it decodes at debug level, and so tokens and signatures.
logging.getLogger("hpack").setLevel(logging.INFO)

_SETTINGS = {
    SettingCodes.INITIAL_WINDOW_SIZE: HTTP2_OPENING_WINDOW,
    SettingCodes.MAX_FRAME_SIZE: limits.HTTP2_MAX_FRAME,
    SettingCodes.MAX_HEADER_LIST_SIZE: limits.HTTP2_MAX_HEADER_LIST,
    SettingCodes.ENABLE_PUSH: 0,
}

_HEADER: Final = struct.Struct("!HBBBI")
_DATA, _HEADERS, _CONTINUATION = 0x0, 0x1, 0x9
_END_HEADERS: Final = 0x4

#: Where a stream's DATA goes either way (RFC 9113 §5.1).
_MAY_RECEIVE: Final = frozenset({StreamState.OPEN, StreamState.HALF_CLOSED_LOCAL})
_MAY_SEND: Final = frozenset({StreamState.OPEN, StreamState.HALF_CLOSED_REMOTE})


class PlainData:
    """DATA of a stream, without padding, that does not end it.

    Attributes:
        stream_id: the stream's id.
        data: the bytes that the DATA carries.
    """

    __slots__ = ("data", "stream_id")

    def __init__(self, stream_id: int, data: bytes) -> None:
        self.stream_id = stream_id
        self.data = data


class ServerLibrary(H2Connection):
    """h2, with a shorter way for plain DATA, which is nearly all that comes and goes.

    h2 makes a frame of DATA, and the frame's repr for a log, and events, at half of what the whole
    gateway spends on a part. What h2 would note and check is noted and checked here: the stream's
    state and the four windows. Whatever is not plain, or not in order, goes h2's way.
    """

    def receive_frames(self, data: bytes) -> list[Event | PlainData]:
        """Take whole frames; returns what they bring, in their order.

        Raises:
            ProtocolError: as :meth:`receive_data` does.
        """
        found: list[Event | PlainData] = []
        run = at = 0  # where what h2 is to see begins
        in_block = False
        while at < len(data):
            high, low, kind, flags, stream_id = _HEADER.unpack_from(data, at)
            end = at + _HEADER.size + (high << 8 | low)
            if kind == _DATA and not flags and not in_block:
                if run < at:
                    found += self.receive_data(data[run:at])
                    run = at
                if self._takes_plain_data(stream_id, end - at - _HEADER.size):
                    found.append(PlainData(stream_id, data[at + _HEADER.size : end]))
                    run = end
            elif kind in (_HEADERS, _CONTINUATION):
                in_block = not flags & _END_HEADERS  # h2 has to see what stands in the middle
            at = end
        if run < at:
            found += self.receive_data(data[run:])
        return found

    def _takes_plain_data(self, stream_id: int, size: int) -> bool:
        stream = self.streams.get(stream_id)
        if (
            stream is None
            or stream.state_machine.state not in _MAY_RECEIVE
            or stream._expected_content_length is not None  # noqa: SLF001 h2 counts to it
        ):
            return False
        try:
            self._inbound_flow_control_window_manager.window_consumed(size)
            stream._inbound_window_manager.window_consumed(size)  # noqa: SLF001 as h2 would
        except FlowControlError as error:
            self._terminate_connection(error.error_code)
            raise
        return True

    def send_plain_data(self, stream_id: int, data: bytes) -> None:
        """Send DATA that does not end its stream.

        Raises:
            ProtocolError: as :meth:`send_data` does.
        """
        stream = self.streams.get(stream_id)
        size = len(data)
        if (
            stream is None
            or stream.state_machine.state not in _MAY_SEND
            or size > stream.outbound_flow_control_window
            or size > self.outbound_flow_control_window
            or size > self.max_outbound_frame_size
        ):
            self.send_data(stream_id, data)  # it knows what is wrong
            return
        stream.outbound_flow_control_window -= size
        self.outbound_flow_control_window -= size
        self._data_to_send += _HEADER.pack(size >> 8, size & 0xFF, _DATA, 0, stream_id)
        self._data_to_send += data


def server_library() -> ServerLibrary:
    """Make a connection's h2, which has sent nothing yet."""
    connection = ServerLibrary(
        H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    # One stream too many is refused by itself; h2 would end the connection, so it gets no limit.
    connection.local_settings = Settings(client=False, initial_values=dict(_SETTINGS))
    # More than the settings say: a head over that limit is answered; it costs no connection.
    connection.decoder.max_header_list_size = limits.HTTP2_MAX_HEADER_BLOCK
    connection.initiate_connection()
    connection.clear_outbound_data_buffer()  # ours, with that limit, goes in its place
    connection.increment_flow_control_window(HTTP2_CONNECTION_WINDOW - HTTP2_OPENING_WINDOW)
    connection.clear_outbound_data_buffer()
    return connection


def settings_frame(max_streams: int) -> bytes:
    """Make the server's SETTINGS frame (RFC 9113 §6.5)."""
    settings = {**_SETTINGS, SettingCodes.MAX_CONCURRENT_STREAMS: max_streams}
    pairs = [
        int(key).to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in settings.items()
    ]
    return frame(SETTINGS, 0, 0, b"".join(pairs))


def text(value: str | bytes) -> str:
    """Return a header's name or value as text; bytes that are not UTF-8 become surrogates."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
