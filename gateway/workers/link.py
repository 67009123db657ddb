"""The link between the parent and a worker: messages on a Unix socket, one behind the other."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final, Generic, TypeVar

import msgspec

from partway.gateway.workers.limits import MAX_MESSAGE, MAX_UNSENT
from partway.gateway.workers.messages import Message, encoded

_LENGTH: Final = struct.Struct(">I")

#: Bytes that are read at once to be dropped.
_DROPPED_AT_ONCE: Final = 64 * 1024

_M = TypeVar("_M")


class LinkBroken(Exception):
    """The other side has ended, takes nothing more, or sends no messages; the text says which."""


class MessageTooLong(LinkBroken):
    """A message is longer than a link takes; it is not sent, and the link goes on."""


class WorkerLink(Generic[_M]):
    """One side of a link; it reads messages of one kind and sends those of the other."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        decoder: msgspec.msgpack.Decoder[_M],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = decoder

    @classmethod
    async def over(
        cls, connection: socket.socket, decoder: msgspec.msgpack.Decoder[_M]
    ) -> WorkerLink[_M]:
        """Make a link of a connected socket, which belongs to the link then."""
        reader, writer = await asyncio.open_connection(sock=connection)
        return cls(reader, writer, decoder)

    def send(self, message: Message) -> None:
        """Send a message; it is dropped if the other side has ended.

        Raises:
            MessageTooLong: the message is too long.
            LinkBroken: the other side takes nothing for so long that too much is unsent.
        """
        if self._writer.is_closing():
            return
        data = encoded(message)
        if len(data) > MAX_MESSAGE:
            what = type(message).__name__
            raise MessageTooLong(f"a {what} has {len(data)} bytes, more than {MAX_MESSAGE}")
        self._writer.write(_LENGTH.pack(len(data)) + data)
        if self.unsent_bytes > MAX_UNSENT:
            self.abort()
            raise LinkBroken(f"{MAX_UNSENT} bytes of messages are unsent")

    async def messages(self) -> AsyncIterator[_M]:
        """Yield messages until the other side ends.

        Raises:
            LinkBroken: something else than messages has come.
        """
        while True:
            with suppress(asyncio.IncompleteReadError, OSError):
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                if length > MAX_MESSAGE:
                    raise LinkBroken(f"a message has {length} bytes, more than {MAX_MESSAGE}")
                data = await self._reader.readexactly(length)
                try:
                    message = self._decoder.decode(data)
                except msgspec.MsgspecError as error:
                    raise LinkBroken(f"a message cannot be read: {error}") from None
                yield message
                continue
            return

    @property
    def unsent_bytes(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    async def room(self) -> None:
        """Return when the other side has room for more messages.

        Raises:
            OSError: it has ended.
        """
        await self._writer.drain()

    async def other_side_ends(self, seconds: float) -> None:
        """Drop everything that comes until the other side ends, for at most so many seconds.

        A side that writes to a closed socket gets an error, and drops what it has not read.
        """
        with suppress(OSError):  # a TimeoutError is one
            async with asyncio.timeout(seconds):
                while await self._reader.read(_DROPPED_AT_ONCE):
                    pass

    async def aclose(self) -> None:
        """Send what is unsent, and close; the other side may have ended."""
        with suppress(OSError):
            self._writer.close()
            await self._writer.wait_closed()

    def abort(self) -> None:
        """Close at once; after :meth:`aclose`, or once the other side has ended, do nothing."""
        if not self._writer.is_closing():
            self._writer.transport.abort()
