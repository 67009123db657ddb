"""The programs of "Chat with LiteLLM, LangChain, Strands and others" as they are printed.

Run by ``make interop-chat``. Each one asks the engine of "Chat with OpenAI's clients".
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interop.aws_sdk import ServedGateway
from tests.interop.js_sdk import installed
from tests.interop.served_api import (
    HOST,
    SHOWN,
    blocks,
    ended,
    free_port,
    interpreter,
    running,
    surroundings,
)

pytestmark = pytest.mark.timeout(300)

PAGE, ENGINE_PAGE = "how-to/chat-clients.md", "how-to/openai.md"
PROGRAMS = [*blocks(PAGE, "python"), *blocks(PAGE, "js")]
JS = Path(__file__).parent / "chat_clients" / "js"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: the other processes matter."""
    return "asyncio"


@pytest.fixture(scope="module")
def python() -> str:
    return interpreter("CHAT_PYTHON", "each client but Strands", "interop-chat")


@pytest.fixture(scope="module")
async def gateway(python: str, tmp_path_factory) -> AsyncIterator[ServedGateway]:
    """A gateway before the page's engine."""
    directory, port = tmp_path_factory.mktemp("gateway"), free_port()
    program = directory / "engine.py"
    printed = blocks(ENGINE_PAGE, "python")[0]
    text = printed.replace("port=8080", f"port={port}")
    assert text != printed
    program.write_text(text, "utf-8")
    config = f'[endpoints.chat]\nurl = "http://{HOST}:{port}"\n'
    async with (
        running(python, program, port),
        ServedGateway.start(directory, config, None) as gateway,
    ):
        yield gateway


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.splitlines()[0])
async def test_a_program(python: str, gateway: ServedGateway, tmp_path: Path, program: str) -> None:
    is_js = program.startswith("//")
    if is_js:
        (tmp_path / "node_modules").symlink_to(installed(JS) / "node_modules")
        python = "node"
    elif "Strands" in program.splitlines()[0]:
        python = interpreter("STRANDS_PYTHON", "strands-agents[openai,sagemaker]", "interop-chat")
    file = tmp_path / ("program.mjs" if is_js else "program.py")
    file.write_text(program.replace(SHOWN, gateway.http), "utf-8")
    environment = surroundings(tmp_path, gateway.http, python)
    environment["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # the other one is a download
    done = await ended(python, str(file), environment=environment, directory=tmp_path)
    assert done.status == 0, done.errors
    assert re.fullmatch(r"(GOOD\s*MORNING\s*)+", done.output)
