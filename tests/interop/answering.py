"""Containers that answer as slowly as they are asked to, each on a server of somebody else or ours.

``python -m tests.interop.answering KIND`` is one of :data:`KINDS`, on a free port, until SIGTERM;
``app`` and ``Answers`` are served by ``partway-container``. Each is what its server's own tutorial
makes of it: none knows of a gateway, or of how an input ends.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass

import uvicorn
import websockets.asyncio.server
from aiohttp import WSMsgType, web
from fastapi import FastAPI, WebSocket, WebSocketDisconnect

from partway.container import Model, Stream

PATH = "/invocations-bidirectional-stream"

#: Parts of an answer that lasts no time.
PARTS_AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, as JSON.

    Attributes:
        delay: seconds until the answer begins.
        duration: seconds from its first part to its last one.
        gap: most seconds between two of its parts.
    """

    delay: float
    duration: float
    gap: float

    @classmethod
    def read(cls, text: str | bytes) -> Question:
        return cls(**json.loads(text))

    def text(self) -> str:
        return json.dumps(asdict(self))

    def pauses(self) -> list[float]:
        """Seconds between its parts, some shorter than others; in all they are ``duration``."""
        if not self.duration:
            return [0.0] * (PARTS_AT_ONCE - 1)
        return list(self._pauses())

    def _pauses(self) -> Iterator[float]:
        left = self.duration
        for share in itertools.cycle((1, 0.25, 0.5)):
            pause = min(left, share * self.gap)
            yield pause
            left -= pause
            if left <= 0:
                return

    def answer(self) -> list[str]:
        """Its parts; each is a message."""
        count = len(self.pauses()) + 1
        return [f"part {number} of {count}" for number in range(1, count + 1)]


async def answer(asked: str | bytes, send: Callable[[str], Awaitable[object]]) -> None:
    """Say the answer, in its time."""
    question = Question.read(asked)
    pauses = [question.delay, *question.pauses()]
    for pause, part in zip(pauses, question.answer(), strict=True):
        await asyncio.sleep(pause)
        await send(part)


# --- Containers ----------------------------------------------------------------------------------


class Answers(Model):
    """On Partway's runtime."""

    async def stream(self, stream: Stream) -> None:
        async for asked in stream.messages():
            await answer(asked, stream.send)


app = FastAPI()


@app.websocket(PATH)
async def _talk(stream: WebSocket) -> None:
    await stream.accept()
    try:
        while True:
            await answer(await stream.receive_text(), stream.send_text)
    except WebSocketDisconnect:
        pass


async def _on_uvicorn(listener: socket.socket) -> None:
    await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve([listener])


async def _on_websockets(listener: socket.socket) -> None:
    async def talk(stream: websockets.asyncio.server.ServerConnection) -> None:
        async for asked in stream:
            await answer(asked, stream.send)

    async with websockets.asyncio.server.serve(talk, sock=listener) as server:
        await server.serve_forever()


async def _on_aiohttp(listener: socket.socket) -> None:
    async def talk(request: web.Request) -> web.WebSocketResponse:
        stream = web.WebSocketResponse()
        await stream.prepare(request)
        async for message in stream:
            if message.type is WSMsgType.TEXT:
                await answer(message.data, stream.send_str)
        return stream

    application = web.Application()
    application.router.add_get(PATH, talk)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    await asyncio.Event().wait()  # until SIGTERM


#: What serves each of them.
KINDS = {"fastapi": _on_uvicorn, "websockets": _on_websockets, "aiohttp": _on_aiohttp}


def main(kind: str) -> None:
    """Serve one of them, and say where."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        asyncio.run(KINDS[kind](listener))


if __name__ == "__main__":
    main(sys.argv[1])
