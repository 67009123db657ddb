"""The leg toward a client that speaks event streams, over HTTP/2 or HTTP/1.1 (section 2, 2.6-1)."""

from __future__ import annotations

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.http.duplex import Duplex, Parting
from partway.gateway.streams.ends import Cause, ClientFault, Ending
from partway.gateway.streams.legs import ClientLeg, LegOwner
from partway.gateway.timing.clock import Clock
from partway.protocol.connections.peer_watch import PingWatch
from partway.protocol.event_stream.part_headers import EventFault
from partway.protocol.event_stream.reader import Check, RequestEvents
from partway.protocol.event_stream.writer import encode_error, encode_part
from partway.protocol.limits import LINGER_TIMEOUT
from partway.protocol.parts import INVALID_SIGNATURE, InputEnd, InternalStreamFailure, PayloadPart

#: Ends without a last event, since the client itself ended the stream.
_GONE = frozenset(
    {
        Cause.CLIENT_FINISHED,
        Cause.CLIENT_CANCELLED,
        Cause.CLIENT_LOST,
        Cause.CLIENT_UNRESPONSIVE,
    }
)

#: Not CLIENT_LOST: a client that was cut off, or forgot the event, can still be told.
_CUT = ClientFault(
    "the input ended without its signed, empty last event: it may have been cut off",
    INVALID_SIGNATURE,
)

#: Replaces bytes that a client does not take, if its stream has no exception of its own.
NOT_TAKEN = encode_error(
    InternalStreamFailure(
        f"the client took no byte for {LINGER_TIMEOUT:g} s after the end; parts are missing"
    )
)


class EventStreamClientLeg(ClientLeg):
    """The leg that reads and writes events in the two bodies of one exchange.

    Args:
        duplex: the bodies; the response's head is on its way.
        check: says whether a signed event is genuine; None if the client does not sign.
        must_say_end: whether an input without an end event counts as cut.
    """

    def __init__(
        self,
        duplex: Duplex,
        check: Check | None,
        policy: StreamPolicy,
        clock: Clock,
        *,
        must_say_end: bool = False,
    ) -> None:
        self._duplex = duplex
        self._events = RequestEvents(policy.max_part, check)
        self._policy = policy
        self._clock = clock
        self._session: LegOwner
        self._pings: PingWatch | None = None
        self._reading = False
        self._delivering = False
        self._finished = False
        self._must_say_end = must_say_end

    # --- Leg -------------------------------------------------------------------------------------

    def start(self, session: LegOwner) -> None:
        self._session = session
        if self._duplex.pingable:
            # Its clock does not stop while reading is paused: pongs still arrive then.
            self._pings = PingWatch(
                self._duplex,
                self._clock,
                interval=self._policy.http2_ping_interval,
                unanswered_limit=self._policy.client_pings_unanswered,
                on_lost=lambda: session.client_gone(Cause.CLIENT_UNRESPONSIVE),
                stall=session.client_stall,
            )
        self._duplex.start(
            self,
            high_water=self._policy.high_water,
            low_water=self._policy.low_water,
            call_later=self._clock.call_later,
        )

    def send(self, part: PayloadPart) -> None:
        self._duplex.write(encode_part(part))

    def pause_reading(self) -> None:
        self._reading = False
        self._duplex.pause_reading()

    def resume_reading(self) -> None:
        self._reading = True
        self._deliver()
        if self._reading:
            self._duplex.resume_reading()

    def finish(self, ending: Ending) -> None:
        self._finished = True
        if self._pings is not None:
            self._pings.stop()
        if ending.cause in _GONE:
            self._duplex.abort()
            return
        last = b"" if ending.error is None else encode_error(ending.error)
        self._duplex.finish(last, last or NOT_TAKEN)

    def buffered_bytes(self) -> int:
        return self._duplex.buffered_bytes + self._events.buffered_bytes

    def taken_bytes(self) -> int:
        return self._duplex.taken_bytes

    # --- DuplexHandler ---------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._events.feed(data)
        self._deliver()

    def input_ended(self) -> None:
        if self._events.mid_event:
            self._session.client_gone(Cause.CLIENT_LOST)  # a cut (clause 2.3-2)
        elif self._must_say_end:
            self._session.client_failed(_CUT)
        else:
            self._session.input_ended()

    def pong_received(self, payload: bytes) -> None:
        if self._pings is not None:
            self._pings.pong_received(payload)

    def writing_paused(self) -> None:
        self._session.client_blocked()

    def writing_resumed(self) -> None:
        self._session.client_drained()

    def connection_lost(self, how: Parting) -> None:
        if self._pings is not None:
            self._pings.stop()
        match how:
            case Parting.IN_ORDER:
                self._session.client_finished()
            case Parting.CANCELLED:
                self._session.client_gone(Cause.CLIENT_CANCELLED)
            case Parting.LOST:
                self._session.client_gone(Cause.CLIENT_LOST)
        self._session.leg_closed()

    # --- Internals -------------------------------------------------------------------------------

    def _deliver(self) -> None:
        if self._delivering:  # the session paused and resumed us: the loop below goes on
            return
        self._delivering = True
        try:
            while self._reading and not self._finished:
                event = self._events.next_event()
                if event is None:
                    break
                if isinstance(event, InputEnd):
                    self._must_say_end = False
                    self._session.input_ended()
                else:
                    self._session.part_from_client(event)
        except EventFault as fault:
            self._session.client_failed(ClientFault(fault.message, fault.code, fault.oversize))
        except Exception:  # a fault of ours ends only this stream, with its cause named
            self._session.failed()
        finally:
            self._delivering = False
