"""The body of an HTTP/2 request: events are signed, and sent as the gateway gives credit."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from h2.connection import H2Connection

from partway.gateway.client.wire import WireOwner
from partway.protocol import limits
from partway.protocol.event_stream.writer import wrap
from partway.protocol.signatures.verification import EventSigner


class RequestBody:
    """The send queue of one HTTP/2 stream.

    Args:
        signer: signs each event; None leaves them bare.
        flush: writes the library's output to the transport.

    Attributes:
        owner: learns when senders must wait.
        held_bytes: bytes that wait for credit, or for the socket.
        socket_full: whether the transport takes no more for now.
    """

    def __init__(
        self,
        library: H2Connection,
        stream_id: int,
        signer: EventSigner | None,
        flush: Callable[[], None],
    ) -> None:
        self.owner: WireOwner | None = None
        self.held_bytes = 0
        self.socket_full = False
        self._h2 = library
        self._stream_id = stream_id
        self._signer = signer
        self._flush = flush
        self._queue: deque[memoryview] = deque()
        self._input_ended = False
        self._end_sent = False
        self._held_up = False
        self._dropped = False

    def send(self, event: bytes) -> None:
        self._enqueue(self._signed(event))

    def end(self) -> None:
        """End the input by END_STREAM, a signed one by an empty message first (clause 2.3-2)."""
        if not self._dropped:
            self._input_ended = True
            self._enqueue(self._signed(b""))

    def drop(self) -> None:
        self._dropped = True
        self._queue.clear()
        self.held_bytes = 0

    def pump(self) -> None:
        """Send as much as the windows and the socket allow."""
        while not (self._dropped or self.socket_full) and (self._queue or self._end_due):
            window = self._h2.local_flow_control_window(self._stream_id)
            room = min(window, self._h2.max_outbound_frame_size)
            if self._queue and room <= 0:
                break
            data = self._take(room)
            self._end_sent = self._input_ended and not self._queue
            self._h2.send_data(self._stream_id, data, end_stream=self._end_sent)
            self._flush()
        if self._held_up and self.held_bytes <= limits.WRITE_LOW_WATER and self.owner is not None:
            self._held_up = False
            self.owner.writing_resumed()

    def _signed(self, event: bytes) -> bytes:
        if self._signer is None:
            return event
        now = time.time_ns() // 1_000_000
        return wrap(event, now, self._signer.sign(now, event))

    def _enqueue(self, event: bytes) -> None:
        if self._dropped:
            return
        if event:
            self._queue.append(memoryview(event))
            self.held_bytes += len(event)
        self.pump()
        over = self.held_bytes > limits.WRITE_HIGH_WATER
        if over and not self._held_up and self.owner is not None:
            self._held_up = True
            self.owner.writing_paused()

    @property
    def _end_due(self) -> bool:
        return self._input_ended and not self._end_sent

    def _take(self, room: int) -> bytes:
        """Take at most ``room`` bytes off the queue; events are joined, and cut if necessary."""
        pieces: list[memoryview] = []
        while self._queue and room:
            piece = self._queue.popleft()
            if len(piece) > room:
                self._queue.appendleft(piece[room:])
                piece = piece[:room]
            pieces.append(piece)
            room -= len(piece)
            self.held_bytes -= len(piece)
        return b"".join(pieces)
