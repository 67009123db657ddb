"""One TCP connection of a crossing, and its reports to an observer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from partway.gateway.workbench.intermediary.observer import Observer, Sender
from partway.protocol.connections.tcp import end_by_reset, half_close
from partway.protocol.limits import (
    FRAMES_PER_TURN,
    LINGER_TIMEOUT,
    MAX_PART_BYTES,
    WRITE_HIGH_WATER,
)
from partway.protocol.websocket.frame_decoder import FrameDecoder, FrameError
from partway.protocol.websocket.frames import Frame

#: Bytes of one read, and half of the bytes that are read ahead.
READ_BYTES: Final = 64 * 1024


class Watch:
    """Reports one side's frames and end to the stream's observer; None watches nothing."""

    def __init__(self, observer: Observer | None, sender: Sender) -> None:
        self._observer = observer
        self._sender = sender
        masked = sender is Sender.GATEWAY
        self._decoder = FrameDecoder(masked=masked, max_payload=MAX_PART_BYTES)
        self._broken = ""
        self._ended = False

    async def feed(self, data: bytes) -> None:
        """Report the frames in bytes that pass; among many frames, other tasks have their turn.

        Bytes that RFC 6455 forbids end the frames: later bytes are not decoded.
        """
        if self._observer is None:
            return
        self._decoder.feed(data)
        told = 0
        try:
            while (frame := self._decoder.next_frame()) is not None:
                self._observer.frame(self._sender, frame)
                told += 1
                if told % FRAMES_PER_TURN == 0:
                    await asyncio.sleep(0)
        except FrameError as error:
            self._broken = error.reason

    def frame(self, frame: Frame) -> None:
        """Report a frame that has passed, where whole frames are written."""
        if self._observer is not None:
            self._observer.frame(self._sender, frame)

    def ended(self, error: str = "") -> None:
        """Report that this side has ended its connection; only the first call counts."""
        if self._observer is None or self._ended:
            return
        self._ended = True
        if self._decoder.buffered_bytes:
            error = error or "in the middle of a frame"
        self._observer.ended(self._sender, error or self._broken)


class TcpSide:
    """One TCP connection of a crossing: the gateway's, or the container's.

    Args:
        watch: told of the connection's end.
        patience: seconds in which the peer must take some of the bytes.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        watch: Watch,
        patience: float,
    ) -> None:
        self.reader = reader
        self.watch = watch
        self._writer = writer
        self._patience = patience
        # uvloop raises RuntimeError at any call on a closed transport.
        if not writer.is_closing():
            writer.transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)

    async def read(self) -> bytes:
        """Read the next bytes; b"" once the peer has ended its half.

        Raises:
            OSError: the connection is gone.
        """
        try:
            return await self.reader.read(READ_BYTES)
        except OSError as error:
            self.watch.ended(str(error))
            raise

    async def write(self, data: bytes) -> None:
        """Write, and wait while too much is unsent.

        Raises:
            OSError: the peer is gone; a TimeoutError if the peer takes nothing.
        """
        view = memoryview(data)
        for at in range(0, len(data), WRITE_HIGH_WATER):
            try:
                if self._writer.is_closing():
                    raise ConnectionResetError("the connection is gone")
                self._writer.write(view[at : at + WRITE_HIGH_WATER])
                async with asyncio.timeout(self._patience):
                    await self._writer.drain()
            except OSError as error:
                self.watch.ended(str(error) or f"the peer took nothing for {self._patience:g} s")
                raise

    def end(self) -> None:
        """End our half of the connection: FIN, behind unsent bytes. TLS has no half-close."""
        if not self._writer.is_closing():
            half_close(self._writer.transport)

    def reset(self) -> None:
        """Drop the connection with RST, unless it is closed already."""
        if self._writer.is_closing():
            self._writer.transport.abort()
            return
        with suppress(OSError):  # the peer was quicker
            end_by_reset(self._writer.transport)
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close the connection once everything is sent; a peer that takes nothing is dropped."""
        self._writer.close()
        with suppress(OSError):  # includes TimeoutError
            async with asyncio.timeout(LINGER_TIMEOUT):
                await self._writer.wait_closed()

    async def close_behind_peer(self) -> None:
        """End our half, and close once the peer has ended its own half, or has had its time.

        A connection that is closed with bytes unread is reset, which may erase bytes that the peer
        has not read.
        """
        self.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_TIMEOUT):
                while await self.read():
                    pass
        await self.close()
