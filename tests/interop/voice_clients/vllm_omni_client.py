"""A client written from AWS's samples for speech on vLLM-Omni: it sends the same messages.

``vllm_omni_client.py ENDPOINT REGION TEXT`` speaks the text twice, and prints what came. The first
time it streams audio, as the sample for Qwen3-TTS. The second time it names no path and takes
files, as the sample for Voxtral TTS.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from aws_sdk_sagemaker_runtime_http2.models import ResponseStreamEventPayloadPart
from sagemaker_stream import opened, send

ENDPOINT, REGION, TEXT = sys.argv[1:]
STREAMED = {
    "voice": "Vivian",
    "language": "English",
    "response_format": "pcm",
    "stream_audio": True,
}
FILES = {
    "model": "mistralai/Voxtral-4B-TTS-2603",
    "voice": "casual_male",
    "response_format": "wav",
}


async def receive(output: Any) -> list[Any]:
    """Return the events up to an utterance's end or an error, and sizes of audio among them."""
    met: list[Any] = []
    while (event := await output.receive()) is not None:
        if not isinstance(event, ResponseStreamEventPayloadPart):
            return [*met, {"type": type(event).__name__, "error": str(event.value)}]
        part = event.value
        if (part.data_type or "").upper() != "UTF8":
            met.append(len(part.bytes_ or b""))
            continue
        met.append(json.loads(part.bytes_.decode()))
        if met[-1]["type"] in ("session.done", "error"):
            return met
    return met


async def spoken(path: str | None, config: dict[str, Any]) -> list[Any]:
    stream = await opened(ENDPOINT, REGION, path)
    async with asyncio.timeout(30):
        _, output = await stream.await_output()
        await send(stream, {"type": "session.config", **config})
        await send(stream, {"type": "input.text", "text": TEXT})
        await send(stream, {"type": "input.done"})
        met = await receive(output)
        await send(stream, {"type": "session.close"})
        await stream.input_stream.close()
    return met


async def main() -> None:
    streamed = await spoken("v1/audio/speech/stream", STREAMED)
    files = await spoken(None, FILES)
    print(json.dumps({"streamed": streamed, "files": files}))


asyncio.run(main())
