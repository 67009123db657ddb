"""A client's HTTP/2 frames, told apart and put together, and the parts of a connection."""

from __future__ import annotations

from hpack import Encoder
from hyperframe.frame import Frame, HeadersFrame, SettingsFrame

from partway.gateway.http.connection_admission import uncounted
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.http2.connections import Connections
from partway.gateway.http.http2.lifetime import Http2Lifetime
from partway.gateway.http.http2.sending import Outlet
from partway.protocol import limits
from tests.gateway.http.http2.gated import GateAndReader
from tests.gateway.streams.fakes import FakeClock, FakeTransport
from tests.wire.floods import PREFACE, raw

REQUEST = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/")]
OPENING = PREFACE + raw(SettingsFrame(0))
PEER = "192.0.2.1"


def head(
    stream_id: int, *more: tuple[str, str], flags: tuple[str, ...] = ("END_HEADERS",)
) -> Frame:
    """A request's head; its headers are in no table, so that heads come in any order."""
    return HeadersFrame(stream_id, Encoder().encode([*REQUEST, *more]), flags=flags)


def whole(stream_id: int) -> Frame:
    """A request without a body."""
    return head(stream_id, flags=("END_HEADERS", "END_STREAM"))


def frames_in(data: bytes) -> list[Frame]:
    """Whole frames, and nothing behind them."""
    found = []
    while data:
        frame, length = Frame.parse_frame_header(memoryview(data[:9]))
        assert len(data) >= 9 + length, f"{frame} is cut"
        frame.parse_body(memoryview(data[9 : 9 + length]))
        found.append(frame)
        data = data[9 + length :]
    return found


class Operation:
    """Answers exchanges: with a body, or by a response that stays open.

    Attributes:
        asked: each exchange.
    """

    def __init__(self, body: bytes | None = None) -> None:
        self.asked: list[Exchange] = []
        self._body = body

    async def __call__(self, exchange: Exchange) -> None:
        self.asked.append(exchange)
        if self._body is None:
            await exchange.open(200, {})
        else:
            exchange.respond(200, self._body)


class Parts:
    """What a connection is made of, but for the one that is tested.

    Args:
        operation: answers exchanges.
        max_streams: of the connection.
    """

    def __init__(self, operation: Operation | None = None, max_streams: int = 10) -> None:
        self.clock = FakeClock()
        self.transport = FakeTransport()
        self.transport.set_write_buffer_limits(
            high=limits.WRITE_HIGH_WATER, low=limits.WRITE_LOW_WATER
        )
        self.out = Outlet(self.transport, PEER, self.clock.call_later)
        self.gate = GateAndReader(self.clock.time(), max_streams)
        self.operation = operation or Operation()
        self.told: list[str] = []
        self.siblings = Connections(self.operation, self.told.append, max_streams)
        self.visitor = uncounted()
        self.lifetime = Http2Lifetime(
            self.gate,
            self.out,
            self.siblings,
            flush=self.flush,
            on_closing=self.on_closing,
            call_later=self.clock.call_later,
            visitor=self.visitor,
        )
        self._read = 0

    def flush(self) -> None:
        """What the connection does to have everything written."""

    def on_closing(self) -> None:
        """What the connection does when it takes no more streams."""

    def sent(self) -> list[Frame]:
        """Frames that were written since the last time."""
        self.flush()
        data, self._read = self.transport.written[self._read :], len(self.transport.written)
        return frames_in(bytes(data))
