"""A clock that a test turns, legs and a connection that write down what is asked of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.streams.ends import Ending
from partway.gateway.streams.legs import ClientLeg, ContainerLeg, Leg
from partway.gateway.streams.session import Session
from partway.protocol.parts import CompletionState, PayloadPart
from partway.protocol.websocket.close_codes import Close


@dataclass(order=True)
class FakeTimer:
    due: float
    number: int
    callback: Callable[[], object] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """Stands still until :meth:`advance`; then timers fire in order, each at its own time."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._timers: list[FakeTimer] = []
        self._numbers = count()

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> FakeTimer:
        timer = FakeTimer(self.now + delay, next(self._numbers), lambda: callback(*args))
        heapq.heappush(self._timers, timer)
        return timer

    @property
    def armed(self) -> list[FakeTimer]:
        """Timers that are still to fire, the next one first."""
        return sorted(timer for timer in self._timers if not timer.cancelled)

    def advance(self, seconds: float) -> None:
        self.advance_to(self.now + seconds)

    def advance_to(self, moment: float) -> None:
        while self._timers and self._timers[0].due <= moment:
            timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                self.now = timer.due
                timer.callback()
        self.now = moment


class FakeLeg(Leg):
    """Writes down its calls, holds back what arrives while paused, and blocks when told to."""

    def __init__(self) -> None:
        self.session: Session
        self.calls: list[str] = []
        self.sent: list[PayloadPart] = []
        self.paused = False
        self.held: list[Callable[[], None]] = []
        self.endings: list[Ending] = []
        self.taken = 0
        #: The next part sent goes over the high-water mark.
        self.block_on_send = False
        self._on_block: Callable[[], None]

    def arrive(self, delivery: Callable[[], None]) -> None:
        """Something comes from the peer: delivered now, or held back while reading is paused."""
        if self.paused:
            self.held.append(delivery)
        else:
            delivery()

    def start(self, session: Session) -> None:
        self.calls.append("start")
        self.session = session
        self.paused = True

    def send(self, part: PayloadPart) -> None:
        self.calls.append("send")
        self.sent.append(part)
        if self.block_on_send:
            self.block_on_send = False
            self._on_block()

    def pause_reading(self) -> None:
        self.calls.append("pause_reading")
        self.paused = True

    def resume_reading(self) -> None:
        self.calls.append("resume_reading")
        self.paused = False
        while self.held and not self.paused:
            self.held.pop(0)()

    def finish(self, ending: Ending) -> None:
        self.calls.append("finish")
        self.endings.append(ending)
        self.paused = False
        self.held.clear()  # a leg that is finishing delivers nothing more

    def buffered_bytes(self) -> int:
        return 0

    def taken_bytes(self) -> int:
        return self.taken


class FakeClientLeg(FakeLeg, ClientLeg):
    def start(self, session: Session) -> None:
        super().start(session)
        self._on_block = session.client_blocked


class FakeContainerLeg(FakeLeg, ContainerLeg):
    finishes_before_close = False

    def __init__(self) -> None:
        super().__init__()
        self.closes: list[Close] = []
        self.unsent = 0

    def start(self, session: Session) -> None:
        super().start(session)
        self._on_block = session.container_blocked

    def close(self, close: Close) -> None:
        self.calls.append("close")
        self.closes.append(close)

    def unsent_bytes(self) -> int:
        return self.unsent

    @property
    def mid_message(self) -> bool:
        return bool(self.sent) and self.sent[-1].completion is CompletionState.PARTIAL


class FakeStream:
    """A session between fake legs, started."""

    def __init__(self, *, start: bool = True, **policy: Any) -> None:
        self.clock = FakeClock()
        self.client = FakeClientLeg()
        self.container = FakeContainerLeg()
        self.ended: list[Session] = []
        self.session = Session(
            endpoint="echo",
            request_id="r-1",
            client=self.client,
            container=self.container,
            policy=StreamPolicy(**policy),
            clock=self.clock,
            on_end=self.ended.append,
        )
        if start:
            self.session.start()

    @property
    def container_gets(self) -> list[Close]:
        """The Closes that the session gives the container, at its input's end and at the end."""
        last = [ending.container_close for ending in self.container.endings]
        return [*self.container.closes, *(close for close in last if close is not None)]


class FakeConnection:
    """The little of a FrameConnection that a watch needs."""

    def __init__(self) -> None:
        self.pings: list[bytes] = []
        self.written = 0
        self.taken: int | None = 0

    def ping(self, payload: bytes) -> int:
        self.pings.append(payload)
        self.written += 10
        return self.written

    def flushed(self, position: int) -> bool:
        """``taken`` is what the socket has taken; None says that it takes everything at once."""
        return self.taken is None or self.taken >= position


class FakeTransport:
    """The transport of a connection whose peer is the test: takes all, or nothing while stuck.

    Args:
        encrypted: it is one of TLS, whose one side cannot be ended alone.
    """

    def __init__(self, *, encrypted: bool = False) -> None:
        self._encrypted = encrypted
        self.written = bytearray()
        self.unsent = 0
        self.stuck = False
        self.paused = False
        self.closing = False
        self.aborted = False
        self.eof_written = False
        self._high = self._low = 0
        self._writing_paused = False
        self._protocol: Any = None

    # What asyncio offers.

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self._high, self._low = high, low

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: bytes) -> None:
        assert not self.eof_written, "a write after write_eof raises"
        self.written += data
        if self.stuck:
            self.unsent += len(data)
            if self.unsent > self._high and not self._writing_paused:
                self._writing_paused = True
                self._protocol.pause_writing()

    def can_write_eof(self) -> bool:
        return not self._encrypted

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("192.0.2.1", 5), "sslcontext": self._encrypted or None}.get(name)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        self.write(b"".join(pieces))

    def write_eof(self) -> None:
        self.eof_written = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    # What the peer does.

    def deliver(self, data: bytes) -> None:
        assert not self.paused, "a paused transport delivers nothing"
        self._protocol.data_received(data)

    def take(self, count: int) -> None:
        """The socket takes bytes that were stuck."""
        self.unsent -= count
        if self._writing_paused and self.unsent <= self._low:
            self._writing_paused = False
            self._protocol.resume_writing()

    def lose(self, error: Exception | None = None) -> None:
        self._protocol.connection_lost(error)
