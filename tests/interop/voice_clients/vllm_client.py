"""A client written from AWS's sample for Voxtral on vLLM: it sends the same messages, at its pace.

``vllm_client.py ENDPOINT REGION PCM`` prints what came. Like the sample it finds SageMaker by the
region alone, waits for ``session.created`` before it sends, and prints deltas without a separator.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

from aws_sdk_sagemaker_runtime_http2.models import ResponseStreamEventPayloadPart
from sagemaker_stream import opened, send

ENDPOINT, REGION, PCM = sys.argv[1:]
#: Bytes of audio in a message, 128 ms.
CHUNK = 4096
AUDIO = Path(PCM).read_bytes()


class Client:
    """A stream, and what came on it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.met: list[dict[str, Any]] = []
        self.created = asyncio.Event()

    async def send(self, **message: Any) -> None:
        await send(self._stream, message)

    async def receive(self) -> None:
        """Receive events up to a transcription's end, or an error."""
        _, output = await self._stream.await_output()
        while (event := await output.receive()) is not None:
            if not isinstance(event, ResponseStreamEventPayloadPart):
                self.met.append({"type": type(event).__name__, "error": str(event.value)})
                return
            message = json.loads(event.value.bytes_.decode())
            self.met.append(message)
            if message["type"] == "session.created":
                self.created.set()
            elif message["type"] in ("transcription.done", "error"):
                return

    async def transcribe(self, audio: bytes) -> None:
        await self.created.wait()
        await self.send(type="session.update", model="mistralai/Voxtral-Mini-4B-Realtime-2602")
        await self.send(type="input_audio_buffer.commit")
        for start in range(0, len(audio), CHUNK):
            chunk = base64.b64encode(audio[start : start + CHUNK]).decode()
            await self.send(type="input_audio_buffer.append", audio=chunk)
        await self.send(type="input_audio_buffer.commit", final=True)


async def main() -> None:
    stream = await opened(ENDPOINT, REGION)
    client = Client(stream)
    async with asyncio.timeout(30):
        receiving = asyncio.create_task(client.receive())
        await client.transcribe(AUDIO)
        await receiving
    await stream.input_stream.close()
    print(json.dumps({"met": client.met}))


asyncio.run(main())
