"""Mutants that end a stream wrongly (clauses 1.5-1 to 1.5-9; RFC 6455 §7)."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress

from tests.frame_factory import BINARY, CLOSE, TEXT
from tests.gateway.workbench.conformance.mutants.base import Container, Request
from tests.gateway.workbench.conformance.mutants.base_stream import (
    LINGER,
    Finished,
    Stream,
    Violation,
)
from tests.gateway.workbench.conformance.mutants.registry import mutant


@mutant("closing.answered")
class NeverAnswersClose(Stream):
    """Reads on when a Close comes."""

    async def on_close(self, payload: bytes) -> None:
        if self.closing:
            raise Finished


@mutant("closing.answered")
class EndsWithoutAnswer(Stream):
    """Ends the connection when a Close comes, and does not answer it."""

    async def on_close(self, payload: bytes) -> None:
        raise Finished


@mutant("closing.code")
class OtherCode(Stream):
    """Answers a Close that has a code with 4999."""

    async def on_close(self, payload: bytes) -> None:
        self.check_close(payload)
        await super().on_close(payload and struct.pack("!H", 4999))


@mutant("closing.answered")
class ReservedCloseCode(Stream):
    """Answers a Close with 1006, which never is on the wire."""

    async def on_close(self, payload: bytes) -> None:
        self.check_close(payload)
        await self.send(CLOSE, struct.pack("!H", 1006))
        raise Finished


@mutant("closing.connection")
class KeepsConnection(Stream):
    """Answers a Close, and leaves the connection open."""

    async def end(self) -> None:
        await asyncio.sleep(15 * LINGER)


@mutant("closing.connection")
class TalksAfterClose(Stream):
    """Sends a message behind its Close."""

    async def on_close(self, payload: bytes) -> None:
        self.check_close(payload)
        self.closing = True
        await self.send(CLOSE, payload[:2])
        await self.send(TEXT, b"one more thing")
        raise Finished


class Thoughtful(Stream):
    """Thinks before it answers, and answers nothing once a Close has come."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.thoughts: set[asyncio.Task[None]] = set()

    async def send(self, opcode: int, payload: bytes, fin: bool = True) -> None:
        if opcode not in (TEXT, BINARY):
            await super().send(opcode, payload, fin)
            return
        thought = asyncio.create_task(self.answer_later(opcode, payload, fin))
        self.thoughts.add(thought)
        thought.add_done_callback(self.thoughts.discard)

    async def answer_later(self, opcode: int, payload: bytes, fin: bool) -> None:
        await asyncio.sleep(0.03)
        with suppress(ConnectionError):
            await super().send(opcode, payload, fin)

    async def on_close(self, payload: bytes) -> None:
        for thought in self.thoughts:
            thought.cancel()
        await super().on_close(payload)


@mutant("closing.after_answer")
class ClaimsToFinish(Container):
    """Says that it finishes before it answers a Close, and does not."""

    stream = Thoughtful

    def negotiated(self, request: Request) -> list[str]:
        return ["X-Partway-Close: after-answer"]


@mutant("closing.without_code")
class NeedsCloseCode(Stream):
    """Fails on a Close without a code."""

    async def on_close(self, payload: bytes) -> None:
        if not payload:
            raise ConnectionResetError("it expects a code")
        await super().on_close(payload)


@mutant("closing.reason")
class DiesOfReason(Stream):
    """Ends the connection at a Close that has a reason."""

    async def on_close(self, payload: bytes) -> None:
        if len(payload) > 2:
            raise ConnectionResetError("it expects two bytes")
        await super().on_close(payload)


@mutant("closing.reason")
class NoPrivateCodes(Stream):
    """Refuses a Close with a code of the client's own."""

    def check_close_code(self, code: int) -> None:
        super().check_close_code(code)
        if code >= 3000:
            raise Violation(1002, "no such close code")


@mutant("closing.mid_message")
class NoCloseInMessage(Stream):
    """Passes over a Close that comes inside a message."""

    async def on_close(self, payload: bytes) -> None:
        if self.begun is None:
            await super().on_close(payload)
