"""A server of OpenAI's API that answers what a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Answer = Callable[["FakeUpstream", web.Request], Awaitable[web.StreamResponse]]


class FakeUpstream:
    """An upstream.

    Attributes:
        url: its base URL.
        requests: the bodies of the requests, and their headers.
        left: set once a client has left in the middle of an answer.
        go_on: an answer that waits for it goes on then.
    """

    def __init__(self, answer: Answer) -> None:
        self.url = ""
        self.requests: list[tuple[str, Any, dict[str, str]]] = []
        self.left = asyncio.Event()
        self.go_on = asyncio.Event()
        self._answer = answer

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        asked = json.loads(body) if body else None
        self.requests.append((f"{request.method} {request.path_qs}", asked, dict(request.headers)))
        try:
            return await self._answer(self, request)
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise


def chunk(text: str, **more: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text, **more}}]}


async def in_events(request: web.Request, *events: object, done: bool = True) -> web.StreamResponse:
    """Answer with events; without ``done`` the connection breaks off after them."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
    if done:
        await response.write(b"data: [DONE]\n\n")
    elif request.transport is not None:
        request.transport.close()
    return response


@asynccontextmanager
async def upstream(answer: Answer) -> AsyncIterator[FakeUpstream]:
    """Run an upstream on a free port."""
    fake = FakeUpstream(answer)
    app = web.Application()
    app.router.add_route("*", "/v1/{path:.*}", fake.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield fake
    finally:
        await runner.cleanup()
