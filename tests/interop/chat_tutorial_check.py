"""The tutorial "A chat backend" as it is printed, on free ports.

Run by ``make interop-openai OPENAI_PYTHON=…``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from tests.interop.aws_sdk import ServedGateway
from tests.interop.served_api import blocks, ended, free_port, interpreter, running
from tests.test_docs import page

pytestmark = pytest.mark.timeout(180)

PAGE = "tutorial/chat.md"
#: The ports of the page.
ENGINE, BACKEND, GATEWAY = "8000", "8070", "http://127.0.0.1:8090"


@pytest.fixture
def anyio_backend() -> str:
    """One loop is enough: the other processes matter."""
    return "asyncio"


@pytest.fixture
def python() -> str:
    return interpreter("OPENAI_PYTHON", "openai, aiohttp and boto3", "interop-openai")


def written(folder: Path, here: Mapping[str, str]) -> list[Path]:
    """Write the page's programs, with other ports."""
    files = []
    programs = blocks(PAGE, "python")
    for name, text in zip(("engine.py", "deploy.py", "backend.py"), programs, strict=True):
        for printed, port in here.items():
            text = text.replace(printed, port)
        assert f"This is `{name}`" in page(PAGE) or f"it is `{name}`" in page(PAGE)
        files.append(folder / name)
        files[-1].write_text(text, "utf-8")
    return files


async def test_the_steps(python: str, tmp_path: Path) -> None:
    (settings,) = blocks(PAGE, "toml")
    told = re.findall(r'^curl -N (\S+) -d "(.*)"$', page(PAGE), re.MULTILINE)
    answers = re.findall(r"^(?:Turn \d|The assistant cannot).*\n", page(PAGE), re.MULTILINE)
    assert len(told) == len(answers) == 3
    engine_port, backend_port = free_port(), free_port()
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(ServedGateway.start(tmp_path, settings, None))
        client = await stack.enter_async_context(aiohttp.ClientSession())
        here = {GATEWAY: gateway.http, ENGINE: str(engine_port), BACKEND: str(backend_port)}
        engine, deploy, backend = written(tmp_path, here)

        async def answer(number: int) -> str:
            url, turn = told[number]
            async with client.post(url.replace(BACKEND, str(backend_port)), data=turn) as found:
                return await found.text()

        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        done = await ended(python, str(deploy), environment=environment, directory=tmp_path)
        assert done.output == "assistant is in service\n", done.errors
        await stack.enter_async_context(running(python, backend, backend_port))
        async with running(python, engine, engine_port):
            assert [await answer(0), await answer(1)] == answers[:2]
        assert await answer(2) == answers[2]
        async with running(python, engine, engine_port):
            assert await answer(2) == "Turn 3: you said are you there\n"
