"""Speech that is cut at random moments: nothing stays, and the next text is spoken whole."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import psutil
import pytest
from websockets.exceptions import ConnectionClosed

from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.testing import Served, serving
from tests.container.models.voice.voices import (
    SENTENCE,
    children,
    piper_voice,
    put_programs_on_path,
)

#: How many times speech of each engine is cut; a cut of piper may cost what a phrase costs.
CUTS = {"espeak-ng": 1_000, "stub": 1_000, "piper": 60}
TEXT = f"{SENTENCE} {SENTENCE} {SENTENCE} "


@pytest.fixture(params=CUTS)
async def engine(request, anyio_backend) -> str:
    return str(request.param)


@pytest.fixture
async def served(engine, monkeypatch) -> AsyncIterator[Served]:
    put_programs_on_path(monkeypatch)
    speaks = f"piper:{piper_voice()}" if engine == "piper" else engine
    async with serving(Voice(VoiceSettings(speaks=speaks, turns="stub"))) as served:
        yield served


async def spoken(client: Any, text: str) -> int:
    """Speak a text to its end; gives the bytes of audio."""
    await client.send(json.dumps({"type": "Speak", "text": text}))
    await client.send('{"type":"Flush"}')
    size = 0
    async with asyncio.timeout(120):
        while isinstance(message := await client.recv(), bytes):
            size += len(message)
        while json.loads(message)["type"] != "Flushed":
            message = await client.recv()
            size += len(message) if isinstance(message, bytes) else 0
            message = "{}" if isinstance(message, bytes) else message
    return size


async def cleared(client: Any, moment: float) -> None:
    """Begin a text, clear it at a moment, and hold the stream to silence after that."""
    await client.send(json.dumps({"type": "Speak", "text": TEXT}))
    await client.send('{"type":"Flush"}')
    with suppress(TimeoutError):
        async with asyncio.timeout(moment):
            while True:
                await client.recv()
    await client.send('{"type":"Clear"}')
    async with asyncio.timeout(120):
        while True:
            message = await client.recv()
            if isinstance(message, str) and json.loads(message)["type"] == "Cleared":
                return


async def abandoned(served: Served, moment: float) -> None:
    async with served.stream("v1/speak") as client:
        await client.recv()
        await client.send(json.dumps({"type": "Speak", "text": TEXT}))
        with suppress(TimeoutError, ConnectionClosed):
            async with asyncio.timeout(moment):
                while True:
                    await client.recv()
        client.transport.abort()


async def settled(before: tuple[int, int, int]) -> None:
    """Wait until no more processes, threads and descriptors are there than before."""
    async with asyncio.timeout(60):
        while any(now > then for now, then in zip(counts(), before, strict=True)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def counts() -> tuple[int, int, int]:
    return (len(children()), threading.active_count(), psutil.Process().num_fds())


@pytest.mark.timeout(900)
async def test_random_cuts(engine, served):
    draw = random.Random(7)
    longest = 1.5 if engine == "piper" else 0.08
    async with served.stream("v1/speak") as client:
        await client.recv()
        whole = await spoken(client, SENTENCE)
        before = counts()
        for cut in range(CUTS[engine]):
            if cut % 3:
                await cleared(client, draw.uniform(0, longest))
            else:
                await abandoned(served, draw.uniform(0, longest))
            if not cut % 50:
                size = await spoken(client, SENTENCE)
                assert size == whole if engine != "piper" else 0.7 < size / whole < 1.4
        await settled(before)
        size = await spoken(client, SENTENCE)
        assert size == whole if engine != "piper" else 0.7 < size / whole < 1.4
