"""Sending on an HTTP/2 connection: turns, windows, and one write for many frames.

:class:`Http2Sender` decides when bytes leave. It has a :class:`FairScheduler` for the streams'
turns and an :class:`Outlet` for the transport.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sized
from contextlib import suppress
from typing import Protocol

from h2.exceptions import ProtocolError

from partway.gateway.http.http2.library import ServerLibrary
from partway.gateway.limits import (
    HTTP2_HELD_BACK,
    HTTP2_HOLD_BACK_FROM,
    HTTP2_MAX_UNSENT,
    HTTP2_OPENING_WINDOW,
)
from partway.log_lines import LogLine
from partway.protocol import limits
from partway.protocol.connections.batched_writes import batched_writes
from partway.protocol.connections.fair_turns import Cancellable
from partway.protocol.connections.tcp import half_close
from partway.protocol.lingering import Lingering

log = logging.getLogger("partway.http2")

#: DATA is gathered up to this size before it is written; streams take turns in it.
_WRITE_SIZE = 64 * limits.KIB

#: Streams whose last event may find the connection's window too small in one round; the rest then
#: wait for more window.
_FRUITLESS_TURNS = 8


class SendingStream(Protocol):
    """A stream, as the sender sees it."""

    stream_id: int

    def send_frame(self) -> int:
        """Send as much as one DATA frame and the window take; return how many bytes."""

    @property
    def wants_to_send(self) -> bool:
        """Whether :meth:`send_frame` has something to do."""

    @property
    def uses_whole_window(self) -> bool:
        """Whether the stream's next bytes may use those held back for a last event."""


class Http2Sender:
    """Decides when bytes leave a connection; nothing else does.

    Rules:
        1. Outside of a read, bytes leave at once. During a read they leave in one write at its end,
        with everything else that the read causes
        (:mod:`partway.protocol.connections.batched_writes`). On a connection with several open
        streams they leave in the loop's next turn: the containers of other streams may have
        answered at the same time.
        2. Streams with DATA take turns, one frame each (:class:`FairScheduler`). Up to
        ``_WRITE_SIZE`` bytes of DATA are one write.
        3. No stream has a turn while the transport is over its high-water mark. Frames that h2 must
        send leave all the same; :class:`Outlet` bounds them.
        4. HTTP2_HELD_BACK bytes of a stream's window stay free for a last event, if the client's
        window is HTTP2_HOLD_BACK_FROM bytes or more (clause 2.3-6).

    Attributes:
        uncut: an event of up to this size is not cut at the end of the window (clause 2.3-6).
    """

    def __init__(
        self,
        out: Outlet,
        library: ServerLibrary,
        open_streams: Sized,
        on_flushed: Callable[[], None],
    ) -> None:
        self.uncut = HTTP2_OPENING_WINDOW // 4
        self._out = out
        self._h2 = library
        self._open = open_streams
        self._on_flushed = on_flushed
        self._call_soon = asyncio.get_running_loop().call_soon
        self._schedule = FairScheduler(self)
        self._hold_back = HTTP2_HELD_BACK
        self._due = False
        self._paused = False

    # --- When to send ----------------------------------------------------------------------------

    def soon(self) -> None:
        """Send pending bytes of h2 and the streams, at the time of rule 1."""
        if self._due or self._out.gone:
            return
        batch = batched_writes.connections
        if batch is None:
            self.flush()
        elif len(self._open) > 1:
            self._due = True
            self._call_soon(self.flush)
        else:
            self._due = True
            batch.append(self)

    def flush(self) -> None:
        self._due = True  # bytes that streams cause while they send are sent below
        try:
            while not self._out.gone:
                more = not self._paused and self._schedule.send(_WRITE_SIZE)
                self.flush_library()
                if not more:
                    break
        finally:
            self._due = False
        self._on_flushed()

    def flush_library(self) -> None:
        """Write the pending bytes of h2, and give streams no turn."""
        data = self._h2.data_to_send()
        if data:
            self._out.write(data)

    def pause(self) -> None:
        """Give streams no turns (rule 3)."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self.flush()

    # --- For streams -----------------------------------------------------------------------------

    def stream_ready(self, stream: SendingStream) -> None:
        """Call the stream's :meth:`~SendingStream.send_frame` soon, in its turn."""
        self._schedule.add(stream)
        self.soon()

    def stream_over(self, stream: SendingStream) -> None:
        self._schedule.remove(stream)

    def send_head(
        self, stream_id: int, headers: list[tuple[str, str]], *, end: bool = False
    ) -> None:
        """Send a response's head with the next write, or trailers, which end the response."""
        with suppress(ProtocolError):  # the client has reset it; the event that says so follows
            self._h2.send_headers(stream_id, headers, end_stream=end)
        if end:
            self.soon()

    def send_data(self, stream_id: int, data: bytes, *, end: bool) -> None:
        with suppress(ProtocolError):  # as above
            if end:
                self._h2.send_data(stream_id, data, end_stream=True)
            else:
                self._h2.send_plain_data(stream_id, data)
        self.soon()

    def give_credit(self, stream_id: int, size: int) -> None:
        try:
            self._h2.increment_flow_control_window(size, stream_id)
        except (ProtocolError, KeyError):  # h2 has forgotten the stream
            return
        self.soon()

    def ping(self, payload: bytes) -> int:
        """Send PING at once; return its position for :meth:`flushed`."""
        if not self._out.closed:
            self._h2.ping(payload)
            self.flush_library()
        return self._out.written

    def flushed(self, position: int) -> bool:
        return self._out.written - self._out.unsent >= position

    # --- Windows ---------------------------------------------------------------------------------

    def window(self, stream_id: int, *, whole: bool) -> int:
        """Return the bytes that may be sent now; ``whole`` includes those held back (rule 4)."""
        stream = self._h2.streams.get(stream_id)
        if stream is None or self._out.gone:
            return 0
        own = stream.outbound_flow_control_window - (0 if whole else self._hold_back)
        return min(own, self._h2.outbound_flow_control_window)

    def own_window(self, stream: SendingStream) -> int:
        """Return the bytes that a stream's own window has for its next bytes."""
        library = self._h2.streams.get(stream.stream_id)
        held_back = 0 if stream.uses_whole_window else self._hold_back
        return library.outbound_flow_control_window - held_back if library is not None else 0

    def shared_window(self) -> int:
        return self._h2.outbound_flow_control_window

    def window_opened(self, stream: SendingStream | None) -> None:
        """Note that more may be sent: on one stream, or (None) on all together."""
        if stream is not None:
            self._schedule.window_opened(stream)
        self.soon()

    def initial_window_changed(self) -> None:
        """Note that the client has changed every stream's window (RFC 9113 §6.9.2)."""
        initial = self._h2.remote_settings.initial_window_size
        holds = initial >= HTTP2_HOLD_BACK_FROM
        self._hold_back = HTTP2_HELD_BACK if holds else 0
        self.uncut = initial // 4 if holds else 0  # a client that reads leaves half of it open
        self._schedule.every_window_changed()
        self.soon()


class Windows(Protocol):
    """The bytes that may be sent now."""

    def own_window(self, stream: SendingStream) -> int:
        """Return the bytes that a stream's own window allows for its next bytes."""

    def shared_window(self) -> int:
        """Return the bytes that the connection's window allows."""


class FairScheduler:
    """The streams with something to send, in their order.

    Streams that wait for their own window are kept apart from those that wait for the connection's.
    A byte more of the connection's window then costs a few turns, not one for each of a thousand
    streams.
    """

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._ready: dict[SendingStream, None] = {}
        self._waiting_for_shared: dict[SendingStream, None] = {}
        self._waiting_for_own: dict[SendingStream, None] = {}

    def add(self, stream: SendingStream) -> None:
        """Give a stream that has something to send its place in the order."""
        if stream not in self._waiting_for_own and stream not in self._waiting_for_shared:
            self._ready[stream] = None

    def remove(self, stream: SendingStream) -> None:
        for queue in (self._ready, self._waiting_for_shared, self._waiting_for_own):
            queue.pop(stream, None)

    def window_opened(self, stream: SendingStream) -> None:
        if stream in self._waiting_for_own:
            del self._waiting_for_own[stream]
            self._ready[stream] = None

    def every_window_changed(self) -> None:
        self._ready |= self._waiting_for_own
        self._waiting_for_own.clear()

    def send(self, size: int) -> bool:
        """Let streams send, one frame in each turn, until ``size`` bytes or more are sent.

        Returns:
            Whether streams may have more to send now.
        """
        fruitless = 0
        while size > 0:
            if (
                self._waiting_for_shared
                and fruitless < _FRUITLESS_TURNS
                and self._windows.shared_window() > 0
            ):
                queue = self._waiting_for_shared
            elif self._ready:
                queue = self._ready
            else:
                return False
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
        return True


class Outlet:
    """A transport's writing side. Its owner tells it when the transport is gone.

    Attributes:
        written: bytes written since the beginning.
    """

    def __init__(
        self, transport: asyncio.Transport, peer: str, call_later: Callable[..., Cancellable]
    ) -> None:
        self.written = 0
        self._transport = transport
        self.peer = peer
        self.gone = False
        self._call_later = call_later
        self.encrypted = transport.get_extra_info("sslcontext") is not None
        self._shut = False
        self._finishing: Cancellable | None = None

    @property
    def closed(self) -> bool:
        """Whether nothing more is sent, and input does not matter."""
        return self.gone or self._shut or self._transport.is_closing()

    @property
    def unsent(self) -> int:
        return 0 if self.gone else self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Write bytes; cut a client that takes nothing but provokes more and more."""
        if self.closed:
            return
        self.written += len(data)
        self._transport.write(data)
        if self.unsent > limits.WRITE_HIGH_WATER + HTTP2_MAX_UNSENT:
            log.warning(LogLine("a client does not read the answers to its frames", peer=self.peer))
            self._transport.abort()

    def close(self, *, gently: bool = False) -> None:
        """Close once unsent bytes are taken; cut a client that takes nothing.

        Args:
            gently: first read and drop the client's input until it ends its side, for
                LINGER_TIMEOUT at most. Unread bytes would make TCP send RST, which erases the last
                events (clauses 2.3-6, 2.7-1).
        """
        if self.closed:
            return
        if gently and half_close(self._transport):
            self._shut = True
            self._transport.resume_reading()  # it may have waited for its turn
        else:
            self._transport.close()
        self._look_later(Lingering(self.unsent))

    def abort(self) -> None:
        if not self.gone:
            self._transport.abort()

    def lost(self) -> None:
        if self._finishing is not None:
            self._finishing.cancel()
        if not self.gone:
            self.gone = True
            del self._transport  # and TLS's buffers with it

    def _look_later(self, lingering: Lingering) -> None:
        self._finishing = self._call_later(lingering.interval, self._keep_finishing, lingering)

    def _keep_finishing(self, lingering: Lingering) -> None:
        unsent = self.unsent
        if unsent and lingering.look(unsent):
            self._look_later(lingering)
        elif unsent or not self.encrypted:
            self.abort()
        # Otherwise the rest is in the transport below TLS, whose bytes are not visible here. It has
        # a time limit of its own (the loop's ssl_shutdown_timeout).
