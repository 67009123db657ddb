"""Mutants that do well for a while (clauses 1.1-2, 1.1-4, 1.2-1, 1.4-3 and 1.6-1)."""

from __future__ import annotations

import asyncio

from tests.gateway.workbench.conformance.mutants.base import Container, Request
from tests.gateway.workbench.conformance.mutants.base_stream import Stream
from tests.gateway.workbench.conformance.mutants.registry import mutant

#: More streams than all checks but those of wear ask for, so that no other one meets the last.
MANY_STREAMS = 250


class _Counting(Container):
    def __init__(self, port: int, model_dir: str) -> None:
        super().__init__(port, model_dir)
        self.probes = 0
        self.granted = 0
        self.refused = 0

    async def ping(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.probes += 1
        await super().ping(request, writer)

    def admits(self, request: Request) -> int:
        refusal = super().admits(request)
        self.refused += bool(refusal)
        self.granted += not refusal
        return refusal


@mutant("wear.ping")
class MissesSixtiethProbe(_Counting):
    """Answers each sixtieth probe with 500."""

    async def ping(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if self.probes % 60 == 59:
            self.probes += 1
            await self.answer(writer, 500)
        else:
            await super().ping(request, writer)


@mutant("wear.ping")
class TiresOfProbes(_Counting):
    """Answers no probe after the hundredth."""

    async def ping(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if self.probes >= 100:
            raise ConnectionResetError("enough")
        await super().ping(request, writer)


@mutant("wear.streams")
class TiresOfStreams(_Counting):
    """Refuses streams with 503 once there have been many."""

    def admits(self, request: Request) -> int:
        return super().admits(request) or 503 * (self.granted >= MANY_STREAMS)


@mutant("wear.streams")
class DropsOneStream(_Counting):
    """Cuts one stream of many, right after its 101."""

    async def converse(self, stream: Stream, request: Request) -> None:
        if self.granted % MANY_STREAMS == 0:
            return
        await super().converse(stream, request)


@mutant("wear.refused")
class TiresOfRefusals(_Counting):
    """Refuses every stream once it has refused a hundred."""

    def admits(self, request: Request) -> int:
        return 429 if self.refused >= 100 else super().admits(request)


class _Heeding(Stream):
    """Counts what it hears."""

    heard = 0
    pinged = 0

    async def on_text(self, text: str) -> None:
        self.heard += 1
        await super().on_text(text)

    async def on_ping(self, payload: bytes) -> None:
        self.pinged += 1
        await super().on_ping(payload)


@mutant("wear.messages")
class LosesOneInHundred(_Heeding):
    """Does not answer each hundredth message of a stream."""

    async def on_text(self, text: str) -> None:
        if self.heard % 100 == 99:
            self.heard += 1
            return
        await super().on_text(text)


@mutant("wear.messages")
class RepeatsOneInHundred(_Heeding):
    """Answers each hundredth message of a stream twice."""

    async def on_text(self, text: str) -> None:
        await super().on_text(text)
        if self.heard % 100 == 0:
            await Stream.on_text(self, text)


@mutant("wear.pings")
class LosesOnePongInFifty(_Heeding):
    """Does not answer each fiftieth Ping of a stream."""

    async def on_ping(self, payload: bytes) -> None:
        if self.pinged % 50 == 49:
            self.pinged += 1
            return
        await super().on_ping(payload)
