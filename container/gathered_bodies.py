"""Bodies that are read whole, received where they stay.

A body of predict that nobody has read (clause 1.1-9) is of use only once all of it is there. Read
as any other it is copied from the loop's buffer, and once more when its pieces are joined.
"""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import Final, Protocol, cast

from partway.protocol.limits import KIB

#: The longest body that is received so. Its memory is there before its bytes are.
GATHERED_UP_TO: Final = 1024 * KIB

#: For what is no such body: heads, with what comes behind them.
_READ: Final = 64 * KIB


class GatheredBody:
    """A body of a known length, as much of it as has come.

    Args:
        length: of all of it, one byte at least.

    Attributes:
        left: how many bytes are yet to come.
    """

    def __init__(self, length: int) -> None:
        self.left = length
        self._length = length
        self._bytes = BytesIO()
        self._bytes.seek(length - 1)
        self._bytes.write(b"\0")
        self._all = self._bytes.getbuffer()

    @property
    def room(self) -> memoryview:
        """Where what is yet to come belongs."""
        return self._all[self._length - self.left :]

    def filled(self, size: int) -> None:
        """Note that so many bytes of the room have come."""
        self.left -= size

    def add(self, data: bytes) -> None:
        """Take some of it that has come elsewhere."""
        self.room[: len(data)] = data
        self.filled(len(data))

    def whole(self) -> bytes:
        """All of it, not copied if nobody holds the room any more."""
        self._all.release()
        return self._bytes.getvalue()


class Parser(Protocol):
    """What knows whether the bytes that come next are such a body's."""

    @property
    def gathered(self) -> GatheredBody | None:
        """The body whose bytes come next; None where they are anything else."""

    def gathered_more(self, size: int) -> None:
        """Note that so many bytes of that body have come."""


class GatheringProtocol(asyncio.BufferedProtocol):
    """Stands before a protocol that is given what comes, but for bodies that are gathered.

    Args:
        transport: of which it becomes the protocol.
        behind: the transport's protocol until now.
        parser: that protocol's.
    """

    def __init__(
        self, transport: asyncio.Transport, behind: asyncio.Protocol, parser: Parser
    ) -> None:
        self._transport = transport
        self._behind = behind
        self._parser = parser
        self._read = memoryview(bytearray(_READ))
        self._body: GatheredBody | None = None
        reads = transport.is_reading()
        transport.pause_reading()
        transport.set_protocol(self)
        if reads:
            transport.resume_reading()  # uvloop asks for a buffer from here on

    def get_buffer(self, sizehint: int) -> memoryview:
        self._body = self._parser.gathered
        return self._read if self._body is None else self._body.room

    def buffer_updated(self, nbytes: int) -> None:
        if self._body is not None:
            self._parser.gathered_more(nbytes)
            return
        data = bytes(self._read[:nbytes])
        protocol = self._transport.get_protocol()
        if protocol is self:
            self._behind.data_received(data)
            return
        # The connection has been taken over. uvloop reads as before until it begins anew.
        self._transport.pause_reading()
        self._transport.resume_reading()
        cast("asyncio.Protocol", protocol).data_received(data)

    # --- As they are -----------------------------------------------------------------------------

    def eof_received(self) -> bool | None:
        return self._behind.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._behind.connection_lost(exc)

    def pause_writing(self) -> None:
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        self._behind.resume_writing()
