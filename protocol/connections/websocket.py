"""WebSocket connections on an asyncio transport: frames in, frames out.

Frames are handled in callbacks: there is no task and no queue per message.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from typing import Protocol, cast

from partway.protocol.connections.batched_writes import batched_writes
from partway.protocol.connections.fair_turns import Cancellable, Queued, rounds
from partway.protocol.connections.prompt_acks import acknowledge, prompt_acks
from partway.protocol.connections.tcp import half_close
from partway.protocol.limits import (
    FRAMES_PER_TURN,
    FRAMES_TOGETHER,
    JOIN_UP_TO,
    LINGER_TIMEOUT,
    LONG_READ,
    MAX_PART_BYTES,
    READ_BYTES_PER_TURN,
    WRITE_HIGH_WATER,
    WRITE_LOW_WATER,
)
from partway.protocol.lingering import Lingering
from partway.protocol.websocket.close_codes import NORMAL, Close, encode_close
from partway.protocol.websocket.frame_decoder import FrameDecoder, FrameError, decode_close
from partway.protocol.websocket.frames import Frame, FrameEncoder, Opcode, joined

_CLOSE = Opcode.CLOSE
_PING = Opcode.PING
_PONG = Opcode.PONG
_NORMALLY = Close(NORMAL)


class Side(enum.Enum):
    """Which side of the connection we are: a client masks (RFC 6455 §5.1)."""

    CLIENT = "client"
    SERVER = "server"


class FrameHandler(Protocol):
    """Calls from a connection to its owner. :meth:`connection_lost` is always the last call."""

    def frame_received(self, frame: Frame) -> None:
        """A data frame; also after our own Close, until the peer's."""

    def pong_received(self, payload: bytes) -> None:
        """A Pong. Pings are answered by the connection itself."""

    def close_received(self, close: Close) -> None:
        """The peer's Close; it has been answered, unless ``answer_close`` is off."""

    def peer_failed(self, error: FrameError) -> None:
        """The peer broke RFC 6455. A matching Close follows, unless the owner sends its own."""

    def connection_lost(self, error: Exception | None) -> None: ...

    def writing_paused(self) -> None:
        """Unsent bytes are over the high-water mark: stop the source."""

    def writing_resumed(self) -> None:
        """Unsent bytes are below the low-water mark again."""


class HttpProtocol(Protocol):
    """The part of an HTTP server's protocol object that a takeover needs (aiohttp's has it)."""

    transport: asyncio.Transport | None

    def set_parser(self, parser: object) -> None:
        """Send what was read behind the request's head, and all that follows, to ``parser``."""

    def connection_lost(self, exc: BaseException | None) -> None: ...


class FrameConnection(asyncio.Protocol):
    """One WebSocket connection after its handshake.

    Args:
        max_payload: largest payload of a frame.
        check_text: whether text must be UTF-8.
        answer_close: whether the peer's Close is answered at once, with the same code. If not, the
            owner owes :meth:`finish`, and may send before it (RFC 6455 §5.5.1 lets a peer finish
            its message first).
        high_water: unsent bytes above which the handler's ``writing_paused`` is called.
        low_water: unsent bytes below which its ``writing_resumed`` is called.
        linger: seconds without progress after which a closing connection is aborted.
        call_later: schedules a call, as an event loop does; the running loop's by default.

    The connection does the closing handshake itself. A Close is answered with the same code. A
    client then waits for the server to end TCP (RFC 6455 §7.1.1). Each wait lasts ``linger``
    seconds at most. A Close that cannot be written becomes an abort (clause 1.5-13).
    """

    def __init__(
        self,
        handler: FrameHandler,
        side: Side,
        *,
        max_payload: int = MAX_PART_BYTES,
        check_text: bool = False,
        answer_close: bool = True,
        high_water: int = WRITE_HIGH_WATER,
        low_water: int = WRITE_LOW_WATER,
        linger: float = LINGER_TIMEOUT,
        call_later: Callable[..., Cancellable] | None = None,
    ) -> None:
        client = side is Side.CLIENT
        self._handler = handler
        self._side = side
        self._decoder = FrameDecoder(
            masked=not client, max_payload=max_payload, check_text=check_text
        )
        self._encoder = FrameEncoder(masks=client)
        self._high_water = high_water
        self._low_water = low_water
        self._linger = linger
        self._answer_close = answer_close
        if call_later is None:
            call_later = asyncio.get_running_loop().call_later
        self._call_later = call_later
        self._transport: asyncio.Transport | None = None
        self._forward_lost: Callable[[BaseException | None], None] | None = None
        self._reading = True
        self._read_in_turn = 0
        self._delivering = False
        self._gathered: list[bytes] = []
        self._call_soon: Callable[..., object] | None = None
        self._written = 0
        self._written_before_read = 0
        self._acknowledges_soon = False
        self._owed_pong: bytes | None = None
        self._writing_paused = False
        self._close_sent = False
        self._close_received = False
        self._failure: FrameError | None = None
        self._ended = False
        self._lost_by: Exception | None = None
        self._over = False  # nothing more is delivered
        self._turn: Queued | None = None
        self._finishing: Cancellable | None = None

    # --- Taking a transport over -----------------------------------------------------------------

    def take_over(self, transport: asyncio.Transport, received: bytes = b"") -> None:
        """Become the protocol of a transport whose handshake is done.

        An owner that is not ready for frames calls :meth:`pause_reading` before. If the peer has
        left already, ``connection_lost`` says so after this has returned.

        Args:
            transport: the connection's; it may be paused, so that no bytes after the handshake were
                lost.
            received: bytes that were read after the handshake.
        """
        if transport.is_closing():
            self._lose_soon()
            return
        transport.set_protocol(self)
        self.connection_made(transport)
        if received:
            self.data_received(received)
        if self._reading:
            self._read_on()
        else:
            transport.pause_reading()

    def take_over_from(self, http: HttpProtocol, *, tell_end: bool = True) -> None:
        """Take over from an HTTP server's protocol that has written its 101.

        With ``tell_end``, ``http`` is told now that its transport has ended, so that it lets go of
        its connection. Without it, the owner owes ``http`` that call.
        """
        transport = http.transport
        if transport is None:
            self._lose_soon()
            return
        behind_head = _Collector()
        http.set_parser(behind_head)
        if tell_end:
            self._forward_lost = http.connection_lost
        self.take_over(transport, behind_head.data)

    def _lose_soon(self) -> None:
        lost = ConnectionResetError("the peer left during the handshake")
        asyncio.get_running_loop().call_soon(self.connection_lost, lost)

    # --- Intents ---------------------------------------------------------------------------------

    def send(self, frame: Frame, *, more: bool = False) -> None:
        """Send a data frame. After our Close, or after the end, the frame is dropped.

        With ``more``, other frames are about to follow. This frame may wait until the loop's next
        turn, so that all leave in one write.
        """
        if not self._close_sent:
            self._write(frame, more)

    def ping(self, payload: bytes) -> int:
        """Send a Ping; returns its position for :meth:`flushed`."""
        if not self._close_sent:
            self._write(Frame(_PING, payload))
            self.flush()
        return self._written

    def flushed(self, position: int) -> bool:
        """Whether the socket has taken everything up to ``position``."""
        return self.taken_bytes >= position

    def close(self, close: Close = _NORMALLY) -> None:
        """Send a Close, once; frames still arrive until the peer's Close."""
        if self._close_sent or self._transport is None:
            return
        self._write(Frame(_CLOSE, encode_close(close)))
        self.flush()
        self._close_sent = True

    def finish(self, close: Close | None = None) -> None:
        """Send a Close if none has been sent, and complete the connection's end.

        The owner gets no more frames and no Close. :meth:`FrameHandler.connection_lost` reports the
        end: after the closing handshake, or after an abort once nothing has moved for ``linger``
        seconds.
        """
        if self._ended:
            self._drop_rest()
        if self._transport is None or self._finishing is not None:
            return
        if close is None and self._failure is not None:
            close = _close_for(self._failure)
        if close is not None:
            self.close(close)
        self._look_later(Lingering(self.unsent_bytes, self._linger))
        if self._close_received:
            self._end_tcp()
        elif self._failure is not None:
            self._half_close()
        self.resume_reading()

    def abort(self) -> None:
        if self._ended:
            self._drop_rest()
        elif self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        """Deliver nothing more, and stop reading the socket."""
        if self._reading and self._finishing is None:
            self._reading = False
            if self._transport is not None:
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Deliver what was held back, then read the socket again."""
        if self._reading or self._over:
            return
        self._reading = True
        if self._turn is None:
            self._deliver()
        self._read_on()

    # --- State -----------------------------------------------------------------------------------

    @property
    def reading(self) -> bool:
        return self._reading

    @property
    def buffered_bytes(self) -> int:
        """Bytes held in this process: read and not delivered, plus sent and not taken."""
        return self._decoder.buffered_bytes + self.unsent_bytes

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the socket has not taken: gathered, or held by the transport."""
        return sum(map(len, self._gathered)) + self._in_transport()

    @property
    def taken_bytes(self) -> int:
        """Bytes that the socket has taken since the connection began."""
        return self._written - self._in_transport()

    @property
    def closed_by_peer(self) -> bool:
        return self._close_received

    @property
    def lost(self) -> bool:
        return self._ended

    # --- asyncio's callbacks ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked with isinstance: uvloop's transports derive from no class of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._high_water, low=self._low_water)

    def data_received(self, data: bytes) -> None:
        self._written_before_read = self._written
        if not self._acknowledges_soon:
            self._acknowledges_soon = True
            prompt_acks.soon(self)
        self._decoder.feed(data)
        if self._turn is not None:
            return
        self._read_in_turn += len(data)
        enough = self._read_in_turn >= READ_BYTES_PER_TURN
        if enough or (len(data) > LONG_READ and rounds.busy()):
            self._yield_turn()
        else:
            self._deliver()

    def eof_received(self) -> bool:
        # The transport closes itself, and first flushes what is unsent. If the peer ended without a
        # Close, that would delay the report of the end until the stall timeout.
        orderly = self._close_received or self._failure or self._finishing is not None
        if not orderly and self._transport is not None:
            self._transport.abort()
        return False

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._handler.writing_paused()

    def resume_writing(self) -> None:
        self._writing_paused = False
        if self._owed_pong is not None and not self._close_sent:
            payload, self._owed_pong = self._owed_pong, None
            self._write(Frame(_PONG, payload))
        if not self._writing_paused:  # the pong may have filled the buffer again
            self._handler.writing_resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ended:
            return
        self._ended = True
        self._transport = None
        self._gathered.clear()
        self._lost_by = exc
        if self._finishing is not None:
            self._finishing.cancel()
            self._drop_rest()
        if self._turn is None:  # otherwise after the frames that wait for their turn
            self._tell_lost()

    def acknowledge(self) -> None:
        self._acknowledges_soon = False
        if self._transport is not None and self._written == self._written_before_read:
            acknowledge(self._transport)

    # --- Inside ----------------------------------------------------------------------------------

    def _deliver(self) -> None:
        if self._delivering:  # a handler paused and resumed us: the loop below goes on
            return
        handler = self._handler
        self._delivering = True
        outermost = False
        try:
            for turn in range(FRAMES_PER_TURN):
                frame = self._decoder.next_frame() if self._reading else None
                if frame is None:
                    break
                if not turn and self._decoder.buffered_bytes:
                    outermost = batched_writes.begin()  # a single frame would gain nothing
                if frame.opcode >= _CLOSE:
                    self._control_received(frame, handler)
                elif self._finishing is None:
                    handler.frame_received(frame)
            else:
                self._yield_turn()
        except FrameError as error:
            self._failure = error
            if self._finishing is None:
                handler.peer_failed(error)
                self.close(_close_for(error))  # unless the owner has sent a Close of its own
            else:
                self.close(_close_for(error))
                self._half_close()
        finally:
            self._delivering = False
            if outermost:
                batched_writes.end()

    def _yield_turn(self) -> None:
        """Let others have the loop: one read may hold tens of thousands of tiny frames.

        A closing or failed connection takes turns too: its peer may send at full speed until the
        connection is aborted.
        """
        self._read_in_turn = 0
        if self._transport is not None:
            self._transport.pause_reading()
        self._turn = rounds.soon(self._take_turn)

    def _take_turn(self) -> None:
        """Deliver some of the waiting frames, even if the transport is gone.

        The frames may include the peer's Close, and the owner is told of the end after them. Turns
        are taken even then, because a hundred peers may reset at once. Frames that the owner then
        holds back are dropped.
        """
        self._turn = None
        if self._reading:
            self._deliver()
            self._read_on()
        if self._ended and self._turn is None:
            self._tell_lost()

    def _drop_rest(self) -> None:
        """Deliver nothing more from a transport that is gone; the pending turn tells of the end."""
        self._reading = False
        self._over = True

    def _tell_lost(self) -> None:
        self._drop_rest()
        if self._forward_lost is not None:
            self._forward_lost(self._lost_by)
        self._handler.connection_lost(self._lost_by)

    def _read_on(self) -> None:
        """Read the socket, if the owner wants frames and no frame waits for its turn."""
        if self._reading and self._turn is None and self._transport is not None:
            self._transport.resume_reading()

    def _control_received(self, frame: Frame, handler: FrameHandler) -> None:
        if frame.opcode is _PONG:
            handler.pong_received(frame.payload)
        elif frame.opcode is _PING:
            # Clauses 1.1-4, 1.4-3. Over the high-water mark only the latest is owed (RFC 6455
            # §5.5.3).
            if self._writing_paused:
                self._owed_pong = frame.payload
            elif not self._close_sent:
                self._write(Frame(_PONG, frame.payload))
        else:
            close = decode_close(frame.payload)
            self._close_received = True
            if self._answer_close or self._finishing is not None:
                self.close(close)
            if self._finishing is None:
                handler.close_received(close)
            else:
                self._end_tcp()

    def _half_close(self) -> None:
        """End our side of TCP alone.

        After close(), unread input would have TCP send RST, which would erase our Close.
        """
        if self._transport is not None:
            half_close(self._transport)

    def _end_tcp(self) -> None:
        """After both Closes: the server ends TCP, the client waits for it (RFC 6455 §7.1.1)."""
        if self._side is Side.SERVER and self._transport is not None:
            self._transport.close()  # once what is unsent is flushed

    def _write(self, frame: Frame, more: bool = False) -> None:
        """Write a frame, or gather it while a read is delivered, to save system calls."""
        transport = self._transport
        if transport is None:
            return
        batch = batched_writes.connections
        if batch is not None:
            if not self._gathered:
                batch.append(self)
            self._gathered += self._encoder.encode(frame)
            return
        if more or self._gathered:
            if not self._gathered:
                if self._call_soon is None:  # kept, because asking for the loop is a system call
                    self._call_soon = asyncio.get_running_loop().call_soon
                self._call_soon(self.flush)
            self._gathered += self._encoder.encode(frame)
            if (
                not more
                or len(self._gathered) >= FRAMES_TOGETHER
                or len(frame.payload) > JOIN_UP_TO
            ):
                self.flush()
            return
        for piece in self._encoder.encode(frame):
            self._written += len(piece)
            transport.write(piece)

    def flush(self) -> None:
        """Write the frames gathered during a read, or because more were to follow."""
        if self._gathered and self._transport is not None:
            gathered, self._gathered = self._gathered, []
            self._written += sum(map(len, gathered))
            for piece in joined(gathered):
                # Not writelines: in early 3.12 and 3.13 it neither pauses nor minds an abort.
                self._transport.write(piece)

    def _in_transport(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def _look_later(self, lingering: Lingering) -> None:
        self._finishing = self._call_later(lingering.interval, self._keep_finishing, lingering)

    def _keep_finishing(self, lingering: Lingering) -> None:
        if lingering.look(self.unsent_bytes):
            self._look_later(lingering)
        else:
            self.abort()


def _close_for(failure: FrameError) -> Close:
    return Close(failure.code, failure.reason)


class _Collector:
    """The interface of the parser that an HTTP protocol feeds after an upgrade."""

    def __init__(self) -> None:
        self.data = b""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.data += data
        return False, b""

    def feed_eof(self) -> None:
        """The connection's end is told by ``connection_lost``."""
