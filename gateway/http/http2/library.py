"""The h2 library, configured for this server, and the SETTINGS that h2 does not announce itself."""

from __future__ import annotations

import logging
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import FlowControlError
from h2.settings import SettingCodes, Settings
from h2.stream import StreamState

from partway.gateway.limits import HTTP2_CONNECTION_WINDOW, HTTP2_OPENING_WINDOW
from partway.protocol import limits
from partway.protocol.http2.frames import DATA, HEAD, SETTINGS, frame

# At debug level it logs every decoded header, and so tokens and signatures.
logging.getLogger("hpack").setLevel(logging.INFO)

_SETTINGS = {
    SettingCodes.INITIAL_WINDOW_SIZE: HTTP2_OPENING_WINDOW,
    SettingCodes.MAX_FRAME_SIZE: limits.HTTP2_MAX_FRAME,
    SettingCodes.MAX_HEADER_LIST_SIZE: limits.HTTP2_MAX_HEADER_LIST,
    SettingCodes.ENABLE_PUSH: 0,
}

#: Stream states in which DATA may be received or sent (RFC 9113 §5.1).
_MAY_RECEIVE: Final = frozenset({StreamState.OPEN, StreamState.HALF_CLOSED_LOCAL})
_MAY_SEND: Final = frozenset({StreamState.OPEN, StreamState.HALF_CLOSED_REMOTE})


class ServerLibrary(H2Connection):
    """h2, with a shorter path for plain DATA, which is nearly all traffic.

    Plain DATA has no padding and does not end its stream. For each such frame h2 makes a frame
    object, its repr for a log, and events. That is half of the gateway's cost of a part. The
    shorter path checks and counts as h2 does: the stream's state and the four windows. All other
    frames go through h2.
    """

    def takes_plain_data(self, stream_id: int, size: int) -> bool:
        """Count a frame of plain DATA, so that h2 need not see its payload.

        Returns:
            Whether it is counted. If not, h2 must receive the frame.

        Raises:
            ProtocolError: the DATA exceeds a window; h2 has a GOAWAY to send that says so.
        """
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
            self.send_data(stream_id, data)  # it raises the right error
            return
        stream.outbound_flow_control_window -= size
        self.outbound_flow_control_window -= size
        self._data_to_send += HEAD.pack(size >> 8, size & 0xFF, DATA, 0, stream_id)
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
    # No limit here: h2 would end the connection for a stream too many; here only the stream is
    # refused.
    connection.local_settings = Settings(client=False, initial_values=dict(_SETTINGS))
    # Higher than announced, so that a head over the limit is answered and the connection survives.
    connection.decoder.max_header_list_size = limits.HTTP2_MAX_HEADER_BLOCK
    connection.initiate_connection()
    connection.clear_outbound_data_buffer()  # our own settings frame, with the limit, replaces h2's
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
