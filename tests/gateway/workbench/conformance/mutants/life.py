"""Mutants that start, live or stop wrongly (clauses 1.1-1 to 1.1-6)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from tests.frame_factory import TEXT
from tests.gateway.workbench.conformance.mutants.base import Container, Request
from tests.gateway.workbench.conformance.mutants.base_stream import Stream
from tests.gateway.workbench.conformance.mutants.registry import PROGRAM, mutant

#: What the probe asks; what else is said is answered at once, or a run would take minutes.
QUESTION = "partway asks"


@mutant("startup.listens")
class OtherPort(Container):
    """Listens on another port than it is told."""

    async def listen(self) -> asyncio.Server:
        self.port = 0
        return await super().listen()


@mutant("startup.listens")
class DiesAtStart(Container):
    """Ends before it listens."""

    async def run(self) -> int:
        return 1


@mutant("startup.accepts")
class AcceptsLate(Container):
    """Accepts one connection in 30 ms, and lets few wait."""

    async def listen(self) -> asyncio.Server:
        listening = socket.create_server(("0.0.0.0", self.port), backlog=4)
        listening.setblocking(False)
        self.accepting = asyncio.create_task(self.accept(listening))
        return await asyncio.start_server(self.connected, "127.0.0.1", 0)

    async def accept(self, listening: socket.socket) -> None:
        serving: set[asyncio.Task[None]] = set()
        while True:
            taken, _ = await asyncio.get_running_loop().sock_accept(listening)
            task = asyncio.create_task(self.connected(*await asyncio.open_connection(sock=taken)))
            serving.add(task)
            task.add_done_callback(serving.discard)
            await asyncio.sleep(0.03)


@mutant("shutdown.sigterm")
class IgnoresSigterm(Container):
    """Ignores SIGTERM."""

    def heed_signals(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


@mutant("shutdown.sigterm")
class StopsTooLate(Container):
    """Takes 40 seconds to stop."""

    async def leave(self) -> None:
        await super().leave()
        await asyncio.sleep(40)


@mutant("shutdown.sigterm", command=("/bin/sh", "-c", f"{' '.join(PROGRAM)} none serve; exit $?"))
class ShellForm(Container):
    """Is started by a shell, which passes no signal on."""


@mutant("shutdown.streams", fast=False)
class WaitsForStreams(Container):
    """Stops only when its streams have ended by themselves."""

    async def leave(self) -> None:
        while self.streams:
            await next(iter(self.streams)).ended.wait()


@mutant("files.artifacts")
class WritesInModelDir(Container):
    """Writes beside its artifacts."""

    async def invocations(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.write()
        await super().invocations(request, writer)

    async def converse(self, stream: Stream, request: Request) -> None:
        self.write()
        await super().converse(stream, request)

    def write(self) -> None:
        where = Path(self.model_dir)
        where.chmod(where.stat().st_mode | stat.S_IWUSR)
        (where / "cache").write_text("written")


@mutant("streams.cut")
class DiesOfLoss(Stream):
    """Ends with the first client that leaves without a word."""

    def lost(self) -> None:
        os._exit(4)


@mutant("streams.leak")
class LeaksSocket(Stream):
    """Never gives a stream's socket back."""

    leaked: ClassVar[list[socket.socket]] = []

    async def run(self) -> None:
        mine: socket.socket = self.writer.get_extra_info("socket")
        try:
            await super().run()
        finally:
            self.leaked.append(mine.dup())


@mutant("streams.many")
class OneAtATime(Container):
    """Talks to one client at a time; the others wait."""

    def __init__(self, port: int, model_dir: str) -> None:
        super().__init__(port, model_dir)
        self.turn = asyncio.Lock()

    async def converse(self, stream: Stream, request: Request) -> None:
        async with self.turn:
            await super().converse(stream, request)


@mutant("streams.many")
class RefusesSecond(Container):
    """Refuses a second stream with 503."""

    def admits(self, request: Request) -> int:
        return 503 if self.streams else super().admits(request)


@mutant("streams.many")
class SharesReplies(Stream):
    """Says each message to all clients."""

    everyone: ClassVar[set[SharesReplies]] = set()

    async def run(self) -> None:
        self.everyone.add(self)
        try:
            await super().run()
        finally:
            self.everyone.discard(self)

    async def on_text(self, text: str) -> None:
        for each in set(self.everyone):
            with suppress(ConnectionError):  # its client has gone, and it has not seen that yet
                await each.send(TEXT, text.encode())


@mutant("streams.idle")
class DropsIdle(Stream):
    """Ends a stream that has been silent for a second."""

    async def read_frame(self) -> tuple[bool, int, bytes]:
        try:
            async with asyncio.timeout(1):
                return await super().read_frame()
        except TimeoutError:
            raise ConnectionResetError("too quiet") from None


@mutant("ping.busy")
class ComputesOnLoop(Stream):
    """Computes on the event loop, so that /ping waits for it."""

    async def on_text(self, text: str) -> None:
        compute(0.4 * text.startswith(QUESTION))
        await super().on_text(text)


@mutant("control.busy")
class ComputesBeforeReading(Stream):
    """Reads the next frame only when the answer is made; all but the first take a while."""

    asked = False

    async def on_text(self, text: str) -> None:
        await asyncio.sleep(1.5 * (self.asked and text.startswith(QUESTION)))
        self.asked = True
        await super().on_text(text)


def compute(seconds: float) -> None:
    """What a model does."""
    time.sleep(seconds)
