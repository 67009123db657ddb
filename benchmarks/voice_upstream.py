"""A server of chat completions that tells one long story, and notes its listeners.

``python -m benchmarks.voice_upstream`` prints the address that it listens on. Each turn has a
number, which its messages say as ``#17 ``. ``GET /asked`` lists the turns: what the assistant had
said before, and when the request was cancelled.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any, Final

import uvloop
from aiohttp import web

#: Words of the story, and seconds between two of them: faster than speech.
_WORDS: Final = 600
_PACE: Final = 0.01
_NUMBER: Final = re.compile(r"#(\d+) ")


#: Characters of a word, with its mark.
WORD: Final = 6


def story(number: int) -> list[str]:
    """Return the words of a turn's story; eight make a sentence."""
    ends = ("." if at % 8 == 7 else "," for at in range(_WORDS))
    return [f"{prefix(number)}{at:03}{end}" for at, end in enumerate(ends)]


def prefix(number: int) -> str:
    """Return how all words of a turn's story begin."""
    return f"{number % 100:02}"


class Teller:
    """Answers requests, and remembers them."""

    def __init__(self) -> None:
        self.asked: dict[int, dict[str, Any]] = {}

    async def complete(self, request: web.Request) -> web.StreamResponse:
        messages = (await request.json())["messages"]
        numbers = _NUMBER.findall(json.dumps(messages))
        number = int(numbers[-1]) if numbers else 0
        said = [each["content"] for each in messages if each["role"] == "assistant"]
        note = self.asked[number] = {"said": said, "cancelled": None, "told": 0}
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            for word in story(number):
                await response.write(_event({"content": f"{word} "}))
                note["told"] += 1
                await asyncio.sleep(_PACE)
            await response.write(_event({}, "stop") + b"data: [DONE]\n\n")
        except (ConnectionError, asyncio.CancelledError):
            note["cancelled"] = time.monotonic()
            raise
        return response

    async def list(self, request: web.Request) -> web.Response:
        return web.json_response(self.asked)


def _event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "story"}
    return b"data: " + json.dumps({**chunk, "choices": [choice]}).encode() + b"\n\n"


async def _serve() -> None:
    teller = Teller()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", teller.complete)
    app.router.add_get("/asked", teller.list)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    print(f"listening on http://{host}:{port}", flush=True)
    await asyncio.Event().wait()  # until it is ended


if __name__ == "__main__":
    uvloop.run(_serve())
