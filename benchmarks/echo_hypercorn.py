"""Hypercorn with an application that sends a request's body back, piece by piece.

``python -m benchmarks.echo_hypercorn`` serves HTTP/2 in clear, on uvloop, in one process.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from hypercorn.asyncio import serve
from hypercorn.config import Config

Event = dict[str, Any]


async def echo(
    scope: Event,
    receive: Callable[[], Awaitable[Event]],
    send: Callable[[Event], Awaitable[None]],
) -> None:
    if scope["type"] != "http":
        raise ValueError(f"no {scope['type']} here")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    # Hypercorn keeps the head for the first piece of the body, even an empty one.
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    more = True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        more = event["more_body"]
        await send({"type": "http.response.body", "body": event["body"], "more_body": more})


async def _serve() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.loglevel = "WARNING"
    await serve(echo, config)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
