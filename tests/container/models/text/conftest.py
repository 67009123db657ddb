"""A served language model, and the engine behind it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from partway.container.models.text.model import Text
from partway.container.models.text.settings import TextSettings
from partway.container.testing import Served, serving

#: One thread, so that as much is computed at a time as on a smaller machine; a small cache.
SETTINGS = TextSettings(max_new_tokens=64, threads=1, cache_bytes=4 << 20)


async def ask(client: Any, prompt: str, **options: object) -> None:
    """Send the first prompt of a stream, with options; replies are plain text."""
    await client.send(json.dumps({"type": "session", "format": "text", **options}))
    await client.send(prompt)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """One loop: what these tests are about runs on threads beside it, and takes its time."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.container.models.text.tiny import make_noise

    return make_noise(tmp_path_factory.mktemp("noise"))


@pytest.fixture
async def serve(anyio_backend: object) -> AsyncIterator[Callable[..., object]]:
    """Serves a language model from a folder: ``model, served = await serve(folder, settings)``."""
    async with AsyncExitStack() as running:

        async def start(
            folder: Path, settings: TextSettings = SETTINGS, model: Text | None = None
        ) -> tuple[Text, Served]:
            model = model or Text(settings)
            served = await running.enter_async_context(serving(model, folder))
            return model, served

        yield start
