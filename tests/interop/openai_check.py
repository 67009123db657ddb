"""OpenAI's client, unmodified, against ``partway serve``.

Run by ``make interop-openai OPENAI_PYTHON=…``. The programs of the documentation run as printed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from partway.protocol.signatures.api_keys import make_api_key
from partway.protocol.signatures.verification import Credentials
from tests.interop.aws_sdk import REGION, ROOT, ServedGateway
from tests.interop.served_api import (
    HOST,
    SHOWN,
    Ended,
    blocks,
    ended,
    free_port,
    interpreter,
    running,
)

pytestmark = pytest.mark.timeout(180)

PAGE = "how-to/openai.md"
CLIENT = ROOT / "tests" / "interop" / "openai_client.py"
ENGINE = ROOT / "tests" / "interop" / "openai_engine.py"

KEY_ID, SECRET = "AKIDCHATBACKEND", "a-secret-of-your-own"
(PRINCIPALS,) = blocks(PAGE, "toml")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: the other processes matter."""
    return "asyncio"


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter that has the client."""
    return interpreter("OPENAI_PYTHON", "openai[realtime] and aiohttp", "interop-openai")


@pytest.fixture
def run(python: str, tmp_path: Path) -> Callable[..., Awaitable[Ended]]:
    """Runs a program on the client."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    return lambda *words: ended(python, *words, environment=environment, directory=tmp_path)


@asynccontextmanager
async def engine(python: str, program: Path) -> AsyncIterator[int]:
    """Run an engine on a free port; yield the port."""
    port = free_port()
    async with running(python, program, port, str(port)):
        yield port


async def test_the_programs_of_the_page(
    python: str, run: Callable[..., Awaitable[Ended]], tmp_path: Path
) -> None:
    engine_block, client_block = blocks(PAGE, "python")
    program = tmp_path / "engine.py"
    text = engine_block.replace("port=8080", "port=int(__import__('sys').argv[1])")
    assert text != engine_block
    program.write_text(text, "utf-8")
    async with engine(python, program) as port:
        config = f'[endpoints.chat]\nurl = "http://{HOST}:{port}"\n'
        async with ServedGateway.start(tmp_path, config, None) as gateway:
            done = await run("-c", client_block.replace(SHOWN, gateway.http))
    assert done.status == 0, done.errors
    page = (ROOT / "docs" / PAGE).read_text("utf-8")
    assert f"```\n{done.output}```\n" in page


@pytest.mark.parametrize("by_model", [False, True], ids=["endpoint in the path", "in the model"])
@pytest.mark.parametrize("signed", [False, True], ids=["no authentication", "an API key"])
async def test_all_that_the_client_asks(
    python: str,
    run: Callable[..., Awaitable[Ended]],
    tmp_path: Path,
    *,
    by_model: bool,
    signed: bool,
) -> None:
    key = "unused"
    if signed:
        key = make_api_key(Credentials(KEY_ID, SECRET), region=REGION, now=time.time())
    async with engine(python, ENGINE) as port:
        config = f'[endpoints.chat]\nurl = "http://{HOST}:{port}"\n'
        principals = PRINCIPALS if signed else None
        async with ServedGateway.start(tmp_path, config, principals) as gateway:
            path = "/openai/v1" if by_model else "/endpoints/chat/openai/v1"
            model = "chat" if by_model else "of-the-engine"
            done = await run(str(CLIENT), gateway.http + path, model, key)
    assert done.status == 0, done.errors
    got = json.loads(done.output)
    seen = "" if by_model else model
    assert got["stream"] == [repr(seen)]
    kind, message, code, _ = got["break"]
    assert (kind, code) == ("APIError", "model_error")
    assert "ended in the middle of the body" in message
    assert got["busy"][0] == "RateLimitError"
    assert "slow down" in got["busy"][1]
    assert got["busy"][2:] == ["rate_limit_exceeded", True]
    assert got["elsewhere"][0] == "NotFoundError"
    assert got["upload"] == f"{seen!r} 300000"
    assert got["realtime"] == ["session.created", f"model={seen}", "response.create"]
    if by_model:
        assert got["models"] == ["chat"]
        assert got["unknown"][0] == "BadRequestError"
        assert "Endpoint none of account" in got["unknown"][1]
        assert got["unknown"][2:] == ["validation_error", True]
    else:
        assert got["models"][0] == "NotFoundError"
