"""A gate behind the reader that cuts frames for it, without HTTP/2's library."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from partway.gateway.http.http2.connection import Http2FrameReader
from partway.protocol.http2.flood_gate import FrameGate
from partway.protocol.limits import HTTP2_MAX_STREAMS


class GateAndReader(FrameGate):
    """A gate whose reader hands all frames to this object in place of h2."""

    def __init__(self, now: float, max_streams: int = HTTP2_MAX_STREAMS) -> None:
        super().__init__(now, max_streams)
        self._seen = b""
        streams = SimpleNamespace(open={})
        self._reader = Http2FrameReader(self, *cast("tuple", (self, streams, None)))

    # --- As h2 -----------------------------------------------------------------------------------

    def takes_plain_data(self, stream_id: int, size: int) -> bool:
        return False

    def receive_data(self, data: bytes) -> list[object]:
        self._seen += data
        return []

    # --- For tests -------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        return self._reader.waiting

    @property
    def oversized(self) -> bool:
        return self._reader.oversized

    @property
    def held_in_all(self) -> int:
        """Bytes that the gate and its reader hold."""
        return self._reader.held

    def feed(self, data: bytes) -> None:
        self._reader.feed(data)

    def take(self, now: float) -> bytes:
        """What h2 would see of one turn."""
        self._reader.take_turn(now)
        seen, self._seen = self._seen, b""
        return seen
