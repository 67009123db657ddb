"""The lifetime of an HTTP/2 connection: which streams it takes, and when it closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from h2.errors import ErrorCodes

from partway.gateway.http.connection_admission import Visitor
from partway.gateway.http.http2.connections import Connections
from partway.gateway.http.http2.sending import Outlet
from partway.gateway.limits import (
    HTTP2_IDLE_TIMEOUT,
    HTTP2_PREMATURE_AFTER,
    HTTP2_PREMATURE_SECONDS,
    HTTP2_PREMATURE_SHARE,
)
from partway.log_lines import LogLine
from partway.protocol import limits
from partway.protocol.connections.fair_turns import Cancellable
from partway.protocol.http2.flood_gate import FrameGate
from partway.protocol.http2.frames import goaway

log = logging.getLogger("partway.http2")

#: The last stream in GOAWAY of a server that still answers streams under way to it (RFC 9113 §6.8).
_EVERY_STREAM = 2**31 - 1


class Http2Lifetime:
    """Decides which streams a connection takes, and when it takes no more and closes.

    The owner calls :meth:`takes_a_stream` before it begins one, reports each stream's beginning and
    end, calls :meth:`review` after every turn, and :meth:`lost` once the transport is gone.

    Rules:
        1. A stream beyond the limit of this connection, of all connections or of its peer is
        refused alone. Requests for the reserve have some further streams. Streams that wait only
        for the client's end do not count here: those have limits of their own.
        2. A connection without streams closes after HTTP2_IDLE_TIMEOUT. It closes after
        REQUEST_HEAD_TIMEOUT if it never had one, or if the client has sent GOAWAY. Such a client
        closes the connection itself when it has read everything.
        3. Too many costly frames (the gate's rule 2) close the connection to new streams. So do
        more refusals than its budget allows (rule 4 of
        :class:`~partway.gateway.http.unauthenticated_clients.Strangers`), and rapid reset at a rate
        that the gate lets pass. Running streams go on.
        4. A connection closed to new streams closes once its last stream has ended on both sides
        and unsent bytes are taken.
        5. A later GOAWAY does not raise the last stream of an earlier one (RFC 9113 §6.8).

    Args:
        flush: writes the HTTP/2 library's pending bytes.

    Attributes:
        closing: whether it takes no new stream, and closes with its last one.
    """

    def __init__(
        self,
        gate: FrameGate,
        out: Outlet,
        siblings: Connections,
        *,
        flush: Callable[[], None],
        on_closing: Callable[[], None],
        call_later: Callable[..., Cancellable],
        visitor: Visitor,
    ) -> None:
        self.closing = False
        self.visitor = visitor
        self._gate = gate
        self._out = out
        self._siblings = siblings
        self._flush = flush
        self._on_closing = on_closing
        self._call_later = call_later
        self._open = 0
        self._unended = 0  # ended here, but not on the client's side
        self._over = 0
        self._premature = 0
        self._idle: Cancellable | None = None
        self._idle_after(limits.REQUEST_HEAD_TIMEOUT)

    # --- For the server --------------------------------------------------------------------------

    def announce_end(self) -> None:
        """Send GOAWAY; new streams are still answered (RFC 9113 §6.8)."""
        if not self.closing:  # rule 5
            self._out.write(goaway(_EVERY_STREAM, ErrorCodes.NO_ERROR))

    def close_when_idle(self) -> None:
        if not self.closing:
            self._close_to_new(ErrorCodes.NO_ERROR)
        self.close_if_done()

    def abort(self) -> None:
        self._out.abort()

    def drop(self) -> None:
        """Close at once to make room; a GOAWAY still says which requests were answered.

        There is no GOAWAY if it would mean waiting: for a client that takes nothing, or with TLS,
        whose end has two sides.
        """
        if self._out.unsent or self._out.encrypted:
            self._out.abort()
            return
        self._out.write(goaway(self._gate.last_stream, ErrorCodes.NO_ERROR))
        self._out.close()

    # --- For the connection's streams ------------------------------------------------------------

    def takes_a_stream(self, *, reserved: bool = False) -> bool:
        """Say whether one more stream may begin (rule 1).

        Args:
            reserved: whether its request is one that the reserve is for.
        """
        return self._open < self._siblings.max_streams and not self._siblings.full(
            self.visitor, reserved=reserved
        )

    @property
    def streams(self) -> int:
        """The number of streams, with those that wait only for the client's end."""
        return self._open + self._unended

    def stream_began(self) -> None:
        self._open += 1
        self._siblings.stream_began(self.visitor)
        self._cancel_idle()

    def stream_reset(self, age: float) -> None:
        """Note that a stream was reset, by the client or because of its input.

        :meth:`stream_over` follows.

        Args:
            age: seconds since the stream began.
        """
        if age < HTTP2_PREMATURE_SECONDS:
            self._premature += 1

    def stream_over(self) -> None:
        """Note that nothing more is sent on one of the streams."""
        self._open -= 1
        self._siblings.stream_over(self.visitor)
        self._over += 1
        if self._open or self._out.gone:
            return
        if self.closing:  # after the bytes that are being sent
            asyncio.get_running_loop().call_soon(self.close_if_done)
        elif self._gate.client_goes:
            self._idle_after(limits.REQUEST_HEAD_TIMEOUT)
        else:
            self._idle_after(HTTP2_IDLE_TIMEOUT)

    def stream_unended(self) -> None:
        """Note that a stream waits only for the client's end (rule 4)."""
        self._unended += 1

    def client_ended(self) -> None:
        self._unended -= 1

    # --- For the connection ----------------------------------------------------------------------

    def review(self) -> None:
        """Close to new streams if the client has done too much (rule 3)."""
        if self.closing:
            return
        too_much = self._gate.overdone or self._premature_resets()
        if too_much is None and self.visitor.account.overdrawn:
            too_much = "refused requests"
        if too_much is not None:
            closed = "a connection takes no more streams"
            log.warning(LogLine(closed, too_much=too_much, peer=self._out.peer))
            self._siblings.on_closed_to_new(too_much)
            self._close_to_new(ErrorCodes.ENHANCE_YOUR_CALM)

    def close_if_done(self) -> None:
        """Close the connection if there is nothing left to wait for (rule 4)."""
        if self.closing and not self._open and not self._unended and not self._out.gone:
            self._flush()
            self._out.close(gently=True)

    def lost(self) -> None:
        self._cancel_idle()
        self.visitor.leave()

    # --- Internals -------------------------------------------------------------------------------

    def _premature_resets(self) -> str | None:
        """Name the excess if many streams were reset early, however slowly; else None."""
        limit = HTTP2_PREMATURE_SHARE * self._over
        many = self._over >= HTTP2_PREMATURE_AFTER and self._premature > limit
        return "premature resets" if many else None

    def _close_to_new(self, code: ErrorCodes) -> None:
        # Not by h2, which would then send nothing more.
        self.closing = True
        self._gate.close_to_new()
        self._out.write(goaway(self._gate.last_stream, code))
        self._on_closing()

    def _idle_after(self, seconds: float) -> None:
        self._idle = self._call_later(seconds, self.close_when_idle)

    def _cancel_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
