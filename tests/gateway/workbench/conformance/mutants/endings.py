"""Mutants that end a stream's TCP connection wrongly (clause 1.5-12; RFC 6455 §7.1.1)."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

from tests.gateway.workbench.conformance.mutants.base_stream import LINGER, Stream, Violation
from tests.gateway.workbench.conformance.mutants.registry import mutant


@mutant("closing.reset")
class ResetsAfterClose(Stream):
    """Resets the connection when both Closes have been said."""

    async def end(self) -> None:
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@mutant("closing.own")
class KeepsConnectionOfViolation(Stream):
    """Leaves the connection open after a Close of its own."""

    async def fail(self, violation: Violation) -> None:
        await self.send_close(violation.code, violation.reason)
        await asyncio.sleep(15 * LINGER)


@mutant("closing.half_open", fast=False)
class HalfOpen(Stream):
    """Says FIN after its Close, and waits a minute for the client's."""

    async def end(self) -> None:
        with suppress(ConnectionError, TimeoutError):
            self.writer.write_eof()
            async with asyncio.timeout(60):
                while await self.reader.read(1 << 16):
                    pass


@mutant("closing.every_state")
class KeepsConnectionOfTalk(Stream):
    """Leaves the connection open after the Close of a stream on which something was said."""

    spoken = False

    async def on_text(self, text: str) -> None:
        self.spoken = True
        await super().on_text(text)

    async def end(self) -> None:
        if self.spoken:
            await asyncio.sleep(15 * LINGER)
        else:
            await super().end()


@mutant("closing.every_state")
class EndsLate(Stream):
    """Ends the connection three seconds after its Close."""

    async def end(self) -> None:
        await asyncio.sleep(3)
        await super().end()


@mutant("closing.every_state")
class KeepsConnectionInMessage(Stream):
    """Leaves the connection open after a Close that came inside a message."""

    async def end(self) -> None:
        if self.begun is not None:
            await asyncio.sleep(15 * LINGER)
        else:
            await super().end()
