"""Bounds on a client's HTTP/2 frames, checked before the HTTP/2 library reads them.

The library (h2) bounds neither resets nor control frames, and it sends nothing more once it has
seen a client's GOAWAY. This module decides both, from the frame heads.
"""

from __future__ import annotations

from partway.protocol import limits
from partway.protocol.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    GOAWAY_BYTES,
    HEAD_BYTES,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    STREAM_ID,
    WINDOW_UPDATE,
    frame,
    header_fragment,
    size_updates,
    window_update,
)
from partway.protocol.token_buckets import TokenBucket

_MAX_WINDOW = 2**31 - 1


class FrameGate:
    """Decides which frames of one connection h2 sees.

    The owner cuts its input into whole frames, in turns with other connections. In a turn, between
    :meth:`begin_turn` and :meth:`end_turn`, it calls :meth:`takes_data` or :meth:`instead` for each
    frame, and counts :attr:`turn_left` down. DATA is judged by its head alone. After each turn the
    owner gives back :attr:`owed_credit`, resets :attr:`overdoing`, answers for
    :attr:`closed_streams` and, if :attr:`overdone`, closes the connection to new streams.

    Rules:
        1. A client's GOAWAY is kept from h2. It limits only streams that a server begins
           (RFC 9113 §6.8), and h2 would refuse to send data after it (clause 2.1-4). A malformed
           GOAWAY is passed on: h2 makes it a connection error.
        2. Frames that cost more than their bytes are counted, each kind in a bucket. Beyond the
           bucket they are dropped, and the connection is closed to new streams. Header blocks are
           counted too; they cost the most.
        3. WINDOW_UPDATE frames beyond their bucket are added up, one for each stream and turn.
           Dropping them would starve innocent streams.
        4. A stream that sends nearly empty DATA frames beyond their bucket must be reset.
        5. A header block is held until it is whole. It is dropped as soon as a frame announces that
           the block is too large. It is also dropped if it begins by changing the size of HPACK's
           table more often than RFC 7541 §4.2 needs. The decompressor then lacks that block, so all
           later blocks are dropped too. If one of them ends a stream, an empty DATA frame with
           END_STREAM takes its place.
        6. Frames are dropped on streams that began after the connection was closed to new ones.
           They are also dropped on streams that are over, or that we have reset (RFC 9113 §5.4.2).
           Their DATA is owed back to the connection's window. DATA on a stream that is over must be
           answered with a reset (RFC 9113 §5.1), and counts as one.

    Args:
        now: the clock's reading, in seconds.
        max_streams: how many streams may be open at once, and so may begin at once.
    """

    def __init__(self, now: float, max_streams: int = limits.HTTP2_MAX_STREAMS) -> None:
        #: Why the connection must be closed to new streams; None as long as it need not.
        self.overdone: str | None = None
        #: Bytes of dropped DATA, to be given back to the connection's window.
        self.owed_credit = 0
        #: Streams to be reset (rule 4).
        self.overdoing: set[int] = set()
        #: Streams that are over; each frame on one is answered with STREAM_CLOSED (rule 6).
        self.closed_streams: list[int] = []
        #: Whether the client has reset a stream that it never opened, since the owner last looked.
        self.unopened_reset = False
        #: Whether the client has sent GOAWAY.
        self.client_goes = False
        #: Frames that this turn still has room for; some header blocks count as several.
        self.turn_left = 0
        #: Highest stream that h2 has seen the headers of.
        self.last_stream = 0
        self._closed_to_new = False
        self._added_up: dict[int, int] = {}  # WINDOW_UPDATE of this turn, by stream (rule 3)
        self._pongs_due = 0
        self._headers_lost = False
        self._block: list[bytes] | None = None
        self._block_head = (0, 0)
        self._block_frames = 0
        self._block_size = 0
        self._reset: dict[int, None] = {}
        #: Streams that h2 has seen the headers of and that are not over, with their tiny DATA.
        self._open: dict[int, int] = {}
        self._headers = TokenBucket(
            max_streams + limits.HTTP2_HEADERS_BURST, limits.HTTP2_HEADERS_RATE, now
        )
        self._resets = TokenBucket(limits.HTTP2_RESET_BURST, limits.HTTP2_RESET_RATE, now)
        self._controls = TokenBucket(limits.HTTP2_CONTROL_BURST, limits.HTTP2_CONTROL_RATE, now)
        self._settings = TokenBucket(limits.HTTP2_SETTINGS_BURST, limits.HTTP2_SETTINGS_RATE, now)
        self._tiny = TokenBucket(limits.HTTP2_TINY_BURST, limits.HTTP2_TINY_RATE, now)
        self._updates = TokenBucket(
            limits.HTTP2_WINDOW_UPDATE_BURST, limits.HTTP2_WINDOW_UPDATE_RATE, now
        )

    # --- What the owner tells --------------------------------------------------------------------

    def close_to_new(self) -> None:
        """Drop the frames of new streams from now on; open streams continue."""
        self._closed_to_new = True

    def drop(self) -> None:
        """Free a held header block; the connection is gone."""
        self._block = None

    def stream_reset(self, stream_id: int) -> None:
        """Note that we have reset a stream: the client's further frames on it are dropped."""
        self._open.pop(stream_id, None)
        self._reset[stream_id] = None
        if len(self._reset) > limits.HTTP2_RESET_REMEMBERED:
            del self._reset[next(iter(self._reset))]

    def stream_over(self, stream_id: int) -> None:
        self._open.pop(stream_id, None)

    def headers_decoded(self, count: int, size: int, now: float) -> None:
        """Count a request's decoded headers: one byte on the wire may stand for a whole header.

        h2 looks at each header several times. ``size`` is in bytes.
        """
        self._count_headers(count // limits.MAX_HEADERS, now)
        self._count_headers((size - limits.HTTP2_LARGE_HEADERS) // limits.KIB, now)

    def ping_sent(self) -> None:
        """Note that we have sent a PING: its answer is not counted."""
        self._pongs_due += 1

    def reset_provoked(self, now: float) -> bool:
        """Count our reset in answer to a client's frame as one of the client's own.

        Returns:
            Whether the reset is within the bucket.
        """
        within = self._resets.take(now)
        if not within:
            self._overdo("resets")
        return within

    @property
    def in_block(self) -> bool:
        return self._block is not None

    @property
    def held(self) -> int:
        return self._block_size if self._block else 0

    # --- A turn ----------------------------------------------------------------------------------

    def begin_turn(self) -> None:
        self.turn_left = limits.HTTP2_FRAMES_PER_TURN

    def end_turn(self) -> bytes:
        """Return the WINDOW_UPDATE frames that this turn has added up (rule 3), for h2."""
        updates, self._added_up = self._added_up, {}
        return b"".join(window_update(credit, stream_id) for stream_id, credit in updates.items())

    def takes_data(self, size: int, flags: int, stream_id: int, now: float) -> bool:
        """Judge a DATA frame outside of header blocks, by its head.

        Returns:
            Whether h2 sees the frame; otherwise it is dropped.
        """
        if stream_id in self._reset or self._is_unseen(stream_id):  # rule 6
            self.owed_credit += size
            if flags & END_STREAM:
                self._reset.pop(stream_id, None)
            return False
        if self._is_over(stream_id):
            self.owed_credit += size
            if self.reset_provoked(now):
                self.closed_streams.append(stream_id)
            return False
        if size <= limits.HTTP2_TINY_DATA and not flags & END_STREAM:
            so_far = self._open[stream_id] = self._open.get(stream_id, 0) + 1
            # A stream that has sent few such frames has not emptied the bucket.
            if not self._tiny.take(now) and so_far > limits.HTTP2_TINY_RATE:  # rule 4
                self.overdoing.add(stream_id)
        return True

    def instead(
        self, whole: bytes, kind: int, flags: int, stream_id: int, now: float
    ) -> bytes | None:
        """Judge a whole frame, and return the bytes that h2 gets instead.

        Returns:
            None for the frame itself, other bytes, or no bytes.
        """
        if self._block is not None and kind != CONTINUATION:
            # Nothing may come inside a header block; h2 reports the error, unless it never sees the
            # block.
            broken, self._block = b"".join(self._block), None
            if broken:
                return broken + whole
        if kind == DATA:
            size = len(whole) - HEAD_BYTES
            return None if self.takes_data(size, flags, stream_id, now) else b""
        if kind in (HEADERS, CONTINUATION):
            return self._header_block(whole, kind, flags, stream_id, now)
        if kind == RST_STREAM:
            return self._rst_stream(stream_id, now)
        if kind == WINDOW_UPDATE:
            return self._window_update(whole[HEAD_BYTES:], stream_id, now)
        if kind == GOAWAY and not stream_id and len(whole) >= HEAD_BYTES + GOAWAY_BYTES:  # rule 1
            self.client_goes = True
            return b""
        if kind == PING and flags & ACK and self._pongs_due:
            self._pongs_due -= 1
            return None
        bucket = self._settings if kind == SETTINGS else self._controls
        return None if bucket.take(now) else self._overdo("control frames")

    def announced(self, head: bytes) -> None:
        """Judge the head of an incomplete frame, while :attr:`in_block`.

        If it makes the header block too large, the block is dropped with the next frame (rule 5).
        """
        if not self._block or len(head) < HEAD_BYTES or head[3] != CONTINUATION:
            return
        size = HEAD_BYTES + int.from_bytes(head[:3], "big")
        if self._block_size + size > limits.HTTP2_MAX_HEADER_BLOCK:
            self._headers_lost = True
            self._block.clear()
            self._overdo("a header block")

    # --- Inside ----------------------------------------------------------------------------------

    def _header_block(
        self, data: bytes, kind: int, flags: int, stream_id: int, now: float
    ) -> bytes | None:
        """Return the bytes that h2 gets in place of a frame of a header block (rule 5)."""
        if kind == HEADERS:
            self._block, self._block_head = [], (stream_id, flags)
            self._block_frames = self._block_size = 0
            if not self._is_unseen(stream_id) and not self._count_headers(1, now):  # rule 2
                self._headers_lost = True
        if self._block is None:
            return None if not self._headers_lost else b""  # h2 reports the stray frame
        self._block_frames += 1
        self._block_size += len(data)
        self._block.append(data)
        stream_id, first_flags = self._block_head
        if self._is_unseen(stream_id) or self._headers_lost:
            self._headers_lost = True
        elif (
            self._block_frames > 1 + limits.HTTP2_MAX_CONTINUATIONS
            or self._block_size > limits.HTTP2_MAX_HEADER_BLOCK
        ):
            self._headers_lost = True
            self._overdo("a header block")
        if self._headers_lost:
            self._block.clear()
        if not flags & END_HEADERS:
            return b""
        most = limits.HPACK_MAX_SIZE_UPDATES
        if size_updates(b"".join(map(header_fragment, self._block)), most + 1) > most:
            self._headers_lost = True
            self._overdo("a header block")
            self._block.clear()
        whole, self._block = b"".join(self._block), None
        if self._headers_lost:
            ends = stream_id in self._open and first_flags & END_STREAM
            return frame(DATA, END_STREAM, stream_id) if ends else b""
        self.turn_left -= limits.HTTP2_HEADERS_IN_FRAMES
        self.turn_left -= len(whole) // limits.HTTP2_HEADER_BYTES_IN_A_FRAME
        self._count_headers((len(whole) - limits.HTTP2_LARGE_HEADERS) // limits.KIB, now)
        if stream_id > self.last_stream:
            self.last_stream = stream_id
            self._open[stream_id] = 0
        return whole

    def _count_headers(self, blocks: int, now: float) -> bool:
        """Count ``blocks`` more header blocks; return whether they are within their bucket."""
        within = all(self._headers.take(now) for _ in range(blocks))
        if not within:
            self._overdo("header blocks")
        return within

    def _rst_stream(self, stream_id: int, now: float) -> bytes | None:
        self._open.pop(stream_id, None)
        if stream_id in self._reset:
            del self._reset[stream_id]
            return b""
        if self._is_unseen(stream_id):
            return b""
        self.unopened_reset |= stream_id > self.last_stream
        if not self._resets.take(now):
            self._overdo("resets")  # the last reset still counts: its stream is over
        return None

    def _window_update(self, payload: bytes, stream_id: int, now: float) -> bytes | None:
        if stream_id in self._reset or self._is_unseen(stream_id) or self._is_over(stream_id):
            return b""
        increment = int.from_bytes(payload, "big") & STREAM_ID
        if self._updates.take(now) or len(payload) != 4 or not increment:
            return None
        so_far = self._added_up.get(stream_id, 0)
        self._added_up[stream_id] = min(_MAX_WINDOW, so_far + increment)  # rule 3
        return b""

    def _is_unseen(self, stream_id: int) -> bool:
        """Whether a stream began after the connection was closed to new streams."""
        return self._closed_to_new and stream_id > self.last_stream

    def _is_over(self, stream_id: int) -> bool:
        return 0 < stream_id <= self.last_stream and stream_id not in self._open

    def _overdo(self, what: str) -> bytes:
        self.overdone = self.overdone or what
        self._closed_to_new = True
        return b""
