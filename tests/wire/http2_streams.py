"""A stream of :mod:`tests.wire.http2_peers`: a request and its response, in frames."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING

from hyperframe.frame import DataFrame, RstStreamFrame, WindowUpdateFrame

from tests.wire.event_messages import END, EndOfEvents, EventBuffer, EventMessage
from tests.wire.peers import STREAM_PATH

if TYPE_CHECKING:
    from tests.wire.http2_peers import RawHttp2Client

EVENT_STREAM = "application/vnd.amazon.eventstream"
#: The longest payload of a frame that every server takes (RFC 9113 §4.2).
FRAME = 16_384

Headers = list[tuple[str, str]]


class Code(IntEnum):
    """Error codes (RFC 9113 §7)."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


def bidirectional_request(
    more: Iterable[tuple[str, str]] = (), path: str = STREAM_PATH, **changes: str | None
) -> Headers:
    """A request's headers, pseudo-headers first.

    Args:
        more: further headers, behind the others.
        path: ``:path``.
        changes: other values; ``method``, ``scheme`` and ``authority`` are the pseudo-headers,
            and ``_`` stands for ``-``. None leaves one out.
    """
    fields: dict[str, str | None] = {
        ":method": "POST",
        ":scheme": "http",
        ":authority": "gateway.example",
        ":path": path,
        "content-type": EVENT_STREAM,
    }
    for name, value in changes.items():
        pseudo = f":{name}"
        fields[pseudo if pseudo in fields else name.replace("_", "-")] = value
    return [(name, value) for name, value in fields.items() if value is not None] + [*more]


def named(code: int) -> str:
    """An error code's name, where it has one."""
    return Code(code).name if code in list(Code) else f"{code:#x}"


class RawHttp2Stream:
    """One request and its response.

    Attributes:
        credit: bytes that the server still takes on this stream; below zero after an overrun.
        window: bytes that the server may still send.
        ends: what the server ended it with, in order: ``END_STREAM``, ``RST_STREAM(CODE)``,
            ``GOAWAY(CODE)``, which is an end where it refuses the stream, or how the connection
            ended, ``EOF``, ``CUT`` or ``ABORT``.
        input_ended: END_STREAM or RST_STREAM has been sent.
        cancelled: RST_STREAM has been sent.
        events: puts the response's messages together.
    """

    def __init__(self, client: RawHttp2Client, stream_id: int, credit: int, window: int) -> None:
        self.client = client
        self.stream_id = stream_id
        self.credit = credit
        self.window = window
        self.ends: list[str] = []
        self.input_ended = self.cancelled = False
        self.events = EventBuffer()
        #: Each block of headers so far: 1xx, the head, trailers.
        self.heads: list[Headers] = []
        self._queue = bytearray()
        self._end_queued = False
        self._received: list[DataFrame] = []

    # --- Out -------------------------------------------------------------------------------------

    @property
    def unsent(self) -> int:
        """Bytes that wait for the server's credit."""
        return len(self._queue)

    def send(self, *pieces: bytes) -> None:
        """Send bytes as DATA, what the windows allow now and the rest when they do."""
        self._queue += b"".join(pieces)
        self.pump()

    async def send_data(self, data: bytes) -> None:
        """The same, and wait until all is sent.

        Raises:
            EOFError: the stream was over first.
        """
        self.send(data)
        await self.client.until(lambda: not self._queue or self.dead, "credit for DATA")
        if self._queue:
            raise EOFError(f"{len(self._queue)} bytes unsent: {self.ends}")

    def overrun(self, data: bytes, *, end_stream: bool = False) -> None:
        """Send bytes at once, whatever the windows are."""
        pieces = [data[at : at + FRAME] for at in range(0, len(data), FRAME)] or [b""]
        for number, piece in enumerate(pieces, 1):
            self._send_data(piece, end_stream=end_stream and number == len(pieces))

    def end(self) -> None:
        """END_STREAM, behind all that was to be sent."""
        self._end_queued = True
        self.pump()

    def reset(self, code: int = Code.CANCEL) -> None:
        """RST_STREAM, before what is still unsent."""
        self.input_ended = self.cancelled = True
        self.client.send_frame(RstStreamFrame(self.stream_id, error_code=code))

    def give_credit(self, size: int) -> None:
        """WINDOW_UPDATE of this stream."""
        self.window += size
        self.client.send_frame(WindowUpdateFrame(self.stream_id, window_increment=size))

    def pump(self) -> None:
        """Send what the windows allow."""
        if self.input_ended or self.dead:
            return
        while self._queue and (size := min(self.credit, self.client.credit, FRAME)) > 0:
            piece = bytes(self._queue[:size])
            del self._queue[:size]
            self._send_data(piece, end_stream=self._end_queued and not self._queue)
        if self._end_queued and not self._queue and not self.input_ended:
            self._send_data(b"", end_stream=True)

    def _send_data(self, piece: bytes, *, end_stream: bool) -> None:
        self.credit -= len(piece)
        self.client.credit -= len(piece)
        self.input_ended |= end_stream
        flags = ["END_STREAM"] if end_stream else []
        self.client.send_frame(DataFrame(self.stream_id, piece, flags=flags))

    # --- In --------------------------------------------------------------------------------------

    @property
    def answered(self) -> bool:
        """No DATA and no headers may follow."""
        goaway = self.client.goaway
        if goaway is not None and goaway.last_stream_id < self.stream_id:
            return True
        return any(not end.startswith("GOAWAY") for end in self.ends)

    @property
    def dead(self) -> bool:
        """Nothing can be sent any more."""
        return self.cancelled or (self.answered and self.ends[-1] != "END_STREAM")

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the response, 1xx not counted.

        Raises:
            EOFError: the stream was over first.
        """

        def final() -> list[dict[str, str]]:
            return [head for each in self.heads if (head := dict(each))[":status"][0] != "1"]

        await self.client.until(lambda: bool(final()) or self.answered, "a response's head")
        if not final():
            raise EOFError(f"no head: {self.ends}")
        headers = final()[0]
        return int(headers.pop(":status")), headers

    async def event(self) -> EventMessage | EndOfEvents:
        """The next message of the response, or END behind the last one.

        Raises:
            EOFError: the end is not in order, or inside a message.
        """
        found = await self.events.read(self.data)
        if found is END and len(self.events):
            raise EOFError(f"{len(self.events)} bytes of a message, then {self.ends}")
        return found

    async def body(self) -> bytes:
        """The rest of the response.

        Raises:
            EOFError: it did not end with END_STREAM.
        """
        pieces = []
        while (data := await self.data()) is not None:
            pieces.append(data)
        return b"".join(pieces)

    async def data(self) -> bytes | None:
        """Payload of the next DATA frame, whose credit goes back; None behind END_STREAM.

        Raises:
            EOFError: it ended in another way.
        """
        await self.client.until(lambda: bool(self._received) or self.answered, "DATA")
        if self._received:
            frame = self._received.pop(0)
            if (
                self.client.auto_window
                and frame.flow_controlled_length
                and not (self.answered or self.cancelled)
            ):
                self.give_credit(frame.flow_controlled_length)
            return frame.data
        if "END_STREAM" not in self.ends:
            raise EOFError(f"the response ended with {self.ends}")
        return None

    async def ended(self) -> tuple[str, ...]:
        """How the stream ended, once it has; see ``ends``.

        What the server sends behind its END_STREAM counts if it comes soon: a client that has not
        ended its side is told to only after a while (clause 2.3-6).
        """
        await self.client.until(lambda: self.answered, f"the end of stream {self.stream_id}")
        if self.ends[-1] == "END_STREAM":
            with suppress(EOFError, TimeoutError):
                await self.client.settled()
                if not self.input_ended and not self.client.goes:
                    more = self.client.until(lambda: self.ends[-1] != "END_STREAM", "a reset")
                    await asyncio.wait_for(more, 1.0)
        return tuple(self.ends)

    def take(self, frame: DataFrame) -> None:
        self.window -= frame.flow_controlled_length
        assert self.window >= 0, f"stream {self.stream_id}: {-self.window} bytes over its window"
        self._received.append(frame)
