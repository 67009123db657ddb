"""A relay between a gateway and its container that breaks one thing of what goes through it.

To the container the two of them are one platform, with a fault.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress

from partway.gateway.network.dialling import Address
from tests.frame_factory import RawFrame, frame, read_frame

_HEAD_END = b"\r\n\r\n"
_READ = 1 << 16
_MOST = 1 << 24  # bytes of a frame (clause 1.3-3)


class Distortion:
    """One connection's: by itself it passes everything on as it is.

    What a hook returns goes on in place of what it was given.
    """

    #: How long an answer to the upgrade may take before :meth:`early` is asked; None for never.
    patience: float | None = None
    #: Whether the end of the connection is a reset to the container.
    resets = False

    def request(self, head: bytes) -> bytes:
        return head

    def early(self) -> bytes:
        """Bytes for the container before it has answered."""
        return b""

    def answer(self, head: bytes) -> bytes:
        return head

    def up(self, seen: RawFrame, raw: bytes) -> bytes:
        """A frame of the gateway's."""
        return raw

    def down(self, seen: RawFrame, raw: bytes) -> bytes:
        """A frame of the container's, if it is one."""
        return raw

    def said(self, data: bytes) -> bytes:
        """What one read of the container brings, right or wrong; :meth:`down` follows."""
        return data

    def container_end(self) -> bytes:
        """Bytes for the gateway before the container's end of TCP."""
        return b""


def again(seen: RawFrame, **changes: object) -> bytes:
    """A frame with other fields than it had, or with none."""
    fields = {"opcode": seen.opcode, "payload": seen.payload, "fin": seen.fin}
    mask = seen.key if seen.masked else None
    return frame(**({**fields, "mask": mask} | changes))


class _Connection:
    def __init__(
        self,
        distortion: Distortion,
        gateway: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        container: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.distortion = distortion
        self.from_gateway, self.to_gateway = gateway
        self.from_container, self.to_container = container
        self.answered = asyncio.Event()

    async def run(self) -> None:
        tasks = [asyncio.create_task(self.up()), asyncio.create_task(self.down())]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.to_gateway.close()
            self.to_container.close()

    async def up(self) -> None:
        head = await self.from_gateway.readuntil(_HEAD_END)
        self.to_container.write(self.distortion.request(head))
        if self.distortion.patience is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.answered.wait(), self.distortion.patience)
            if not self.answered.is_set():
                self.to_container.write(self.distortion.early())
        cutter = _Cutter()
        while True:
            try:
                data = await self.from_gateway.read(_READ)
            except ConnectionError:
                self.to_container.transport.abort()
                return
            if not data:
                break
            for seen, raw in cutter.frames(data):
                self.to_container.write(self.distortion.up(seen, raw))
            await self.to_container.drain()
        if self.distortion.resets:
            reset(self.to_container)
        elif not self.to_container.is_closing():
            self.to_container.write_eof()

    async def down(self) -> None:
        head = await self.from_container.readuntil(_HEAD_END)
        self.answered.set()
        self.to_gateway.write(self.distortion.answer(head))
        granted = head.startswith(b"HTTP/1.1 101")
        cutter = _Cutter()
        while True:
            try:
                data = await self.from_container.read(_READ)
            except ConnectionError:
                self.to_gateway.write(self.distortion.container_end())
                self.to_gateway.transport.abort()
                return
            if not data:
                break
            if granted:
                data = self.distortion.said(data)
                for seen, raw in cutter.frames(data):
                    self.to_gateway.write(self.distortion.down(seen, raw))
                data = cutter.no_frames()
            self.to_gateway.write(data)
            await self.to_gateway.drain()
        self.to_gateway.write(self.distortion.container_end())
        if not self.to_gateway.is_closing():
            self.to_gateway.write_eof()


class _Cutter:
    """Cuts what is read into frames; what is none, and all behind it, is left as it is."""

    def __init__(self) -> None:
        self.held = bytearray()
        self.wrong = False

    def frames(self, data: bytes) -> Iterator[tuple[RawFrame, bytes]]:
        self.held += data
        while not self.wrong and len(self.held) >= 2:
            head, length = _announced(self.held)
            size = head + length
            self.wrong = length > _MOST
            if self.wrong or len(self.held) < size:
                return  # not looked at before it is whole: a long frame comes in many reads
            raw = bytes(self.held[:size])
            try:
                taken = read_frame(raw)
            except ValueError:
                self.wrong = True
                return
            assert taken is not None, "it is whole"
            del self.held[:size]
            yield taken[0], raw

    def no_frames(self) -> bytes:
        """What is left as it is."""
        if not self.wrong:
            return b""
        left = bytes(self.held)
        self.held.clear()
        return left


def _announced(held: bytearray) -> tuple[int, int]:
    """The sizes of the head and of the payload that begin here; none of what is not known yet."""
    length = held[1] & 0x7F
    head = {126: 4, 127: 10}.get(length, 2)
    if len(held) < head:
        return head, 0
    if head > 2:
        length = int.from_bytes(held[2:head], "big")
    return head + (4 if held[1] & 0x80 else 0), length


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


@asynccontextmanager
async def relayed(
    container: Address, distortion: Callable[[], Distortion]
) -> AsyncIterator[Address]:
    """Where a gateway finds the container, with a distortion for each connection in between."""
    running: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):  # either end may be gone
                onward = await asyncio.open_connection(container.host, container.port)
                await _Connection(distortion(), (reader, writer), onward).run()
        except asyncio.CancelledError:
            pass  # at the block's end; there is nothing to go on with
        finally:
            writer.close()
            running.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.wait_closed()
