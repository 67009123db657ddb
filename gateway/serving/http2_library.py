"""h2, set up as this server's library, and the settings that it does not announce itself."""

from __future__ import annotations

import logging

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings

from protocol import limits
from protocol.http2_gate import frame

# It writes every header that it decodes at debug level, and so tokens and signatures.
logging.getLogger("hpack").setLevel(logging.INFO)

_SETTINGS = {
    SettingCodes.INITIAL_WINDOW_SIZE: limits.HTTP2_OPENING_WINDOW,
    SettingCodes.MAX_FRAME_SIZE: limits.HTTP2_MAX_FRAME,
    SettingCodes.MAX_HEADER_LIST_SIZE: limits.HTTP2_MAX_HEADER_LIST,
    SettingCodes.ENABLE_PUSH: 0,
}


def server_library() -> H2Connection:
    """A connection's h2; it has said nothing yet."""
    connection = H2Connection(
        H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    # One stream too many is refused by itself; h2 would end the connection, so it gets no limit.
    connection.local_settings = Settings(client=False, initial_values=dict(_SETTINGS))
    connection.decoder.max_header_list_size = limits.HTTP2_MAX_HEADER_LIST  # not from the settings
    connection.initiate_connection()
    connection.clear_outbound_data_buffer()  # ours, with that limit, goes in its place
    connection.increment_flow_control_window(
        limits.HTTP2_CONNECTION_WINDOW - limits.HTTP2_OPENING_WINDOW
    )
    connection.clear_outbound_data_buffer()
    return connection


def settings_frame(max_streams: int) -> bytes:
    """Our SETTINGS (RFC 9113 §6.5)."""
    settings = {**_SETTINGS, SettingCodes.MAX_CONCURRENT_STREAMS: max_streams}
    pairs = [
        int(key).to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in settings.items()
    ]
    return frame(0x4, 0, 0, b"".join(pairs))


def text(value: str | bytes) -> str:
    """A header's name or value as it came: what is no UTF-8 is kept by surrogates."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
