"""Late input: bytes that arrive on an HTTP/2 stream after its response (clause 2.3-6)."""

from __future__ import annotations

from collections.abc import Callable

from partway.gateway.http.http2.connections import Connections
from partway.gateway.limits import (
    HTTP2_LATE_BYTES,
    HTTP2_LATE_QUIET,
    HTTP2_LATE_QUIET_AT_CLOSE,
    HTTP2_LATE_QUIET_UNBEGUN,
    HTTP2_LATE_STREAMS,
    HTTP2_LATE_STREAMS_IN_ALL,
    HTTP2_LATE_TIMEOUT,
    HTTP2_OPENING_WINDOW,
)
from partway.gateway.timing.clock import Clock, Timer

#: Credit is given back in steps of this size, as on streams that are open.
_CREDIT_STEP = HTTP2_OPENING_WINDOW // 2


class LateInput:
    """The late streams of a connection: ended here, but not yet on the client's side.

    The response and its END_STREAM are sent, and the client may go on with its request. The owner
    reports each such stream by :meth:`begin`, its DATA by :meth:`received`, and its end by
    :meth:`ended`.

    Rules:
        1. Input is dropped, and credited all the same: a client may have to send everything before
        it can end a stream.
        2. A stream is reset when nothing has come on it for HTTP2_LATE_QUIET. RFC 9113 §8.1 allows
        an earlier reset, but node takes any reset for an abort, and the JavaScript SDK then drops
        unread data. In the Python SDK, input that the caller sends after the reset makes closing
        the stream wait for ever. The reset must come, since version 0.4 of the Python SDK waits for
        it. If the client was answered in whole before it sent anything, the time is
        HTTP2_LATE_QUIET_UNBEGUN.
        3. A stream is reset at once when more than HTTP2_LATE_BYTES have come on it, and when
        HTTP2_LATE_TIMEOUT has passed.
        4. The oldest stream of a connection is reset at once when there are more than
        HTTP2_LATE_STREAMS. A client counts them among its open ones (RFC 9113 §5.1.2), so the limit
        is at most half of those it may open. With more than HTTP2_LATE_STREAMS_IN_ALL on all
        connections, the connection with most of them loses its oldest. So a client that leaves many
        harms only itself.
        5. A connection that closes waits until nothing has come for HTTP2_LATE_QUIET_AT_CLOSE; its
        owner ends the transport if that takes too long.

    Args:
        give_credit: lets the client send more on a stream: its id, and how many bytes.
        tell: resets a stream with NO_ERROR; :meth:`ended` has been called by then.
    """

    def __init__(
        self,
        siblings: Connections,
        clock: Clock,
        *,
        give_credit: Callable[[int, int], None],
        tell: Callable[[int], None],
    ) -> None:
        self._siblings = siblings
        self._clock = clock
        self._give_credit = give_credit
        self._tell = tell
        self._at_most = max(1, min(HTTP2_LATE_STREAMS, siblings.max_streams // 2))
        self._closing = False
        self._streams: dict[int, _LateStream] = {}

    def __contains__(self, stream_id: int) -> bool:
        return stream_id in self._streams

    def __len__(self) -> int:
        return len(self._streams)

    def begin(self, stream_id: int, owed: int, *, unbegun: bool) -> None:
        """Note that a stream is late: it waits for the client's end.

        ``owed`` counts bytes that have come on the stream and are not credited. ``unbegun`` says
        whether the client was answered in whole before it sent any of its body.
        """
        quiet = HTTP2_LATE_QUIET_UNBEGUN if unbegun else HTTP2_LATE_QUIET
        stream = self._streams[stream_id] = _LateStream(self._clock.time(), owed, quiet)
        self._siblings.late += 1
        self._siblings.unended.has(self, len(self))
        self._credit(stream_id, stream)
        first = min(quiet, HTTP2_LATE_QUIET_AT_CLOSE) if self._closing else quiet
        self._look_after(stream_id, stream, first)
        if len(self) > self._at_most:  # rule 4
            self.reset_oldest()
        elif self._siblings.late > HTTP2_LATE_STREAMS_IN_ALL:
            fullest = self._siblings.unended.top()
            assert fullest is not None, "this one has some"
            fullest.reset_oldest()

    def received(self, stream_id: int, size: int) -> None:
        """Drop DATA of a late stream (rules 1 and 3)."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.heard_at = self._clock.time()
        stream.quiet = HTTP2_LATE_QUIET
        stream.received += size
        stream.owed += size
        if stream.received > HTTP2_LATE_BYTES:
            self._reset(stream_id)
        elif stream.owed >= _CREDIT_STEP:
            self._credit(stream_id, stream)

    def ended(self, stream_id: int) -> bool:
        """Note that the client has ended a stream; return whether it was a late one."""
        stream = self._streams.pop(stream_id, None)
        if stream is None:
            return False
        self._siblings.late -= 1
        self._siblings.unended.has(self, len(self))
        stream.timer.cancel()
        return True

    def reset_oldest(self) -> None:
        """Reset the stream that has been late for longest (rule 4)."""
        self._reset(next(iter(self._streams)))

    def close_soon(self) -> None:
        """Shorten the wait for each stream, because the connection closes (rule 5)."""
        self._closing = True
        for stream_id, stream in self._streams.items():
            stream.timer.cancel()
            self._look_after(stream_id, stream, HTTP2_LATE_QUIET_AT_CLOSE)

    def lost(self) -> None:
        for stream_id in list(self._streams):
            self.ended(stream_id)

    # --- Internals -------------------------------------------------------------------------------

    def _credit(self, stream_id: int, stream: _LateStream) -> None:
        if stream.owed:
            owed, stream.owed = stream.owed, 0
            self._give_credit(stream_id, owed)

    def _look_after(self, stream_id: int, stream: _LateStream, seconds: float) -> None:
        stream.timer = self._clock.call_later(seconds, self._look, stream_id, stream)

    def _look(self, stream_id: int, stream: _LateStream) -> None:
        """Reset a stream whose time is over; a timer for each DATA frame would cost more."""
        quiet = min(stream.quiet, HTTP2_LATE_QUIET_AT_CLOSE) if self._closing else stream.quiet
        due = min(stream.heard_at + quiet, stream.began_at + HTTP2_LATE_TIMEOUT)
        left = due - self._clock.time()
        if left > 0:
            self._look_after(stream_id, stream, left)
        else:
            self._reset(stream_id)

    def _reset(self, stream_id: int) -> None:
        self.ended(stream_id)
        self._tell(stream_id)


class _LateStream:
    """One late stream.

    Attributes:
        began_at: when its response was over.
        heard_at: when DATA last came on it.
        received: bytes that have come on it since its response was over.
        owed: bytes that are not credited yet.
        quiet: seconds without DATA after which it is reset.
    """

    __slots__ = ("began_at", "heard_at", "owed", "quiet", "received", "timer")

    timer: Timer

    def __init__(self, now: float, owed: int, quiet: float) -> None:
        self.began_at = self.heard_at = now
        self.quiet = quiet
        self.received = 0
        self.owed = owed
