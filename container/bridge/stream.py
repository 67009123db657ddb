"""One stream through the bridge: two WebSocket connections, whose frames pass one for one.

Everything here is a callback from a connection or a timer: no task and no queue per frame.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from partway.container.limits import FINISH_CHECKS, FINISH_TIMEOUT
from partway.container.stream_watch import ProgressWatch
from partway.log_lines import LogLine
from partway.protocol.connections.peer_watch import PingWatch, StallWatch, Wait
from partway.protocol.connections.upgrading import Upgraded
from partway.protocol.connections.websocket import FrameConnection, FrameHandler, HttpProtocol, Side
from partway.protocol.limits import (
    CONTAINER_PING_INTERVAL,
    CONTAINER_PINGS_UNANSWERED,
    LOGGED_CHARACTERS,
    STALL_TIMEOUT,
)
from partway.protocol.websocket.close_codes import (
    ABNORMAL,
    GOING_AWAY,
    INTERNAL_ERROR,
    NO_STATUS,
    Close,
    only_ends_input,
)
from partway.protocol.websocket.frame_decoder import FrameError
from partway.protocol.websocket.frames import Frame

_log = logging.getLogger("partway.container.bridge")

_GONE: Final = Close(GOING_AWAY)


class StreamTimes(NamedTuple):
    """The time limits of a stream, in seconds.

    Attributes:
        ping_interval: between two pings to the upstream.
        stall: without progress, while a side takes nothing.
        finish: of the upstream's silence, once the client's input has ended.
    """

    ping_interval: float = CONTAINER_PING_INTERVAL
    stall: float = STALL_TIMEOUT
    finish: float = FINISH_TIMEOUT


STREAM_TIMES: Final = StreamTimes()


class BridgedStream:
    """A stream between the platform and the upstream.

    Rules:
        1. A data frame passes as it came: its opcode, its FIN and its payload (clauses 1.2-1,
           1.3-1). Each connection answers its own pings (1.4-3).
        2. While one side has too many unsent bytes, the other side is not read.
        3. The platform's Close that only ends the input (1.5-11) goes to the upstream. Frames of
           the upstream still pass, until its own Close; if nothing comes for ``times.finish``, the
           platform gets Close 1011. Any other Close of the platform goes to the upstream, and is
           answered at once.
        4. The upstream's Close goes to the platform, code and reason.
        5. Otherwise the platform's end is Close 1011 with a reason: the upstream's connection
           broke, or broke RFC 6455, its pings stay unanswered, or it takes nothing. The upstream's
           end is Close 1001: the client has gone.

    Args:
        request_id: the gateway's, for the log.
        path: the requested one, for the log.
    """

    def __init__(self, request_id: str, path: str, times: StreamTimes = STREAM_TIMES) -> None:
        self._request_id = request_id
        self._path = path
        self._times = times
        self._loop = loop = asyncio.get_running_loop()
        self._platform = _Leg(self, Side.SERVER, times.stall)
        self._upstream = _Leg(self, Side.CLIENT, times.stall)
        self._platform.other, self._upstream.other = self._upstream, self._platform
        self._pings: PingWatch | None = None
        self._finishing = ProgressWatch(loop, self._progress, self._look_at_progress)
        self._input_over = False
        self._end: Close | None = None
        self._legs_open = 2
        self._over = loop.create_future()

    @property
    def buffered_bytes(self) -> int:
        """Bytes held in this process for the stream, both ways."""
        return self._platform.connection.buffered_bytes + self._upstream.connection.buffered_bytes

    # --- For the server --------------------------------------------------------------------------

    async def run(self, http: HttpProtocol, upgraded: Upgraded) -> None:
        """Take both connections over, and return once both have ended.

        The caller must tell the HTTP server of the connection's end. Cancelling this call aborts
        both connections.

        Args:
            http: the platform's connection, whose 101 has been written.
            upgraded: the upstream's.
        """
        began = self._loop.time()
        platform, upstream = self._platform.connection, self._upstream.connection
        self._pings = PingWatch(
            upstream,
            self._loop,
            interval=self._times.ping_interval,
            unanswered_limit=CONTAINER_PINGS_UNANSWERED,
            on_lost=self._upstream_silent,
            stall=self._upstream.stall,
        )
        platform.pause_reading()
        upstream.pause_reading()
        try:
            platform.take_over_from(http, tell_end=False)
            upstream.take_over(upgraded.transport, upgraded.accepted.trailing)
            # Both can be written to before either is read.
            platform.resume_reading()
            upstream.resume_reading()
            await self._over  # bounded by the connections' linger
        finally:
            if self._legs_open:
                self.abort()
            self._log_end(self._loop.time() - began)

    def close(self, code: int, reason: str) -> None:
        """End the stream; both sides get this Close."""
        close = Close(code, reason)
        self._ended(close, to_platform=close, to_upstream=close)

    def abort(self) -> None:
        self._ended(Close(ABNORMAL, "aborted"))
        self._platform.connection.abort()
        self._upstream.connection.abort()

    # --- What the legs tell ----------------------------------------------------------------------

    def closed_by(self, leg: _Leg, close: Close) -> None:
        """Pass a Close on (rules 3 and 4)."""
        if leg is self._upstream:
            self._ended(close, to_platform=close)
        elif only_ends_input(close):
            self._input_over = True
            self._stop_pings()  # no frame follows a Close
            self._upstream.connection.close(close)
            self._finishing.watch(self._times.finish / FINISH_CHECKS)
        else:
            self._ended(close, to_platform=close, to_upstream=close)

    def broken_by(self, leg: _Leg, error: FrameError) -> None:
        """End the stream of a side that broke RFC 6455; its connection sends the matching Close."""
        if leg is self._upstream:
            self._upstream_failed(f"the upstream broke RFC 6455: {error.reason}")
        else:
            self._ended(Close(error.code, error.reason), to_upstream=_GONE)

    def lost_by(self, leg: _Leg, error: Exception | None) -> None:
        if leg is self._upstream:
            inside = " in the middle of a message" if leg.mid_message else ""
            self._upstream_failed(f"the upstream's connection ended{inside}, without a Close")
        else:
            lost = f"the connection was lost: {error or 'end of file'}"
            self._ended(Close(ABNORMAL, lost), to_upstream=_GONE)
        self._legs_open -= 1
        if not self._legs_open and not self._over.done():
            self._over.set_result(None)

    def stalled_by(self, leg: _Leg) -> None:
        """End the stream of a side that takes nothing; its connection lingers, and is aborted."""
        took_nothing = f"took nothing for {self._times.stall:g} s"
        if leg is self._upstream:
            self._upstream_failed(f"the upstream {took_nothing}")
        else:
            self._ended(Close(ABNORMAL, f"the client {took_nothing}"), to_upstream=_GONE)

    def pong_received(self, leg: _Leg, payload: bytes) -> None:
        if leg is self._upstream and self._pings is not None:
            self._pings.pong_received(payload)

    def blocked(self, leg: _Leg) -> None:
        """Stop reading the other side (rule 2)."""
        leg.other.connection.pause_reading()
        if leg is self._platform and self._pings is not None:
            self._pings.reading_paused()

    def unblocked(self, leg: _Leg) -> None:
        if leg is self._platform and self._pings is not None and not self._input_over:
            self._pings.reading_resumed()
        leg.other.connection.resume_reading()

    # --- Inside ----------------------------------------------------------------------------------

    def _progress(self) -> tuple[int, int, int]:
        """Return counters that change while the upstream answers and the client takes it."""
        platform, upstream = self._platform.connection, self._upstream.connection
        return self._upstream.parts, platform.taken_bytes, upstream.taken_bytes

    def _look_at_progress(self, still: float) -> None:
        # If the client is behind, its stall is watched instead.
        if still >= self._times.finish and not self._platform.is_blocked:
            silent = f"the upstream was silent for {self._times.finish:g} s after its input's end"
            self._upstream_failed(f"{silent} (--finish-timeout)")

    def _upstream_silent(self) -> None:
        self._upstream_failed(f"the upstream did not answer {CONTAINER_PINGS_UNANSWERED} pings")

    def _upstream_failed(self, reason: str) -> None:
        """End the stream by a fault of the upstream (rule 5)."""
        if self._end is None:
            _log.warning(LogLine("the upstream failed", request_id=self._request_id, reason=reason))
            end = Close(INTERNAL_ERROR, reason)
            self._ended(end, to_platform=end, to_upstream=_GONE)

    def _ended(
        self, end: Close, *, to_platform: Close | None = None, to_upstream: Close | None = None
    ) -> None:
        """Note the first end, and finish both connections.

        Without a Close a connection completes the closing handshake that its peer has begun.
        """
        if self._end is not None:
            return
        self._end = end
        self._stop_pings()
        self._finishing.stop()
        for leg in (self._platform, self._upstream):
            leg.stall.stop()
        self._platform.connection.finish(to_platform)
        if self._input_over and to_upstream is not None:
            # Clause 1.5-13: a Close has gone out already, and the model would work on for nobody.
            self._upstream.connection.abort()
        else:
            self._upstream.connection.finish(to_upstream)

    def _stop_pings(self) -> None:
        if self._pings is not None:
            self._pings.stop()

    def _log_end(self, duration: float) -> None:
        end = self._end or Close(ABNORMAL)
        _log.info(
            LogLine(
                "stream ended",
                request_id=self._request_id,
                path=self._path,
                duration=round(duration, 3),
                parts_in=self._platform.parts,
                bytes_in=self._platform.bytes,
                parts_out=self._upstream.parts,
                bytes_out=self._upstream.bytes,
                code=end.code or NO_STATUS,
                reason=end.reason[:LOGGED_CHARACTERS],
            )
        )


class _Leg(FrameHandler):
    """One side of a stream: its connection, and the counts of its data frames.

    Attributes:
        other: the leg that this one's frames go to.
        mid_message: whether its last data frame began or continued a message.
        is_blocked: whether it has too many unsent bytes.
    """

    def __init__(self, stream: BridgedStream, side: Side, stall_timeout: float) -> None:
        self._stream = stream
        self.other: _Leg
        self.parts = self.bytes = 0
        self.mid_message = self.is_blocked = False
        # A container checks the platform's text (clause 1.1-8). The platform's Close is answered by
        # the upstream's (rule 3).
        is_platform = side is Side.SERVER
        self.connection = FrameConnection(
            self, side, check_text=is_platform, answer_close=not is_platform
        )
        self.stall = StallWatch(
            lambda: self.connection.taken_bytes,
            asyncio.get_running_loop(),
            stall_timeout,
            lambda: stream.stalled_by(self),
        )

    def frame_received(self, frame: Frame) -> None:
        self.parts += 1
        self.bytes += len(frame.payload)
        self.mid_message = not frame.fin
        self.other.connection.send(frame)

    def pong_received(self, payload: bytes) -> None:
        self._stream.pong_received(self, payload)

    def close_received(self, close: Close) -> None:
        self._stream.closed_by(self, close)

    def peer_failed(self, error: FrameError) -> None:
        self._stream.broken_by(self, error)

    def connection_lost(self, error: Exception | None) -> None:
        self.stall.stop()
        self._stream.lost_by(self, error)

    def writing_paused(self) -> None:
        self.is_blocked = True
        self.stall.waiting(Wait.HIGH_WATER)
        self._stream.blocked(self)

    def writing_resumed(self) -> None:
        self.is_blocked = False
        self.stall.moving(Wait.HIGH_WATER)
        self._stream.unblocked(self)
