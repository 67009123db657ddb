"""docs/how-to/state-settings-and-metrics.md: its model does what the page shows."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import pytest

from partway.container.errors import SettingsRefused
from partway.container.testing import serving
from tests.container.wire import PATIENCE
from tests.test_docs import page

PAGE = page("how-to/state-settings-and-metrics.md")
(PROGRAM,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The printed program as a module, with the setting that the page gives."""
    module = ModuleType("talk")
    monkeypatch.setitem(sys.modules, "talk", module)
    exec(PROGRAM, module.__dict__)
    assert "serve --model talk:Talker --set tone=loud " in PAGE
    monkeypatch.setenv("TALK_TONE", "loud")
    return module


async def test_the_answer_and_the_metrics(talk: Any) -> None:
    async with asyncio.timeout(PATIENCE), serving(talk.Talker()) as served:
        async with served.stream() as client:
            await client.send("hello out there")
            closing = asyncio.create_task(client.close())
            answer = await client.recv()
            await closing
        assert 'partway invoke talk --text "hello out there"\n' in PAGE
        assert f"```\n{answer.strip()}\n```" in PAGE
        async with aiohttp.ClientSession() as session:

            async def lines() -> set[str]:
                async with session.get(f"{served.url}/metrics") as response:
                    return set((await response.text()).splitlines())

            shown = re.findall(r"^(?:partway_container|talk)_\w+.* \S+$", PAGE, re.MULTILINE)
            assert len(shown) == 3
            while not set(shown) <= await lines():  # a stream's end is counted after its Close
                pass


async def test_an_interruption(talk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALK_PAUSE", "0")
    async with (
        asyncio.timeout(PATIENCE),
        serving(talk.Talker()) as served,
        served.stream() as client,
    ):
        await client.send("a " * 50_000)
        fragments = client.recv_streaming()
        assert await anext(fragments) == "1. "
        await client.send("b")
        rest = [each async for each in fragments]
        assert len(rest) < 50_000
        assert await client.recv() == "2. B "


def test_the_error(talk: Any) -> None:
    with pytest.raises(SettingsRefused) as caught:
        talk.TalkSettings.from_environment({"TALK_PAUSE": "x"})
    assert "`--set pause=x` prints:" in PAGE
    assert f"\npartway-container: {caught.value}\n" in PAGE


async def test_the_refusal(talk: Any) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        serving(talk.Talker()) as served,
        served.stream() as client,
    ):
        await client.send(b"x")
        await client.wait_closed()
        assert f"`{client.close_reason}`" in PAGE.replace("\n", " ")
