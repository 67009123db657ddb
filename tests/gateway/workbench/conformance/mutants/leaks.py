"""Mutants that give back less than they take, each time (clauses 1.1-2, 1.5-9 and 1.6-1)."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from typing import ClassVar

from tests.frame_factory import BINARY
from tests.gateway.workbench.conformance.mutants.base import Container, Request
from tests.gateway.workbench.conformance.mutants.base_stream import Stream
from tests.gateway.workbench.conformance.mutants.registry import mutant

_PIECE = 64 << 10


class _Hoarder(Container):
    """Has a place for what it keeps."""

    def __init__(self, port: int, model_dir: str) -> None:
        super().__init__(port, model_dir)
        self.kept: list[object] = []

    def keep_memory(self) -> None:
        self.kept.append(os.urandom(_PIECE))


@mutant("leaks.ping")
class KeepsSocketOfProbe(_Hoarder):
    """Keeps the socket of each probe."""

    async def ping(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.kept.append(writer.get_extra_info("socket").dup())
        await super().ping(request, writer)


@mutant("leaks.ping")
class LeavesZombies(Container):
    """Asks a process for the health, and never hears how the process ended."""

    async def ping(self, request: Request, writer: asyncio.StreamWriter) -> None:
        os.posix_spawn("/bin/true", ["true"], {})  # noqa: ASYNC221 (it is wrong)
        await super().ping(request, writer)


@mutant("leaks.ping_memory")
class NotesEachProbe(_Hoarder):
    """Keeps 64 KiB of each probe."""

    async def ping(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.keep_memory()
        await super().ping(request, writer)


@mutant("leaks.refused")
class OpensForRefused(_Hoarder):
    """Opens a file for each stream before it knows whether the stream is welcome."""

    def admits(self, request: Request) -> int:
        opened = os.open(os.devnull, os.O_RDONLY)
        refusal = super().admits(request)
        if not refusal:
            os.close(opened)
        return refusal


@mutant("leaks.refused")
class OpensForOldVersion(_Hoarder):
    """Opens a file for each stream that speaks another version, and never closes it."""

    def admits(self, request: Request) -> int:
        refusal = super().admits(request)
        if refusal == 426:
            self.kept.append(os.open(os.devnull, os.O_RDONLY))
        return refusal


@mutant("leaks.refused_memory")
class NotesEachRefusal(_Hoarder):
    """Keeps 64 KiB of each refused upgrade."""

    def admits(self, request: Request) -> int:
        refusal = super().admits(request)
        if refusal:
            self.keep_memory()
        return refusal


@mutant("leaks.stream_memory")
class NotesEachStream(_Hoarder):
    """Keeps 64 KiB of each stream that is over."""

    async def converse(self, stream: Stream, request: Request) -> None:
        try:
            await super().converse(stream, request)
        finally:
            self.keep_memory()


@mutant("leaks.stream_memory")
class NotesEachLoss(_Hoarder):
    """Keeps 64 KiB of each stream that ends without a Close."""

    async def converse(self, stream: Stream, request: Request) -> None:
        await super().converse(stream, request)
        if not stream.closing:
            self.keep_memory()


@mutant("streams.leak")
class OpensForFirstMessage(Stream):
    """Opens a file at a stream's first message, and never closes it."""

    opened: ClassVar[list[socket.socket]] = []
    spoken = False

    async def on_text(self, text: str) -> None:
        if not self.spoken:
            self.spoken = True
            self.opened.append(socket.socket())
        await super().on_text(text)

    async def on_binary(self, data: bytes) -> None:
        await self.send(BINARY, data)


@mutant("streams.leak")
class ThreadForEachStream(Container):
    """Starts a thread with each stream, which never ends."""

    async def converse(self, stream: Stream, request: Request) -> None:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        await super().converse(stream, request)


_CHILD = """
import os, sys
kept = []
while sys.stdin.buffer.read(1):
    kept.append(os.urandom(65536))
    sys.stdout.buffer.write(b".")
    sys.stdout.buffer.flush()
"""


@mutant("leaks.stream_memory")
class ChildNotesEachStream(Container):
    """Has a process beside it that keeps 64 KiB of each stream."""

    child: subprocess.Popen[bytes] | None = None

    def note(self) -> None:
        if self.child is None:
            command = [sys.executable, "-c", _CHILD]
            self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(b".")
        self.child.stdin.flush()
        self.child.stdout.read(1)

    async def converse(self, stream: Stream, request: Request) -> None:
        self.note()
        await super().converse(stream, request)

    async def leave(self) -> None:
        await super().leave()
        if self.child is not None:
            self.child.kill()
            self.child.wait()
