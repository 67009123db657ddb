"""The tutorial "A chat backend" as it is printed, on free ports.

Run by ``make interop-openai OPENAI_PYTHON=…``.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.interop.aws_sdk import ServedGateway
from tests.interop.served_api import blocks, ended, interpreter
from tests.test_docs import page

pytestmark = pytest.mark.timeout(180)

PAGE = "tutorial/chat.md"
HOST = "127.0.0.1"
#: The ports of the page.
ENGINE, BACKEND, GATEWAY = "8000", "8070", "http://127.0.0.1:8090"


@pytest.fixture
def anyio_backend() -> str:
    """One loop is enough: the other processes matter."""
    return "asyncio"


@pytest.fixture
def python() -> str:
    return interpreter("OPENAI_PYTHON", "openai, aiohttp and boto3", "interop-openai")


def free_port() -> str:
    with socket.create_server((HOST, 0)) as free:
        return str(free.getsockname()[1])


@asynccontextmanager
async def running(python: str, program: Path, port: str) -> AsyncIterator[None]:
    """Run a program until it is left; it is entered once the port takes connections."""
    process = await asyncio.create_subprocess_exec(python, str(program))
    try:
        async with asyncio.timeout(60):
            while not await _accepts(port):
                assert process.returncode is None, f"{program.name} has ended"
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _accepts(port: str) -> bool:
    """Whether something listens; after a short wait if not."""
    try:
        _, writer = await asyncio.open_connection(HOST, int(port))
    except ConnectionError:
        await asyncio.sleep(0.1)
        return False
    writer.close()
    return True


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
        here = {GATEWAY: gateway.http, ENGINE: engine_port, BACKEND: backend_port}
        engine, deploy, backend = written(tmp_path, here)

        async def answer(number: int) -> str:
            url, turn = told[number]
            async with client.post(url.replace(BACKEND, backend_port), data=turn) as found:
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
