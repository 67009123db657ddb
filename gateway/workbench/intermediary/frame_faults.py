"""Faults applied to a container's frames. Sans-IO, without time."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from partway.gateway.workbench.intermediary.faults import (
    CloseEarly,
    Cut,
    DropPongs,
    Empty,
    Fault,
    Split,
    Stall,
)
from partway.protocol.limits import MAX_PART_BYTES
from partway.protocol.websocket import close_codes as closing
from partway.protocol.websocket.frame_decoder import FrameDecoder, FrameError
from partway.protocol.websocket.frames import Frame, FrameEncoder, Opcode


class Piece(NamedTuple):
    """Bytes for the gateway, and their frame; None where they are not a whole frame."""

    data: bytes
    frame: Frame | None


class SpoilerState(enum.Enum):
    OPEN = enum.auto()
    #: A fault's Close was sent: nothing of the container's may follow.
    CLOSED = enum.auto()
    #: Only Pings and Pongs pass.
    STALLED = enum.auto()
    #: The connection ends behind the last piece.
    CUT = enum.auto()


class RawFrames:
    """Bytes in, frames out, each with its bytes.

    Bytes that are not a frame come out without one: all bytes behind a Close, or bytes that RFC
    6455 forbids. The gateway then sees the same fault.
    """

    def __init__(self) -> None:
        self._decoder = FrameDecoder(masked=False, max_payload=MAX_PART_BYTES)
        self._held = bytearray()
        self._over = False

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Yield the pieces that these bytes make whole; use them up before the next call."""
        if self._over:
            yield Piece(data, None)
            return
        self._held += data
        self._decoder.feed(data)
        at = 0
        while not self._over:
            before = self._decoder.buffered_bytes
            try:
                frame = self._decoder.next_frame()
            except FrameError:
                self._over = True
                break
            if frame is None:
                break
            self._over = frame.opcode is Opcode.CLOSE
            # Behind a Close the decoder drops all bytes, and a Close's payload gives its frame's
            # length.
            size = 2 + len(frame.payload) if self._over else before - self._decoder.buffered_bytes
            yield Piece(bytes(memoryview(self._held)[at : at + size]), frame)
            at += size
        del self._held[:at]
        if self._over and self._held:
            yield Piece(self.rest(), None)

    def rest(self) -> bytes:
        """Return the bytes that never became a whole frame, at the end of the connection."""
        rest = bytes(self._held)
        self._held.clear()
        return rest


class Spoiler:
    """The faults of one stream, applied to its container's frames.

    Args:
        faults: the faults of the stream's rule. Refuse, and faults that take time, are applied
            elsewhere.
        applied: told of each fault, each time it does something.
    """

    def __init__(self, faults: Iterable[Fault], applied: Callable[[Fault], None]) -> None:
        by_kind = {type(fault): fault for fault in faults}
        self.state = SpoilerState.OPEN
        self._close = by_kind.get(CloseEarly)
        self._cut = by_kind.get(Cut)
        self._stall = by_kind.get(Stall)
        self._drop_pongs = by_kind.get(DropPongs)
        self._split = by_kind.get(Split)
        self._empty = by_kind.get(Empty)
        self._applied = applied
        self._parts = 0
        self._encoder = FrameEncoder(masks=False)

    def begin(self) -> list[Piece]:
        """The pieces that the gateway gets right behind the 101."""
        return self._behind_part()

    def spoil(self, piece: Piece) -> list[Piece]:
        """The pieces that the gateway gets in place of one of the container's."""
        frame = piece.frame
        if self.state is SpoilerState.CLOSED or self.state is SpoilerState.CUT:
            return []
        if frame is not None and frame.opcode in (Opcode.PING, Opcode.PONG):
            if frame.opcode is Opcode.PONG and self._drop_pongs is not None:
                self._applied(self._drop_pongs)
                return []
            return [piece]
        if self.state is SpoilerState.STALLED:
            return []
        if frame is None or frame.opcode is Opcode.CLOSE:
            return [piece]
        pieces = self._fragments(piece, frame)
        if isinstance(self._cut, Cut) and self._cut.after == self._parts:
            return self._cut_off(self._cut, b"".join(each.data for each in pieces))
        self._parts += 1
        return pieces + self._behind_part()

    def _behind_part(self) -> list[Piece]:
        if isinstance(self._close, CloseEarly) and self._close.after == self._parts:
            self.state = SpoilerState.CLOSED
            self._applied(self._close)
            code = None if self._close.code == closing.NO_STATUS else self._close.code
            payload = closing.encode_close(closing.Close(code, self._close.reason))
            return [self._piece(Frame(Opcode.CLOSE, payload))]
        if isinstance(self._stall, Stall) and self._stall.after == self._parts:
            self.state = SpoilerState.STALLED
            self._applied(self._stall)
        return []

    def _cut_off(self, cut: Cut, data: bytes) -> list[Piece]:
        self.state = SpoilerState.CUT
        self._applied(cut)
        at = len(data) // 2 if cut.at is None else min(cut.at, len(data) - 1)
        return [Piece(data[:at], None)] if at else []

    def _fragments(self, piece: Piece, frame: Frame) -> list[Piece]:
        """The fragments that a frame becomes, with empty ones between them."""
        if self._split is None and self._empty is None:
            return [piece]
        opcode, payload, fin = frame
        payloads = [payload]
        if isinstance(self._split, Split) and len(payload) > 1:
            self._applied(self._split)
            into = min(self._split.into, len(payload))
            bounds = [len(payload) * number // into for number in range(into + 1)]
            payloads = [payload[a:b] for a, b in itertools.pairwise(bounds)]
        if isinstance(self._empty, Empty):
            self._applied(self._empty)
            before = [b""] * self._empty.count
            payloads = [part for each in payloads for part in (*before, each)]
            payloads += [b""] if fin else []
        last = len(payloads) - 1
        return [
            self._piece(
                Frame(Opcode.CONTINUATION if number else opcode, each, fin and number == last)
            )
            for number, each in enumerate(payloads)
        ]

    def _piece(self, frame: Frame) -> Piece:
        return Piece(b"".join(self._encoder.encode(frame)), frame)
