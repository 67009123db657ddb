"""Mutants that do Ping and Pong wrong (clause 1.1-4; RFC 6455 §5.5.2 and §5.5.3)."""

from __future__ import annotations

import asyncio

from tests.frame_factory import BINARY, PONG, TEXT
from tests.gateway.workbench.conformance.mutants.base_stream import Stream, Violation
from tests.gateway.workbench.conformance.mutants.registry import mutant


@mutant("control.pong")
class NoPong(Stream):
    """Answers no Ping."""

    async def on_ping(self, payload: bytes) -> None:
        pass


@mutant("control.pong")
class EmptyPong(Stream):
    """Answers a Ping without its payload."""

    async def on_ping(self, payload: bytes) -> None:
        await self.send(PONG, b"")


@mutant("control.pong")
class TextForPong(Stream):
    """Answers a Ping with a text message."""

    async def on_ping(self, payload: bytes) -> None:
        await self.send(TEXT, payload)


@mutant("control.pong_sizes")
class ShortPong(Stream):
    """Cuts a Pong's payload at 64 bytes."""

    async def on_ping(self, payload: bytes) -> None:
        await self.send(PONG, payload[:64])


@mutant("control.pong_sizes")
class IgnoresEmptyPing(Stream):
    """Answers only a Ping that has a payload."""

    async def on_ping(self, payload: bytes) -> None:
        if payload:
            await self.send(PONG, payload)


@mutant("control.order")
class PongsOutOfOrder(Stream):
    """Answers Pings that come together last one first."""

    async def run(self) -> None:
        self.asked: list[bytes] = []
        self.answering: asyncio.Task[None] | None = None
        await super().run()

    async def on_ping(self, payload: bytes) -> None:
        self.asked.append(payload)
        if self.answering is None or self.answering.done():
            self.answering = asyncio.create_task(self.answer_all())

    async def answer_all(self) -> None:
        await asyncio.sleep(0.02)
        while self.asked:
            await self.send(PONG, self.asked.pop())


@mutant("control.mid_message")
class PongBetweenMessages(Stream):
    """Answers a Ping that comes inside a message only when the message is whole."""

    async def run(self) -> None:
        self.asked: list[bytes] = []
        await super().run()

    async def on_ping(self, payload: bytes) -> None:
        if self.begun is None:
            await self.send(PONG, payload)
        else:
            self.asked.append(payload)

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        await super().on_data(fin, opcode, payload)
        while fin and self.asked:
            await self.send(PONG, self.asked.pop(0))


@mutant("messages.pings_between")
class PingEndsMessage(Stream):
    """Forgets the message in which a Ping comes."""

    async def on_ping(self, payload: bytes) -> None:
        await super().on_ping(payload)
        if self.begun is not None:
            self.begun = self.begun[0], bytearray()


@mutant("control.unsolicited")
class DiesOfPong(Stream):
    """Ends the stream when a Pong comes that it has not asked for."""

    async def on_pong(self, payload: bytes) -> None:
        raise Violation(1002, "nobody asked")


@mutant("control.unsolicited")
class AnswersPong(Stream):
    """Says a Pong again as if it were a message."""

    async def on_pong(self, payload: bytes) -> None:
        await self.send(TEXT, payload)


@mutant("control.pong")
class FragmentsPong(Stream):
    """Sends a Pong in two fragments."""

    async def on_ping(self, payload: bytes) -> None:
        await self.send(PONG, payload[:1], fin=False)
        await self.send(PONG, payload[1:])


@mutant("control.gaps")
class NoPongInBinary(Stream):
    """Loses a Ping that comes inside a binary message."""

    async def on_ping(self, payload: bytes) -> None:
        if self.begun is None or self.begun[0] == TEXT:
            await super().on_ping(payload)


@mutant("control.gaps")
class OnePongPerMessage(Stream):
    """Answers the first Ping of those that come inside a message."""

    async def run(self) -> None:
        self.answered = False
        await super().run()

    async def on_ping(self, payload: bytes) -> None:
        if not self.answered:
            await super().on_ping(payload)
        self.answered = self.begun is not None

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        self.answered = self.answered and not fin
        await super().on_data(fin, opcode, payload)


@mutant("control.pong_bytes")
class TrimsPong(Stream):
    """Takes NULs off a Pong's end."""

    async def on_ping(self, payload: bytes) -> None:
        await self.send(PONG, payload if len(payload) > 64 else payload.rstrip(b"\0"))


@mutant("control.pong_bytes")
class PongsText(Stream):
    """Takes a Ping's payload for text."""

    async def on_ping(self, payload: bytes) -> None:
        await self.send(PONG, payload.decode(errors="replace").encode()[:125])


@mutant("control.unsolicited")
class DiesOfEmptyPong(Stream):
    """Ends the stream at a Pong without a payload."""

    async def on_pong(self, payload: bytes) -> None:
        if not payload:
            raise Violation(1002, "it is empty")


@mutant("messages.pongs_between")
class PongEndsMessage(Stream):
    """Forgets the message in which a Pong comes."""

    async def on_pong(self, payload: bytes) -> None:
        if self.begun is not None:
            self.begun = self.begun[0], bytearray()


@mutant("messages.pings_between")
class PingInBinary(Stream):
    """Takes a Ping inside a binary message for a part of it, and answers it all the same."""

    async def on_ping(self, payload: bytes) -> None:
        await super().on_ping(payload)
        if self.begun is not None and self.begun[0] == BINARY:
            self.begun[1].extend(payload)


@mutant("control.gaps")
class ShortPongInside(Stream):
    """Cuts a Pong at 64 bytes where it comes inside a message."""

    async def on_ping(self, payload: bytes) -> None:
        await self.send(PONG, payload[:64] if self.begun is not None else payload)
