"""One HTTP/2 stream: a request, and the bodies of both directions with their flow control.

RFC 9113 §5, §8. The operation interprets the bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from h2.errors import ErrorCodes

from partway.gateway.http.duplex import Duplex, DuplexHandler, Parting
from partway.gateway.http.http2.sending import Http2Sender
from partway.gateway.limits import HTTP2_OPENING_WINDOW, HTTP2_STREAM_WINDOW
from partway.protocol.connections.fair_turns import Cancellable, rounds
from partway.protocol.limits import HTTP2_MAX_FRAME, WRITE_HIGH_WATER, WRITE_LOW_WATER
from partway.protocol.lingering import Lingering

#: Stream credit is given back in steps of this size.
_CREDIT_STEP = HTTP2_OPENING_WINDOW // 2


class StreamTable(Protocol):
    """The streams of a connection, as one of them sees them."""

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """Send RST_STREAM; the stream is over for client and gateway."""

    def await_end(self, stream_id: int, owed: int, *, unbegun: bool) -> None:
        """Drop the client's further input, until it ends the stream: see :class:`LateInput`."""

    def stream_over(self, stream: Http2Stream) -> None:
        """Note that nothing more is sent on this stream."""

    def ping(self, payload: bytes) -> int:
        """Send PING; return its position in the connection's output."""


class Http2Stream(Duplex):
    """The two bodies of one HTTP/2 exchange, with their flow control.

    Only the credit of the stream is withheld while reading is paused; the connection gives its own
    back on receipt (clause 2.6-2). While reading goes on every byte is credited, so an event may be
    larger than a window (clause 2.6-3).
    """

    pingable = True

    def __init__(self, sender: Http2Sender, table: StreamTable, stream_id: int) -> None:
        self.stream_id = stream_id
        #: The request's task; it is cancelled if the client leaves before it has been answered.
        self.task: asyncio.Task[None] | None = None
        self.opened_at = 0.0
        self.answered = False
        self._sender = sender
        self._table = table
        self._handler: DuplexHandler | None = None
        self._high_water = WRITE_HIGH_WATER
        self._low_water = WRITE_LOW_WATER
        self._call_later: Callable[..., Cancellable] = asyncio.get_running_loop().call_later
        # The request's body.
        self._reading = False
        self._held = bytearray()
        self._owed_credit = 0
        self._begun_request = False
        self._request_ended = False
        self._end_told = False
        # The response.
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._taken = 0
        self._begun = 0  # sent bytes of the queue's first event
        self._blocked = False
        self._last: bytes | None = None
        self._otherwise = b""
        self._trailers: list[tuple[str, str]] | None = None
        self._whole = False  # answered by send_whole
        self._finishing: Cancellable | None = None
        self._over = False
        self._parting = Parting.LOST

    # --- Duplex ----------------------------------------------------------------------------------

    def start(
        self,
        handler: DuplexHandler,
        *,
        high_water: int,
        low_water: int,
        call_later: Callable[..., Cancellable],
    ) -> None:
        self._handler = handler
        self._high_water = high_water
        self._low_water = low_water
        self._call_later = call_later
        if self._over:
            self._tell_lost()
        elif not self._request_ended:
            self._owed_credit += HTTP2_STREAM_WINDOW - HTTP2_OPENING_WINDOW

    def write(self, event: bytes) -> None:
        if self._over or self._last is not None or not event:
            return
        self._queue.append(event)
        self._queued += len(event)
        if self._queued > self._high_water and not self._blocked and self._handler is not None:
            self._blocked = True
            self._handler.writing_paused()
        self._sender.stream_ready(self)

    def finish(self, last: bytes, otherwise: bytes) -> None:
        if self._over or self._last is not None:
            return
        self._last = last
        self._otherwise = otherwise
        self._drop_input()
        self._sender.stream_ready(self)
        if not self._over:
            self._look_later(Lingering(self._queued))

    def abort(self) -> None:
        self._reset(ErrorCodes.CANCEL)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        handler = self._handler
        if self._reading or self._over or handler is None:
            return
        self._reading = True
        if self._held:
            data, self._held = bytes(self._held), bytearray()
            handler.data_received(data)
        self._settle(handler)

    def ping(self, payload: bytes) -> int:
        # Each stream counts its own pings; the stream's id replaces the first half of the counter.
        return self._table.ping(self.stream_id.to_bytes(4, "big") + payload[4:])

    def flushed(self, position: int) -> bool:
        return self._sender.flushed(position)

    @property
    def buffered_bytes(self) -> int:
        return len(self._held) + self._queued

    @property
    def taken_bytes(self) -> int:
        return self._taken

    # --- For the exchange ------------------------------------------------------------------------

    def send_whole(self, body: bytes, trailers: list[tuple[str, str]] | None = None) -> None:
        """Send a body, and end the response: by trailers, if there are any."""
        self._whole = True
        self._trailers = trailers
        if body:
            self._queue.append(body)
            self._queued += len(body)
        self.finish(b"", b"")

    def send_only_head(self, headers: list[tuple[str, str]]) -> None:
        """Send a head that is all of the response."""
        self._whole = True
        if not self._over:
            self._drop_input()
            self._sender.send_head(self.stream_id, headers, end=True)
            self._response_ended()

    def finish_with_trailers(self, trailers: list[tuple[str, str]]) -> None:
        """End the response by trailers, after everything that was written (RFC 9113 §8.1)."""
        if self._last is None:
            self._trailers = trailers
        self.finish(b"", b"")

    def break_off(self) -> None:
        """Mark the response as incomplete (RFC 9113 §5.4.2)."""
        self._reset(ErrorCodes.INTERNAL_ERROR)

    # --- For the connection ----------------------------------------------------------------------

    def data_received(self, data: bytes, flow_controlled: int) -> None:
        """Take in DATA of the client; ``flow_controlled`` counts its padding too."""
        handler = self._handler
        if self._over:
            return
        self._begun_request = True
        self._owed_credit += flow_controlled
        if self._last is not None:
            return  # dropped; credited as late input
        if self._reading and handler is not None:
            handler.data_received(data)
            self._settle(handler)
        else:
            self._held += data

    def request_ended(self) -> None:
        self._request_ended = True
        if self._handler is not None:
            self._settle(self._handler)

    def pong_received(self, payload: bytes) -> None:
        """Tell the owner that PING was acknowledged, with the payload of :meth:`ping`."""
        if self._handler is not None:
            self._handler.pong_received(bytes(4) + payload[4:])

    def lost(self, how: Parting = Parting.LOST) -> None:
        """Note that RST_STREAM came, or that the connection is gone."""
        if not self._over:
            self._parting = how
            self._end()

    def send_frame(self) -> int:
        """Send as much as one DATA frame and the window take; return how many bytes.

        The owner calls again as long as :attr:`wants_to_send`. After 0 the window is used up, and
        the next call comes when there is more.
        """
        if self._over:
            return 0
        if not self._queue:
            return self._send_last()
        # Nothing is held back if no last event can come.
        data = self._take(self._sender.window(self.stream_id, whole=self.uses_whole_window))
        if not data:
            return 0
        ends = not self._queue and self._last == b"" and self._trailers is None
        self._sender.send_data(self.stream_id, data, end=ends)
        if ends:
            self._response_ended()
        elif self._blocked and self._queued <= self._low_water and self._handler is not None:
            self._blocked = False
            self._handler.writing_resumed()
        return len(data)

    @property
    def wants_to_send(self) -> bool:
        return not self._over and bool(self._queue or self._last is not None)

    @property
    def uses_whole_window(self) -> bool:
        return not self._queue or (self._last == b"" and not self._otherwise)

    # --- Internals -------------------------------------------------------------------------------

    def _settle(self, handler: DuplexHandler) -> None:
        """After a delivery, give credit, or tell of the end once everything has been delivered."""
        if not self._reading or self._over or self._held:
            return
        if self._request_ended:
            if not self._end_told:
                self._end_told = True
                handler.input_ended()
        elif self._owed_credit >= _CREDIT_STEP:
            owed, self._owed_credit = self._owed_credit, 0
            self._sender.give_credit(self.stream_id, owed)

    def _take(self, window: int) -> bytes:
        """Take one frame's bytes off the queue; events are joined, and cut if necessary."""
        queue = self._queue
        pieces: list[bytes] = []
        size = 0
        room = min(window, HTTP2_MAX_FRAME)
        while queue and size < room:
            event, begun = queue[0], self._begun
            if len(event) - begun <= room - size:
                queue.popleft()
                self._begun = 0
                piece = event[begun:] if begun else event
            elif not begun and self._is_to_wait(len(event), window - size):
                break
            else:
                self._begun += room - size
                piece = event[begun : self._begun]
            pieces.append(piece)
            size += len(piece)
        self._queued -= size
        self._taken += size
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _is_to_wait(self, size: int, window: int) -> bool:
        """Say whether an event waits until the window has room for all of it (clause 2.3-6).

        An exception cannot follow half an event, so the stream's window keeps some bytes free for
        one. An event waits if this reserve is the reason why it does not fit. If the connection's
        window is too small instead, the event does not wait.
        """
        sender, stream_id = self._sender, self.stream_id
        if size <= window or size > sender.uncut:
            return False
        return sender.window(stream_id, whole=True) > sender.window(stream_id, whole=False)

    def _send_last(self) -> int:
        """Send the last event, which may use the bytes held back for it, and END_STREAM."""
        last = self._last
        if self._trailers is not None and last is not None:  # they need no window
            self._sender.send_head(self.stream_id, self._trailers, end=True)
            self._response_ended()
            return 1
        if last is None or len(last) > self._sender.window(self.stream_id, whole=True):
            return 0
        self._sender.send_data(self.stream_id, last, end=True)
        self._response_ended()
        return len(last) + 1

    def _response_ended(self) -> None:
        if not self._request_ended:
            unbegun = self._whole and not self._begun_request
            self._table.await_end(self.stream_id, self._owed_credit, unbegun=unbegun)
        self._end()

    def _look_later(self, lingering: Lingering) -> None:
        self._finishing = self._call_later(lingering.interval, self._keep_finishing, lingering)

    def _keep_finishing(self, lingering: Lingering) -> None:
        if lingering.look(self._queued):
            self._look_later(lingering)
            return
        window = self._sender.window(self.stream_id, whole=True)
        if self._begun or not self._otherwise or len(self._otherwise) > window:
            self._reset(ErrorCodes.INTERNAL_ERROR)
            return
        self._queue.clear()
        self._queued = 0
        self._last = self._otherwise
        self._send_last()

    def _reset(self, code: ErrorCodes) -> None:
        if not self._over:
            self._table.reset(self.stream_id, code)
            self._end()

    def _end(self) -> None:
        self._over = True
        if self._finishing is not None:
            self._finishing.cancel()
        self._queue.clear()
        self._queued = 0
        self._drop_input()
        self._table.stream_over(self)
        if self._handler is not None:
            self._tell_lost()
        elif self.task is not None and not self.answered:
            self.task.cancel()

    def _drop_input(self) -> None:
        self._reading = False
        self._held.clear()

    def _tell_lost(self) -> None:
        # In the loop's next turn, since the owner may be in the middle of ending it. And in rounds,
        # since a thousand streams may end with their connection.
        handler = self._handler
        if handler is not None:
            rounds.soon(lambda: handler.connection_lost(self._parting))
