"""Whose turn it is to send on an HTTP/2 connection."""

from __future__ import annotations

from typing import Protocol

from partway.gateway.serving.http2.stream import Http2Stream

#: Streams that may find the connection's window too small for their last event before the rest
#: are left to wait for more of it.
_FRUITLESS_TURNS = 8


class Windows(Protocol):
    """How many bytes may be sent now."""

    def own_window(self, stream: Http2Stream) -> int:
        """Bytes that a stream's own window allows for what the stream sends next."""

    def shared_window(self) -> int:
        """Bytes that the connection's window allows."""


class SendingTurns:
    """The streams with something to send, in their order.

    Streams that wait for their own window are kept apart from those waiting for the connection's:
    more of the latter, a byte perhaps, then costs as many turns as it has room for, and not one
    for each of a thousand streams.

    Args:
        windows: the connection's and its streams' windows.
    """

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._ready: dict[Http2Stream, None] = {}
        self._waiting_for_shared: dict[Http2Stream, None] = {}
        self._waiting_for_own: dict[Http2Stream, None] = {}

    def add(self, stream: Http2Stream) -> None:
        """Give a stream that has something to send its place in the order."""
        if stream not in self._waiting_for_own and stream not in self._waiting_for_shared:
            self._ready[stream] = None

    def remove(self, stream: Http2Stream) -> None:
        """Forget a stream that is over."""
        for queue in (self._ready, self._waiting_for_shared, self._waiting_for_own):
            queue.pop(stream, None)

    def window_opened(self, stream: Http2Stream) -> None:
        """Note that a stream's own window has grown."""
        if stream in self._waiting_for_own:
            del self._waiting_for_own[stream]
            self._ready[stream] = None

    def every_window_changed(self) -> None:
        """Note that every stream's own window has changed."""
        self._ready |= self._waiting_for_own
        self._waiting_for_own.clear()

    def send(self, size: int) -> None:
        """Let streams send, one frame in each turn, until ``size`` bytes or more are sent."""
        fruitless = 0
        while size > 0:
            again = fruitless < _FRUITLESS_TURNS and self._windows.shared_window() > 0
            if again and self._waiting_for_shared:
                queue = self._waiting_for_shared
            elif self._ready:
                queue = self._ready
            else:
                return
            stream = next(iter(queue))
            del queue[stream]
            sent = stream.send_frame()
            size -= sent
            if not stream.wants_to_send:
                continue
            if sent:
                self._ready[stream] = None
            elif self._windows.own_window(stream) >= max(1, self._windows.shared_window()):
                self._waiting_for_shared[stream] = None
                fruitless += 1
            else:
                self._waiting_for_own[stream] = None
