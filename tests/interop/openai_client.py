"""OpenAI's client at one base URL: prints one JSON object of all that it got.

Run by ``openai_check.py`` as ``openai_client.py BASE_URL MODEL API_KEY``.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import openai

BASE, MODEL, KEY = sys.argv[1:]
client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)


def stream(said: str, **changes: Any) -> list[str]:
    messages = [{"role": "user", "content": said}]
    chunks = client.chat.completions.create(
        **{"model": MODEL, "messages": messages, "stream": True, **changes}
    )
    return [chunk.choices[0].delta.content for chunk in chunks]


async def realtime() -> list[str]:
    async with (
        openai.AsyncOpenAI(base_url=BASE, api_key=KEY) as own,
        own.realtime.connect(model=MODEL) as connection,
    ):
        created = await connection.recv()
        await connection.send({"type": "response.create"})
        return [created.type, created.session.model, (await connection.recv()).type]


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except openai.APIError as error:
        has_id = bool(getattr(error, "request_id", None))
        return [type(error).__name__, error.message, error.code, has_id]


audio = io.BytesIO(bytes(300_000))
print(
    json.dumps(
        {
            "stream": outcome(lambda: stream("hi")),
            "break": outcome(lambda: stream("break")),
            "busy": outcome(lambda: stream("busy")),
            "elsewhere": outcome(lambda: client.embeddings.create(model=MODEL, input="a")),
            "upload": outcome(
                lambda: client.audio.transcriptions.create(model=MODEL, file=audio).text
            ),
            "models": outcome(lambda: [each.id for each in client.models.list()]),
            "realtime": outcome(lambda: asyncio.run(realtime())),
            "unknown": outcome(lambda: stream("hi", model="none")),
        }
    )
)
